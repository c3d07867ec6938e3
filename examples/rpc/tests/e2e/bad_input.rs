//! Peers that send what no client sends.

use psp_harness::{send_from_its_own_port, skip, wait_until};
use psp_protocols::rpc::{Request, Response, Status};
use psp_rpc_client::envelope;

use crate::common::{Server, TWO_WORKERS, ask};

fn request() -> Vec<u8> {
    let mut frame = Vec::new();
    let request = Request { id: 1, method: "Nosuch".to_owned(), ..Request::default() };
    request.encode_frame(&mut frame);
    frame
}

/// Otherwise one datagram with a forged source makes a server answer its own replies for ever.
#[test]
fn datagrams_from_the_servers_own_port_and_responses_are_dropped() {
    for server in Server::start_each("") {
        let mut client = server.datagrams();
        let ok = Response { id: 1, payload: request().into(), ..Response::default() };
        for response in [ok, Response::failed(1, Status::Unimplemented, "no such method".to_owned())] {
            let mut frame = Vec::new();
            response.encode_frame(&mut frame);
            client.send(&frame).unwrap();
        }
        assert_eq!(ask(&mut client, "Echo", Vec::new()).status(), envelope::Status::Ok);
        assert_eq!(server.stats().reflected_datagrams, 2);

        let port = server.process.address().port();
        if send_from_its_own_port(port, &request()).is_err() {
            return skip("no right to forge datagrams");
        }
        wait_until("it is dropped", || server.stats().reflected_datagrams == 3);
        assert_eq!(ask(&mut client, "Echo", Vec::new()).status(), envelope::Status::Ok);
        assert_eq!(server.stats().reflected_datagrams, 3);
    }
}

/// Responses to a forged source reach a victim.
#[test]
fn a_source_gets_no_more_than_its_bytes() {
    // A response of 1000 bytes takes a source 100 seconds.
    let config = "[server]\ndatagram-bytes-per-source-per-s = 10\n";
    let inline: &[&str] = &["--topology", "inline"];
    for flags in [inline].into_iter().chain(TWO_WORKERS) {
        let server = Server::start_with(flags, config);
        let mut client = server.datagrams();
        let echoed = ask(&mut client, "Echo", vec![7; 1000]);
        assert_eq!(echoed.status(), envelope::Status::Ok);
        // The server counts a response a moment after it has sent it.
        wait_until("datagrams are dropped", || {
            client.send(&request()).unwrap();
            server.stats().over_budget_datagrams > 2
        });
    }
}

/// It is no bad input: many clients do so.
#[test]
fn who_writes_all_before_it_reads_gets_all_responses() {
    const REQUESTS: u64 = 4000;
    for server in Server::start_each("") {
        let mut client = server.connect();
        for _ in 0..REQUESTS {
            client.submit("Echo", 0, vec![7; 5000]).expect("the server reads");
        }
        let mut ids: Vec<u64> = (0..REQUESTS)
            .map(|_| {
                let response = client.receive().expect("a response");
                assert_eq!(response.status(), envelope::Status::Ok);
                assert_eq!(response.payload.len(), 5000);
                response.id
            })
            .collect();
        ids.sort_unstable();
        assert!(ids.iter().copied().eq(1..=REQUESTS));
    }
}
