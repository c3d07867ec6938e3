//! Short calls beside long ones: on the same connection as fast as on another one.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use psp_rpc_client::Client;
use psp_rpc_client::envelope::Status;
use psp_rpc_client::methods::Work;

use crate::common::Server;

const SHORT: Work = Work { duration_us: 10 };
const LONG: Work = Work { duration_us: 1_000 };
const ROUNDS: usize = 15;
/// Short calls of a round; a long one begins with every tenth.
const CALLS: usize = 1_000;
const INTERVAL: Duration = Duration::from_micros(500);

/// The 99th percentile of the short calls of `client`, in microseconds. `other` has the long ones; without it, `client` has.
fn p99_us(client: &mut Client, mut other: Option<&mut Client>) -> f64 {
    let (mut open, mut took_us) = (HashMap::new(), Vec::new());
    for call in 0..CALLS {
        let began = Instant::now();
        if call % 10 == 0 {
            let id = other.as_deref_mut().unwrap_or(client).submit("Spin", 0, &LONG).unwrap();
            open.insert((other.is_some(), id), None);
        }
        let id = client.submit("Spin", 0, &SHORT).unwrap();
        open.insert((false, id), Some(began));
        // The long call may go on while the next short ones come.
        while open.values().any(Option::is_some) {
            let response = client.receive().expect("a response");
            assert_eq!(response.status(), Status::Ok);
            if let Some(began) = open.remove(&(false, response.id)).expect("its id") {
                took_us.push(began.elapsed().as_secs_f64() * 1e6);
            }
        }
        std::thread::sleep(INTERVAL.saturating_sub(began.elapsed()));
    }
    for _ in 0..open.len() {
        other.as_deref_mut().unwrap_or(client).receive().expect("a response");
    }
    took_us.sort_by(f64::total_cmp);
    took_us[took_us.len() * 99 / 100]
}

#[test]
#[ignore = "compares times, on a quiet machine"]
fn short_calls_beside_long_ones_are_as_fast_as_on_a_connection_of_their_own() {
    let server = Server::start(&["--policy", "darc", "--topology", "dedicated", "--workers", "2"]);
    let mut ratios = Vec::new();
    for round in 0..=ROUNDS {
        let (mut one, mut two) = (server.connect(), server.connect());
        let alone = p99_us(&mut two, Some(&mut server.connect()));
        let together = p99_us(&mut one, None);
        println!("p99 of short calls: {together:.0} us on one connection, {alone:.0} us on two");
        // The first round is for the policy to learn.
        ratios.extend((round > 0).then_some(together / alone));
    }
    ratios.sort_by(f64::total_cmp);
    assert!(ratios[ROUNDS / 2] < 1.5, "{ratios:?}");
}
