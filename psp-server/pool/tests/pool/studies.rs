//! Studies that a policy asks for: they run beside tasks, and may come to nothing.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use futures_lite::future::block_on;
use psp_pool::Pool;
use psp_pool::policy::{Action, Event, Findings, Handover, Policy, Scheduler, Study};

use super::{LONG, PATIENCE, SHORT, pool, until};

/// How a study ends that its gate lets go on.
type End = fn() -> Findings;

fn finds() -> Findings {
    Findings::new(7, "seven")
}

fn panics() -> Findings {
    // Without a message on the test's output.
    std::panic::resume_unwind(Box::new("the test asks for it"))
}

/// What a scheduler has done.
#[derive(Debug, PartialEq, Eq)]
enum Did {
    Asked,
    /// It was told what was chosen.
    Heard(Option<usize>),
}

/// c-FCFS, which has these studies done, one after the other.
struct Studious {
    c_fcfs: Box<dyn Scheduler>,
    ends: std::slice::Iter<'static, End>,
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
        self.c_fcfs.on_event(now_ns, event);
    }

    fn poll(&mut self, now_ns: u64) -> Option<Action> {
        self.c_fcfs.poll(now_ns)
    }

    fn handover(&mut self) -> Option<&mut dyn Handover> {
        self.c_fcfs.handover()
    }

    fn study(&mut self) -> Option<Study> {
        let (end, gate) = (*self.ends.next()?, self.gate.clone());
        self.notes(Did::Asked);
        Some(Study::new(move || {
            let _ = gate.lock().unwrap().recv_timeout(PATIENCE);
            end()
        }))
    }

    fn conclude(&mut self, _: u64, findings: Option<&Findings>) {
        self.notes(Did::Heard(findings.map(Findings::choice)));
    }
}

/// Such a policy, what opens the gate, and what its scheduler does.
fn studious(ends: &'static [End]) -> (Policy, Sender<()>, Receiver<Did>) {
    let (open, gate) = channel();
    let (did, deeds) = channel();
    let gate = Arc::new(Mutex::new(gate));
    let policy = Policy::custom("studious", move |setup| {
        Box::new(Studious {
            c_fcfs: Policy::c_fcfs().scheduler(setup),
            ends: ends.iter(),
            gate: gate.clone(),
            did: did.clone(),
        })
    });
    (policy, open, deeds)
}

fn runs(pool: &Pool) {
    assert_eq!(block_on(pool.run(SHORT, || 1)), Ok(1));
}

#[test]
fn a_portfolio_studies_the_tasks_of_a_pool() {
    let policy: Policy = "portfolio first-study=64 trial-requests=256".parse().unwrap();
    let pool = pool(2, policy);
    let mut submitted = 0;
    until("a study ends", || {
        submitted += 2;
        let long = pool.run(LONG, std::thread::yield_now);
        assert_eq!(block_on(pool.run(SHORT, || 2)), Ok(2));
        assert_eq!(block_on(long), Ok(()));
        pool.snapshot().studies > 0
    });
    let findings = pool.snapshot().findings.expect("a study has ended");
    assert_eq!(findings.split(", ").count(), 3, "the best three: {findings}");
    assert_eq!(pool.close(PATIENCE).abandoned, 0);
    let snapshot = pool.snapshot();
    let completed = snapshot.types.iter().map(|of_type| of_type.completed);
    assert_eq!(completed.sum::<u64>(), submitted);
}

#[test]
fn tasks_run_while_a_study_does_and_its_findings_come_back() {
    let (policy, open, deeds) = studious(&[finds]);
    let pool = pool(2, policy);
    for _ in 0..100 {
        runs(&pool);
    }
    assert_eq!(deeds.recv_timeout(PATIENCE), Ok(Did::Asked));
    runs(&pool);
    assert!(deeds.try_recv().is_err(), "it waits for the test");
    open.send(()).unwrap();
    assert_eq!(deeds.recv_timeout(PATIENCE), Ok(Did::Heard(Some(7))));
    let snapshot = pool.snapshot();
    assert_eq!(snapshot.studies, 1);
    assert_eq!(snapshot.findings.as_deref(), Some("seven"));
}

#[test]
fn a_study_that_panics_comes_to_nothing_and_the_next_one_runs() {
    let (policy, open, deeds) = studious(&[panics, finds]);
    let pool = pool(2, policy);
    for _ in 0..2 {
        open.send(()).unwrap();
    }
    let mut heard = Vec::new();
    until("both studies end", || {
        runs(&pool);
        heard.extend(deeds.try_iter().filter(|did| *did != Did::Asked));
        heard.len() == 2
    });
    assert_eq!(heard, [Did::Heard(None), Did::Heard(Some(7))]);
    assert_eq!(pool.snapshot().studies, 1);
}

#[test]
fn the_next_policy_is_not_told_what_another_wanted_to_know() {
    let (policy, open, deeds) = studious(&[finds]);
    let (next, _, deeds_of_next) = studious(&[]);
    let pool = pool(2, policy);
    runs(&pool);
    assert_eq!(deeds.recv_timeout(PATIENCE), Ok(Did::Asked));
    pool.set_policy(&next).unwrap();
    open.send(()).unwrap();
    until("the study ends", || pool.snapshot().studies == 1);
    runs(&pool);
    assert!(deeds.try_recv().is_err());
    assert!(deeds_of_next.try_recv().is_err());
}

#[test]
fn a_pool_does_not_wait_for_a_study_when_it_ends() {
    let (policy, open, deeds) = studious(&[finds]);
    let pool = pool(2, policy);
    runs(&pool);
    assert_eq!(deeds.recv_timeout(PATIENCE), Ok(Did::Asked));
    assert_eq!(pool.close(PATIENCE).abandoned, 0);
    assert!(deeds.try_recv().is_err(), "it still waits");
    drop(open);
}
