//! Studies of a policy of one's own: they run beside requests, and may come to nothing.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use crate::common::{Client, PATIENCE, TestServer, start, until};
use psp_server::policy::{Action, Event, Findings, Handover, Scheduler, Study, TypedQueues};
use psp_server::{Config, Policy, Topology};

/// What the next study does.
type Work = fn(&Mutex<Receiver<()>>) -> Findings;

/// What a scheduler has done.
#[derive(Debug, PartialEq, Eq)]
enum Did {
    Asked,
    /// It was told what was chosen.
    Heard(Option<usize>),
}

/// Any type first. After each arrival it has a study done, one at a time, until there is no more work.
struct Studious {
    queues: TypedQueues,
    work: std::slice::Iter<'static, Work>,
    has_arrived: bool,
    /// Lets a study go on that waits.
    gate: Arc<Mutex<Receiver<()>>>,
    did: Sender<Did>,
}

impl Studious {
    fn notes(&self, did: Did) {
        // The test may be over.
        let _ = self.did.send(did);
    }
}

impl Scheduler for Studious {
    fn on_event(&mut self, now_ns: u64, event: Event<'_>) {
        self.has_arrived |= matches!(event, Event::Arrived { .. });
        self.queues.on_event(now_ns, event);
    }

    fn poll(&mut self, now_ns: u64) -> Option<Action> {
        let slot = (0..self.queues.slots()).find(|&slot| self.queues.can_run(slot));
        let refused = self.queues.next_refused();
        refused.or_else(|| self.queues.run(now_ns, slot?))
    }

    fn handover(&mut self) -> Option<&mut dyn Handover> {
        Some(&mut self.queues)
    }

    fn study(&mut self) -> Option<Study> {
        if !std::mem::take(&mut self.has_arrived) {
            return None;
        }
        let (work, gate) = (self.work.next()?, self.gate.clone());
        self.notes(Did::Asked);
        Some(Study::new(move || work(&gate)))
    }

    fn conclude(&mut self, _: u64, findings: Option<&Findings>) {
        self.notes(Did::Heard(findings.map(Findings::choice)));
    }
}

/// A server whose policy has this work done, with the ends of its channels.
fn studious(topology: Topology, work: &'static [Work]) -> (TestServer, Sender<()>, Receiver<Did>) {
    let (open, gate) = channel();
    let (did, deeds) = channel();
    let gate = Arc::new(Mutex::new(gate));
    let policy = Policy::custom("studious", move |setup| {
        Box::new(Studious {
            queues: TypedQueues::new(setup),
            work: work.iter(),
            has_arrived: false,
            gate: gate.clone(),
            did: did.clone(),
        })
    });
    let server = start(policy, topology, Config::default().workers(2));
    (server, open, deeds)
}

fn waits(gate: &Mutex<Receiver<()>>) -> Findings {
    let gate = gate.lock().unwrap();
    let _ = gate.recv_timeout(PATIENCE);
    Findings::new(7, "waited")
}

fn panics(_: &Mutex<Receiver<()>>) -> Findings {
    // Without a message on the test's output.
    std::panic::resume_unwind(Box::new("the test asks for it"))
}

const TOPOLOGIES: [Topology; 2] = [Topology::Inline, Topology::Dedicated];

fn answers(client: &mut Client) {
    assert_eq!(client.ask("short"), "ok short");
}

#[test]
fn requests_are_served_while_a_study_runs_and_its_findings_come_back() {
    for topology in TOPOLOGIES {
        let (server, open, deeds) = studious(topology, &[waits]);
        let mut client = server.connect();
        for _ in 0..100 {
            answers(&mut client);
        }
        assert_eq!(deeds.recv_timeout(PATIENCE), Ok(Did::Asked));
        assert!(deeds.try_recv().is_err(), "it waits for the test");
        open.send(()).unwrap();
        until("the study ends", || {
            answers(&mut client);
            server.handle.snapshot().studies == 1
        });
        assert_eq!(deeds.recv_timeout(PATIENCE), Ok(Did::Heard(Some(7))));
    }
}

#[test]
fn a_study_that_panics_comes_to_nothing_and_the_next_one_runs() {
    for topology in TOPOLOGIES {
        let (server, open, deeds) = studious(topology, &[panics, waits]);
        open.send(()).unwrap();
        let mut client = server.connect();
        let mut heard = Vec::new();
        until("both studies end", || {
            answers(&mut client);
            heard.extend(deeds.try_iter().filter(|did| *did != Did::Asked));
            heard.len() == 2
        });
        assert_eq!(heard, [Did::Heard(None), Did::Heard(Some(7))]);
        until("one is counted", || server.handle.snapshot().studies == 1);
    }
}

#[test]
fn a_server_does_not_wait_for_a_study_when_it_ends() {
    for topology in TOPOLOGIES {
        let (server, open, deeds) = studious(topology, &[waits]);
        answers(&mut server.connect());
        assert_eq!(deeds.recv_timeout(PATIENCE), Ok(Did::Asked));
        assert_eq!(server.stop().abandoned, 0);
        assert!(deeds.try_recv().is_err(), "it still waits");
        drop(open);
    }
}

#[test]
fn the_next_policy_is_not_told_what_another_wanted_to_know() {
    for topology in TOPOLOGIES {
        let (server, open, deeds) = studious(topology, &[waits]);
        let mut client = server.connect();
        answers(&mut client);
        assert_eq!(deeds.recv_timeout(PATIENCE), Ok(Did::Asked));
        server.handle.set_policy(Policy::c_fcfs()).unwrap();
        for _ in 0..100 {
            answers(&mut client);
        }
        open.send(()).unwrap();
        until("the study ends", || {
            answers(&mut client);
            server.handle.snapshot().studies == 1
        });
        assert!(deeds.try_recv().is_err());
    }
}
