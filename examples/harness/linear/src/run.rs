//! A test of a running server: records histories, and checks each.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::checker::check;
use crate::model::Operation;
use crate::partition::partitions;
use crate::recorder::{Client, Recorder};

/// How many clients talk to the server.
const CLIENTS: usize = 5;
/// Requests that are recorded before they are checked.
const HISTORY_LEN: u64 = 50_000;
/// The number of requests, in place of the test's own.
const OPERATIONS: &str = "PSP_LINEAR_OPERATIONS";
/// The seed of the clients, in place of a random one.
const SEED: &str = "PSP_LINEAR_SEED";

/// Lets five clients send `requests` to a server, or as many as `PSP_LINEAR_OPERATIONS` says. One in a hundred of their
/// exchanges ends with the end of its connection. `meanwhile` runs again and again beside them.
///
/// # Panics
/// When the history is not linearizable. The message has the seed, and the calls around the one that no order
/// explains. The same seed, as `PSP_LINEAR_SEED`, makes clients draw the same requests; how they overlap differs.
pub fn assert_linearizable<O, C>(requests: u64, connect: impl Fn() -> C + Sync, mut meanwhile: impl FnMut() + Send)
where
    O: Operation + Send,
    O::Reply: Send,
    C: Client<O>,
{
    let requests = setting(OPERATIONS).unwrap_or(requests);
    let seed = setting(SEED).unwrap_or_else(rand::random);
    let mut recorder = Recorder::new(seed);
    let ends = &AtomicBool::new(false);
    let (mut parts, mut pending) = (0, 0);
    thread::scope(|scope| {
        let _end = EndOnDrop(ends);
        scope.spawn(move || {
            while !ends.load(Ordering::Relaxed) {
                meanwhile();
            }
        });
        while recorder.requests() < requests {
            let last = requests.min(recorder.requests() + HISTORY_LEN);
            let calls = recorder.record(CLIENTS, last, &connect);
            pending += calls.iter().filter(|call| call.reply.is_none()).count();
            for part in partitions(calls) {
                parts += 1;
                if let Err(failure) = check(&part) {
                    panic!("{SEED}={seed}: {failure}");
                }
            }
        }
    });
    let requests = recorder.requests();
    println!("{requests} requests in {parts} parts, {pending} of them pending, are linearizable");
}

fn setting(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name}={value} is no number")))
}

/// Ends what runs meanwhile, also when a client panics.
struct EndOnDrop<'a>(&'a AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
