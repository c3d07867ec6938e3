//! Datagrams through a port of DPDK, by the net thread beside TCP on a socket of the kernel, and by workers.

#[path = "e2e/common/mod.rs"]
mod common;

use std::net::SocketAddr;

use common::{Server, ask};
use prost::Message;
use psp_harness::{DEADLINE, TAP_FLAGS, TAP_SERVER, Wire, in_own_network, raise_tap};
use psp_program::{Transport, TransportConfig};
use psp_rpc::config::Config;
use psp_rpc::startup;
use psp_rpc_client::envelope::{Request, Response, Status};
use psp_rpc_client::methods::{Numbers, Total, Work};
use psp_rpc_client::{Client, Payload, decode};
use psp_server::{Policy, Topology};

const PORT: u16 = 7100;
const WORKERS: usize = 2;

fn call(id: u64, method: &str, payload: impl Payload) -> Vec<u8> {
    let request = Request {
        id,
        method: method.to_owned(),
        deadline_us: 0,
        payload: payload.into_bytes(),
    };
    request.encode_length_delimited_to_vec()
}

fn response(datagram: &[u8]) -> Response {
    Response::decode_length_delimited(datagram).unwrap()
}

#[test]
fn workers_answer_calls_of_their_own_queues_and_short_ones_pass_long_ones() {
    let wire = Wire::new(WORKERS);
    for policy in [Policy::d_fcfs(), Policy::stealing()] {
        let server = startup::build(Config {
            bind: Vec::new(),
            port: PORT,
            udp: true,
            transport: TransportConfig { name: Transport::Dpdk, dpdk: wire.server(PORT) },
            policy,
            server: psp_server::Config::default()
                .topology(Topology::Distributed)
                // Else a worker that steps back gets nothing of a busy machine.
                .background_nice(0)
                .workers(WORKERS),
            ..Config::default()
        });
        let running = server.unwrap().spawn().unwrap();
        let mut client = wire.connect(PORT);
        let values = Numbers { values: (1..=100).collect() };
        for id in 1..=100 {
            let queue = id as usize % WORKERS;
            let echo = response(&client.ask(queue, &call(id, "Echo", b"hello".to_vec())));
            assert_eq!((echo.id, &echo.payload[..]), (id, &b"hello"[..]));
            let sum = response(&client.ask(queue, &call(id, "Sum", &values)));
            assert_eq!(decode::<Total>(&sum).unwrap().value, 5050);
        }
        let workers = running.handle().snapshot().workers;
        let received = workers.iter().map(|worker| worker.datagrams_received);
        assert_eq!(received.collect::<Vec<_>>(), [100, 100]);
        let long = Work { duration_us: 20_000 };
        client.send(0, &call(0, "Spin", &long));
        for id in 1..=5 {
            let echo = response(&client.ask(0, &call(id, "Echo", Vec::new())));
            assert_eq!(echo.id, id, "the response to another call");
        }
        let spin = response(&client.receive()[0]);
        assert_eq!((spin.id, spin.status()), (0, Status::Ok));
        drop(client);
        running.shut_down();
        assert_eq!(running.join().unwrap().abandoned, 0);
    }
}

#[test]
fn calls_are_answered_through_the_port_and_over_tcp() {
    in_own_network("calls_are_answered_through_the_port_and_over_tcp", || {
        let server = Server::start(&TAP_FLAGS);
        raise_tap();
        let port = server.process.address().port();
        let datagrams = Client::datagrams(SocketAddr::from((TAP_SERVER, port))).unwrap();
        datagrams.set_timeout(DEADLINE).unwrap();
        for mut client in [datagrams, server.connect()] {
            let echo = ask(&mut client, "Echo", b"hello".to_vec());
            assert_eq!((echo.status(), &echo.payload[..]), (Status::Ok, &b"hello"[..]));
            let values = Numbers { values: (1..=100).collect() };
            let total: Total = decode(&ask(&mut client, "Sum", &values)).unwrap();
            assert_eq!(total.value, 5050);
            let spin = ask(&mut client, "Spin", &Work { duration_us: 500 });
            assert_eq!(spin.status(), Status::Ok);
            let unknown = ask(&mut client, "Dance", Vec::new());
            assert_eq!(unknown.status(), Status::Unimplemented);
        }
        assert_eq!(server.stats_of("sum").completions, 2);
    });
}
