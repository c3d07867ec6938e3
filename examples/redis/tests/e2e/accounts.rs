//! Clients that move amounts between accounts, the keys `account0` to `account3`: the sum of all stays the same.

use std::thread;

use crate::common::{Connection, Server};

/// Clients that move amounts.
pub(crate) const CLIENTS: usize = 4;
/// How many accounts there are.
pub(crate) const ACCOUNTS: usize = 4;

const TOTAL: usize = 4000;

/// Has each client try `transfer(client, client's number, step)` so many `steps`, and asserts that `sum` is the same
/// before each of its calls and in the end. Returns how many transfers said that they were carried out.
pub(crate) fn sums_stay_whole(
    server: &Server,
    topology: &str,
    steps: usize,
    transfer: impl Fn(&mut Connection, usize, usize) -> bool + Sync,
    mut sum: impl FnMut(&mut Connection) -> String,
) -> usize {
    let mut witness = server.connect();
    for account in 0..ACCOUNTS {
        witness.ask(&format!("SET account{account} {}", TOTAL / ACCOUNTS));
    }
    let carried_out = thread::scope(|scope| {
        let transfer = &transfer;
        let movers: Vec<_> = (0..CLIENTS)
            .map(|seed| {
                let mut client = server.connect();
                scope.spawn(move || (0..steps).filter(|&step| transfer(&mut client, seed, step)).count())
            })
            .collect();
        while !movers.iter().all(thread::ScopedJoinHandle::is_finished) {
            assert_eq!(sum(&mut witness), TOTAL.to_string(), "{topology}");
        }
        let counts = movers.into_iter().map(|mover| mover.join().unwrap());
        counts.sum()
    });
    assert_eq!(sum(&mut witness), TOTAL.to_string(), "{topology}");
    carried_out
}

/// From which account to which one, and how much.
pub(crate) fn step(seed: usize, step: usize) -> [usize; 3] {
    [(seed + step) % ACCOUNTS, (seed * 3 + step * 7 + 1) % ACCOUNTS, step % 13]
}
