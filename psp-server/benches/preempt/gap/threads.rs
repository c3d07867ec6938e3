//! Requests that yield to another thread of their worker's team.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::bout::{Asker, Bout, LongRun, Measured};
use crate::figures::Figures;
use crate::policy::RequestId;
use crate::runtime::channel::message::{Message, Report};
use crate::runtime::channel::turn_start::TurnStart;
use crate::runtime::new_team;
use crate::runtime::worker_link::WorkerLink;

/// A thread that runs, a thread that takes over, and another in case the first has yet to go to sleep.
const THREADS: usize = 3;
const LONG: RequestId = RequestId(1);
const OTHER: RequestId = RequestId(2);

/// The tasks of a team.
#[derive(Debug)]
enum Work {
    Long,
    Other,
}

/// The dispatcher's part.
struct ByTeam {
    link: WorkerLink<Work>,
    start: Arc<TurnStart>,
    /// The present turn of the long request. Every second turn is the other request's.
    turn: u64,
}

impl ByTeam {
    fn send(&mut self, message: Message<Work>) {
        assert!(self.link.send(message).is_ok(), "the ring has room");
    }
}

impl Asker for ByTeam {
    fn had_ns(&self, now_ns: u64) -> Option<u64> {
        self.start.had_ns(self.turn, now_ns)
    }

    fn ask(&mut self) {
        self.link.preempt();
    }

    fn follow_up(&mut self) {
        let (request, task) = (OTHER, Work::Other);
        self.send(Message::Run { request, task });
        self.send(Message::Resume(LONG));
        self.turn += 2;
    }

    fn yielded(&mut self) -> bool {
        matches!(self.link.receive(), Some(Report::Completed(Work::Other)))
    }
}

pub(crate) fn run(bout: &Bout) -> Measured {
    let (team, mut link, port, start) = new_team(THREADS, bout.clock.clone());
    let long: Mutex<Option<LongRun>> = Mutex::default();
    let propagation_ns = Mutex::new(Figures::new());
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (team, port, long, propagation_ns) = (&team, &port, &long, &propagation_ns);
            scope.spawn(move || {
                bout.join_worker();
                team.serve(thread, port, Duration::ZERO, |work| match work {
                    Work::Long => {
                        team.open(thread);
                        let run = bout.run_long(|| {});
                        team.close(thread);
                        *long.lock().unwrap() = Some(run);
                    }
                    Work::Other => {
                        let ns = bout.since_decision_ns();
                        propagation_ns.lock().unwrap().push(ns);
                        bout.next_turn();
                    }
                });
            });
        }
        while team.idle() + 1 < THREADS {
            std::thread::yield_now();
        }
        let (request, task) = (LONG, Work::Long);
        assert!(link.send(Message::Run { request, task }).is_ok());
        let turn = 1;
        let mut asker = ByTeam { link, start, turn };
        let send_ns = bout.dispatch(&mut asker);
        while !matches!(asker.link.receive(), Some(Report::Completed(Work::Long))) {
            std::hint::spin_loop();
        }
        asker.send(Message::Stop);
        let propagation_ns = std::mem::replace(&mut *propagation_ns.lock().unwrap(), Figures::new());
        Measured {
            send_ns,
            propagation_ns,
            switch_ns: None,
            long: long.lock().unwrap().take().unwrap(),
        }
    })
}
