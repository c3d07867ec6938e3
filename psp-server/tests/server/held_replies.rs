//! Replies that wait for something before they are sent.

use std::sync::{Arc, Mutex};

use psp_server::protocols::Sink;
use psp_server::sync::oneshot::{self, Receiver, Sender};
use psp_server::{Config, Handler, Policy, Reply, Request, Server, SpawnedServer, Topology};
use tempfile::TempDir;

use crate::common::{Client, Lines, OfLines, Spawned, until, without_state};

/// Holds the replies of a run that has a `write`, until the test lets them go.
#[derive(Clone, Default)]
struct Holding {
    writes: Arc<Mutex<usize>>,
    held: Arc<Mutex<Vec<Sender<()>>>>,
}

impl Handler for Holding {
    without_state!();

    fn replies_wait_for(&self, (): &()) -> Option<Receiver<()>> {
        let writes = std::mem::take(&mut *self.writes.lock().unwrap());
        (writes > 0).then(|| {
            let (sender, receiver) = oneshot::channel();
            self.held.lock().unwrap().push(sender);
            receiver
        })
    }

    fn handle(&self, (): &mut (), request: Request<'_, ()>, reply: &mut Reply<'_>) {
        if request.payload.starts_with(b"write") {
            *self.writes.lock().unwrap() += 1;
        }
        reply.put(request.payload);
    }
}

impl Holding {
    fn held(&self) -> usize {
        self.held.lock().unwrap().len()
    }

    fn next(&self) -> Sender<()> {
        self.held.lock().unwrap().remove(0)
    }
}

fn start(topology: Topology) -> (SpawnedServer, Holding, TempDir) {
    let policy = match topology {
        Topology::Distributed => Policy::d_fcfs(),
        _ => Policy::c_fcfs(),
    };
    let (directory, holding) = (tempfile::tempdir().unwrap(), Holding::default());
    let server = Server::builder()
        .unix(directory.path().join("server.sock"))
        .framing(Lines)
        .policy(policy)
        .config(Config::default().topology(topology).workers(1))
        .handler(holding.clone())
        .spawned();
    (server, holding, directory)
}

const TOPOLOGIES: [Topology; 3] = [Topology::Inline, Topology::Dedicated, Topology::Distributed];

#[test]
fn a_pipeline_waits_once_and_others_go_on() {
    for topology in TOPOLOGIES {
        let (server, holding, directory) = start(topology);
        let connect = || Client::unix(&directory.path().join("server.sock"));
        let (mut writer, mut reader) = (connect(), connect());
        writer.send("write 1\nread 1\nwrite 2\n");
        until("the replies are held", || holding.held() == 1);
        for number in 0..100 {
            let request = format!("read {number}");
            assert_eq!(reader.ask(&request), request, "{topology}: the only worker is free");
        }
        assert_eq!(holding.held(), 1, "{topology}: one wait for what came together");
        holding.next().send(()).unwrap();
        assert_eq!(
            [writer.line(), writer.line(), writer.line()],
            ["write 1", "read 1", "write 2"],
            "{topology}"
        );
        server.stop();
    }
}

#[test]
fn replies_that_nothing_lets_go_are_discarded_with_their_connection() {
    for topology in TOPOLOGIES {
        let (server, holding, directory) = start(topology);
        let connect = || Client::unix(&directory.path().join("server.sock"));
        let mut writer = connect();
        assert_eq!(writer.ask("read"), "read");
        writer.send("write\n");
        until("the reply is held", || holding.held() == 1);
        drop(holding.next());
        assert_eq!(writer.rest(), "", "{topology}: no reply comes");
        assert_eq!(connect().ask("read"), "read", "{topology}");
        server.stop();
    }
}
