//! Writes that wait for the medium leave their worker to others.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use crate::common::Connection;
use psp_harness::{DEADLINE, wait_until};
use psp_protocols::rpc::Status;
use psp_rocksdb::closing::close;
use psp_rocksdb::config::Config;
use psp_rocksdb::engine::{Engine, EngineError, Memory, Visit};
use psp_rocksdb::startup;
use psp_server::{Policy, PreemptPolicy, Topology};

const WRITERS: usize = 6;
/// Fewer than writers.
const HELPERS: usize = 4;

/// A store in memory whose medium takes writes when it is open.
#[derive(Default)]
struct SlowMedium {
    entries: Memory,
    is_open: Mutex<bool>,
    opens: Condvar,
    /// Writes that have begun to wait.
    begun: AtomicUsize,
    /// Whether the next write fails.
    is_broken: AtomicBool,
}

impl SlowMedium {
    fn set_open(&self, is_open: bool) {
        *self.is_open.lock().unwrap() = is_open;
        self.opens.notify_all();
    }

    fn sync(&self) -> Result<(), EngineError> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        let is_open = self.is_open.lock().unwrap();
        drop(self.opens.wait_while(is_open, |is_open| !*is_open).unwrap());
        match self.is_broken.swap(false, Ordering::SeqCst) {
            true => Err(EngineError("broken".to_owned())),
            false => Ok(()),
        }
    }
}

impl Engine for SlowMedium {
    fn get(&self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool, EngineError> {
        self.entries.get(key, found)
    }

    fn scan(&self, start: &[u8], visit: &mut Visit<'_>) -> Result<(), EngineError> {
        self.entries.scan(start, visit)
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), EngineError> {
        self.sync()?;
        self.entries.put(key, value)
    }

    fn delete(&self, key: &[u8]) -> Result<(), EngineError> {
        self.sync()?;
        self.entries.delete(key)
    }

    fn waits_for_medium(&self) -> bool {
        true
    }
}

/// Opens the medium at the end of the test, also when that fails.
struct Opens(Arc<SlowMedium>);

impl Drop for Opens {
    fn drop(&mut self) {
        self.0.set_open(true);
    }
}

/// A server with one worker, one of whose writers waits beside the others.
fn others_run_while_writes_wait(preempt: PreemptPolicy, at_once: usize) {
    let medium = Arc::new(SlowMedium::default());
    medium.entries.put(b"old", b"value").unwrap();
    let opens = Opens(medium.clone());
    let mut config = Config { port: 0, policy: Policy::c_fcfs(), ..Config::default() };
    config.server.workers = Some(1.into());
    config.server.topology = Topology::Dedicated;
    config.server.preempt = preempt;
    config.server.blocking_threads_max = HELPERS;
    let engine: Arc<dyn Engine> = medium.clone();
    let served = startup::serve(engine, config).unwrap();
    let (server, engine) = (served.server, served.engine);
    let address = server.local_addrs()[0];
    let handle = server.handle();
    let running = thread::spawn(move || server.run().unwrap());

    let begun = || medium.begun.load(Ordering::SeqCst);
    let keys: Vec<_> = (0..WRITERS).map(|writer| vec![b'k', b'0' + writer as u8]).collect();
    let writers: Vec<_> = keys
        .iter()
        .map(|key| {
            let key = key.clone();
            thread::spawn(move || Connection::open(address).put(&key, &key.repeat(3)))
        })
        .collect();
    wait_until("as many writes as may wait for the medium", || begun() == at_once);
    let mut other = Connection::open(address);
    for round in 0..20 {
        assert_eq!(other.get(b"old").unwrap(), b"value", "{preempt} {round}");
        assert_eq!(other.summary(b"", 10).unwrap().count, 1, "{preempt} {round}");
    }
    assert_eq!(begun(), at_once, "{preempt}");
    assert!(writers.iter().all(|writer| !writer.is_finished()), "{preempt}: not acknowledged");

    medium.set_open(true);
    for writer in writers {
        writer.join().unwrap().unwrap();
    }
    for key in &keys {
        assert_eq!(other.get(key).unwrap(), key.repeat(3), "{preempt}");
    }
    other.delete(&keys[0]).unwrap();
    assert_eq!(other.get(&keys[0]).unwrap_err().0, Status::NotFound, "{preempt}");
    medium.is_broken.store(true, Ordering::SeqCst);
    let (status, message) = other.put(b"lost", b"").unwrap_err();
    assert_eq!(status, Status::Internal, "{preempt}: {message}");
    assert_eq!(begun(), WRITERS + 2, "{preempt}");

    handle.shut_down();
    assert_eq!(running.join().unwrap().abandoned, 0, "{preempt}");
    drop((opens, medium));
    assert!(close(engine, DEADLINE), "{preempt}: no helper holds the store");
}

#[test]
fn others_run_while_helpers_wait_for_the_medium() {
    for preempt in [PreemptPolicy::Cooperative, PreemptPolicy::None] {
        others_run_while_writes_wait(preempt, HELPERS);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn others_run_while_requests_threads_wait_for_the_medium() {
    others_run_while_writes_wait(PreemptPolicy::KernelThread, WRITERS);
}
