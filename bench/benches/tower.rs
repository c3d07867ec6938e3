//! What a request costs in psp-tower's layer, beside the bare service and one that computes in
//! `tokio::task::spawn_blocking`. The service answers at once.

use std::convert::Infallible;
use std::hint::black_box;
use std::time::Duration;

use criterion::{Bencher, Criterion, Throughput, criterion_group, criterion_main};
use http::{Request, Response};
use psp_pool::policy::Policy;
use psp_pool::{Pool, RequestType, TypeSpec};
use psp_tower::PspLayer;
use tokio::runtime::Runtime;
use tower::{Layer, Service, ServiceExt, service_fn};

/// Requests that are sent together.
const TOGETHER: usize = 16;
/// What the policy expects of requests. Shorter than what the layer polls where it arrives.
const EXPECTED: Duration = Duration::from_micros(1);

async fn answer(request: Request<u64>) -> Result<Response<u64>, Infallible> {
    Ok(Response::new(black_box(request.into_body())))
}

fn answer_elsewhere(request: Request<u64>) -> impl Future<Output = Result<Response<u64>, Infallible>> {
    let answered = tokio::task::spawn_blocking(move || Response::new(black_box(request.into_body())));
    async { Ok(answered.await.expect("the closure returns")) }
}

fn layer(runtime: &Runtime, inline_below: Option<Duration>) -> PspLayer<impl Fn(&Request<u64>) -> RequestType + use<>> {
    let types = [TypeSpec::new("short").service_time(EXPECTED), TypeSpec::new("long")];
    let pool = Pool::builder().types(types).workers(1).policy(Policy::sjf());
    let pool = pool.tokio(runtime.handle().clone()).build().expect("a pool");
    let layer = PspLayer::new(pool, |request: &Request<u64>| {
        RequestType::new(u32::from(request.uri().path() == "/long"))
    });
    match inline_below {
        None => layer,
        Some(mean) => layer.inline_below(mean),
    }
}

/// One request after the other.
fn ask<S, B>(b: &mut Bencher<'_>, runtime: &Runtime, mut service: S)
where
    S: Service<Request<u64>, Response = Response<B>, Error = Infallible>,
{
    b.iter(|| {
        let request = Request::get("/").body(1).expect("a request");
        runtime.block_on(async { service.ready().await?.call(request).await })
    });
}

/// Several requests at a time: the next ones are sent when all are answered.
fn ask_together<S, B>(b: &mut Bencher<'_>, runtime: &Runtime, mut service: S)
where
    S: Service<Request<u64>, Response = Response<B>, Error = Infallible>,
{
    let mut asked = Vec::with_capacity(TOGETHER);
    b.iter(|| {
        runtime.block_on(async {
            for _ in 0..TOGETHER {
                let request = Request::get("/").body(1).expect("a request");
                asked.push(service.ready().await?.call(request));
            }
            for answer in asked.drain(..) {
                black_box(answer.await?);
            }
            Ok::<_, Infallible>(())
        })
    });
}

fn requests(c: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let runtime = runtime.expect("a runtime");
    let mut group = c.benchmark_group("inline");
    group.bench_function("bare", |b| {
        ask(b, &runtime, service_fn(answer));
    });
    group.bench_function("layer", |b| {
        ask(b, &runtime, layer(&runtime, None).layer(service_fn(answer)));
    });
    group.finish();
    let pooling = || layer(&runtime, Some(Duration::ZERO)).layer(service_fn(answer));
    let mut group = c.benchmark_group("pooled");
    group.bench_function("spawn_blocking", |b| {
        ask(b, &runtime, service_fn(answer_elsewhere));
    });
    group.bench_function("layer", |b| ask(b, &runtime, pooling()));
    group.finish();
    let mut group = c.benchmark_group("pooled_together");
    group.throughput(Throughput::Elements(TOGETHER as u64));
    group.bench_function("spawn_blocking", |b| {
        ask_together(b, &runtime, service_fn(answer_elsewhere));
    });
    group.bench_function("layer", |b| ask_together(b, &runtime, pooling()));
    group.finish();
}

criterion_group!(benches, requests);
criterion_main!(benches);
