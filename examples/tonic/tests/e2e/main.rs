//! The service in its layer, and tonic's own client.

#[path = "../../src/service.rs"]
mod service;

use std::sync::mpsc::Sender;
use std::time::Duration;

use psp_harness::{hold, until};
use psp_pool::policy::Policy;
use psp_pool::{Pool, RequestType, Running, TypeSpec};
use psp_tower::{ByGrpcMethod, PspLayer, TypeSnapshot};
use service::Arithmetic;
use service::api::Number;
use service::api::numbers_client::NumbersClient;
use service::api::numbers_server::NumbersServer;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tonic::codegen::http::HeaderName;
use tonic::codegen::tokio_stream;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Server};
use tonic::{Code, Request};

const PATIENCE: Duration = Duration::from_secs(30);
const DOUBLE: usize = 0;
const SUM_BELOW: usize = 1;
const SUMS: usize = 2;

/// A server, its pool of one worker, and a client.
struct Fixture {
    pool: Pool,
    layer: PspLayer<ByGrpcMethod>,
    client: NumbersClient<Channel>,
    stop: oneshot::Sender<()>,
    server: JoinHandle<Result<(), tonic::transport::Error>>,
}

impl Fixture {
    async fn start() -> Self {
        let methods = ["Double", "SumBelow", "Sums"];
        let methods = methods.map(|it| format!("/psp.numbers.v1.Numbers/{it}"));
        let methods = ByGrpcMethod::new(methods);
        let small = |spec: TypeSpec| spec.queue_capacity(2);
        let pool = Pool::builder().types(methods.types().into_iter().map(small));
        let pool = { pool }.workers(1).spare_threads(0).tokio(Handle::current());
        let pool = pool.build().unwrap();
        let layer = PspLayer::new(pool.clone(), methods)
            .inline_below(Duration::ZERO)
            .deadline_header(HeaderName::from_static("wait-ms"));
        let incoming = TcpIncoming::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = incoming.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let serving = Server::builder()
            .layer(layer.clone())
            .add_service(NumbersServer::new(Arithmetic))
            .serve_with_incoming_shutdown(incoming, async { drop(stopped.await) });
        let server = tokio::spawn(serving);
        let client = NumbersClient::connect(format!("http://{address}"));
        Self { client: client.await.unwrap(), pool, layer, stop, server }
    }

    fn of_type(&self, slot: usize) -> TypeSnapshot {
        self.layer.snapshot().types.swap_remove(slot)
    }

    /// Holds the worker until the gate is dropped.
    fn hold(&self) -> (Sender<()>, Running<()>) {
        hold(&self.pool, RequestType::UNKNOWN)
    }

    /// Ends the server, which has answered everything.
    async fn end(self) {
        drop(self.client);
        self.stop.send(()).unwrap();
        self.server.await.unwrap().unwrap();
        assert_eq!(self.pool.close(PATIENCE).abandoned, 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_and_streams_are_answered() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client.clone();
    let doubled = client.double(Number { value: 21 }).await.unwrap();
    assert_eq!(doubled.into_inner().value, 42);
    let sum = client.sum_below(Number { value: 100 }).await.unwrap();
    assert_eq!(sum.into_inner().value, 4950);
    let numbers = (1..=1000).map(|value| Number { value });
    let answer = client.sums(tokio_stream::iter(numbers)).await.unwrap();
    let mut sums = answer.into_inner();
    for value in 1..=1000 {
        let sum = sums.message().await.unwrap().unwrap();
        assert_eq!(sum.value, value * (value + 1) / 2);
    }
    assert_eq!(sums.message().await.unwrap(), None);
    let too_much = client.sum_below(Number { value: u64::MAX }).await;
    assert_eq!(too_much.unwrap_err().code(), Code::OutOfRange);
    let pooled = [DOUBLE, SUM_BELOW, SUMS].map(|it| fixture.of_type(it).pooled);
    assert_eq!(pooled, [1, 2, 1]);
    drop(client);
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_queue_is_an_exhausted_resource_and_a_late_call_exceeds_its_deadline() {
    let fixture = Fixture::start().await;
    let (gate, held) = fixture.hold();
    let call = |value| {
        let mut client = fixture.client.clone();
        tokio::spawn(async move { client.double(Number { value }).await })
    };
    let waiting = [1, 2].map(call);
    let queued = |slot: usize| fixture.pool.snapshot().types[slot].queued;
    until("both wait", || queued(DOUBLE) == 2).await;
    let refused = call(3).await.unwrap().unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert_eq!(refused.message(), "the queue is full");
    let mut late = Request::new(Number { value: 5 });
    // tonic has timers of its own for `grpc-timeout`.
    let wait = "5".parse().unwrap();
    late.metadata_mut().insert("wait-ms", wait);
    let late = fixture.client.clone().sum_below(late).await.unwrap_err();
    assert_eq!(late.code(), Code::DeadlineExceeded);
    until("the late one has gone", || queued(SUM_BELOW) == 0).await;
    drop(gate);
    held.await.unwrap();
    for (number, waiting) in (1..).zip(waiting) {
        assert_eq!(waiting.await.unwrap().unwrap().into_inner().value, 2 * number);
    }
    let (double, sum_below) = (fixture.of_type(DOUBLE), fixture.of_type(SUM_BELOW));
    assert_eq!((double.shed, double.completed), (1, 2));
    assert_eq!((sum_below.expired, sum_below.cancelled), (1, 0));
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_is_given_up_leaves_the_queue() {
    let fixture = Fixture::start().await;
    let (gate, held) = fixture.hold();
    for _ in 0..5 {
        let mut client = fixture.client.clone();
        let call = tokio::spawn(async move { client.sum_below(Number { value: 5 }).await });
        until("it waits", || fixture.pool.snapshot().types[SUM_BELOW].queued == 1).await;
        call.abort();
        until("it has gone", || fixture.pool.snapshot().types[SUM_BELOW].queued == 0).await;
    }
    let sum_below = fixture.of_type(SUM_BELOW);
    assert_eq!((sum_below.cancelled, sum_below.shed), (5, 0));
    drop(gate);
    held.await.unwrap();
    fixture.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_while_policies_change_and_the_server_ends() {
    let fixture = Fixture::start().await;
    let policies = [Policy::darc(), Policy::sjf(), Policy::c_fcfs()];
    let mut calls = Vec::new();
    for number in 0..300_u64 {
        let mut client = fixture.client.clone();
        let policy = &policies[number as usize % policies.len()];
        fixture.pool.set_policy(policy).unwrap();
        calls.push(tokio::spawn(async move {
            let number = Number { value: number };
            let answer = match number.value % 2 {
                0 => client.double(number).await,
                _ => client.sum_below(number).await,
            };
            answer.map(|it| it.into_inner().value)
        }));
    }
    let mut answered = 0;
    for (number, call) in (0..).zip(calls) {
        match call.await.unwrap() {
            Ok(value) if number % 2 == 0 => assert_eq!(value, 2 * number),
            Ok(value) => assert_eq!(value, number * (number - 1) / 2),
            Err(refused) => {
                assert_eq!(refused.code(), Code::ResourceExhausted);
                continue;
            }
        }
        answered += 1;
    }
    let all = [DOUBLE, SUM_BELOW].map(|it| fixture.of_type(it));
    let completed: u64 = all.iter().map(|it| it.completed).sum();
    let shed: u64 = all.iter().map(|it| it.shed).sum();
    assert_eq!((completed, shed), (answered, 300 - answered));
    fixture.end().await;
}
