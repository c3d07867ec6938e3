//! Handlers that look at pipelined requests before these run.

use std::sync::{Arc, Mutex};

use psp_server::protocols::Sink;
use psp_server::{Config, Foreseen, Handler, Policy, Reply, Request, Server, SpawnedServer, Topology};
use tempfile::TempDir;

use crate::common::{Client, Lines, OfLines, Spawned, without_state};

/// What a handler was called for.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Call {
    Foresee(Vec<String>),
    Handle(String),
}

#[derive(Clone, Default)]
struct Recording(Arc<Mutex<Vec<Call>>>);

fn text(payload: &[u8]) -> String {
    String::from_utf8_lossy(payload.trim_ascii_end()).into_owned()
}

impl Handler for Recording {
    without_state!();

    fn foresee(&self, (): &(), requests: Foreseen<'_>) {
        let texts: Vec<_> = requests.map(|(payload, ())| text(payload)).collect();
        let panics = texts.iter().any(|text| text == "panic");
        self.0.lock().unwrap().push(Call::Foresee(texts));
        assert!(!panics, "as the test wants it");
    }

    fn handle(&self, (): &mut (), request: Request<'_, ()>, reply: &mut Reply<'_>) {
        let payload = request.payload;
        self.0.lock().unwrap().push(Call::Handle(text(payload)));
        reply.put(payload);
    }
}

impl Recording {
    /// The calls since the last time.
    fn take(&self) -> Vec<Call> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// A server, and a client on a Unix socket: what it writes at once, the server reads at once.
fn start(topology: Topology) -> (SpawnedServer, Recording, Client, TempDir) {
    let policy = match topology {
        Topology::Distributed => Policy::d_fcfs(),
        _ => Policy::c_fcfs(),
    };
    let (directory, recording) = (tempfile::tempdir().unwrap(), Recording::default());
    let path = directory.path().join("server.sock");
    let server = Server::builder()
        .unix(&path)
        .framing(Lines)
        .policy(policy)
        .config(Config::default().topology(topology).workers(1))
        .handler(recording.clone())
        .spawned();
    (server, recording, Client::unix(&path), directory)
}

const TOPOLOGIES: [Topology; 3] = [Topology::Inline, Topology::Dedicated, Topology::Distributed];

#[test]
fn pipelined_requests_are_foreseen_before_they_run() {
    const REQUESTS: usize = 100;
    for topology in TOPOLOGIES {
        let (server, recording, mut client, _directory) = start(topology);
        let requests: Vec<_> = (0..REQUESTS).map(|number| number.to_string()).collect();
        client.send(&(requests.join("\n") + "\n"));
        for request in &requests {
            assert_eq!(client.line(), *request, "{topology}");
        }
        let (mut foreseen, mut handled) = (0, Vec::new());
        for call in recording.take() {
            match call {
                // A run that has taken its time ends early, and its rest is foreseen again.
                Call::Foresee(texts) => {
                    assert!((2..=Foreseen::<()>::COUNT_MAX).contains(&texts.len()));
                    let next = &requests[handled.len()..];
                    assert!(next.starts_with(&texts), "{topology}: {texts:?}");
                    foreseen = handled.len() + texts.len();
                }
                Call::Handle(text) => {
                    handled.push(text);
                    let is_last_alone = foreseen + 1 == REQUESTS;
                    assert!(handled.len() <= foreseen || is_last_alone, "{topology}");
                }
            }
        }
        assert_eq!(handled, requests, "{topology}");
        server.stop();
    }
}

#[test]
fn a_request_alone_is_not_foreseen() {
    for topology in TOPOLOGIES {
        let (server, recording, mut client, _directory) = start(topology);
        for number in ["1", "2"] {
            assert_eq!(client.ask(number), number);
        }
        let expected = ["1", "2"].map(|number| Call::Handle(number.into()));
        assert_eq!(recording.take(), expected, "{topology}");
        server.stop();
    }
}

#[test]
fn a_panic_at_foreseeing_costs_no_request() {
    for topology in TOPOLOGIES {
        let (server, recording, mut client, _directory) = start(topology);
        client.send("one\npanic\ntwo\n");
        let replies = [client.line(), client.line(), client.line()];
        assert_eq!(replies, ["one", "panic", "two"], "{topology}");
        // The rest of a run that has taken its time is foreseen again.
        let is_panic = |call: &Call| matches!(call, Call::Foresee(texts) if texts.contains(&"panic".into()));
        let expected = recording.take().iter().filter(|call| is_panic(call)).count();
        let workers = server.handle().snapshot().workers;
        let panics: u64 = workers.iter().map(|worker| worker.panics).sum();
        assert!(panics > 0, "{topology}");
        assert_eq!(panics, expected as u64, "{topology}");
        server.stop();
    }
}
