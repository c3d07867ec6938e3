//! Requests that give way to another thread of their worker's team.
//!
//! "Freed" is here when the dispatcher has read of it in the ring: what took over has reported then.

use std::sync::Mutex;
use std::time::Duration;

use crate::bout::{Asker, Bout, FIGURES_MAX, LongRun, Measured};
use crate::policy::RequestId;
use crate::runtime::channel::{Message, Report, WorkerLink};
use crate::runtime::new_team;

const THREADS: usize = 2;
const LONG: RequestId = RequestId(1);

/// The net thread's part.
struct ByBaton<'a> {
    bout: &'a Bout,
    link: WorkerLink<()>,
    freed_ns: Vec<u64>,
}

impl ByBaton<'_> {
    /// The next report, which it answers if the request yielded.
    fn receive(&mut self) -> Option<Report<()>> {
        let report = self.link.receive()?;
        if matches!(report, Report::Yielded { .. }) {
            self.freed_ns.push(self.bout.since_decision_ns());
            self.bout.next_turn();
            assert!(self.link.send(Message::Resume(LONG)).is_ok());
        }
        Some(report)
    }
}

impl Asker for ByBaton<'_> {
    fn ask(&mut self) {
        self.link.preempt();
    }

    fn goes_on(&mut self) -> bool {
        self.receive().is_some()
    }
}

pub(crate) fn run(bout: &Bout) -> Measured {
    let (team, mut link, port) = new_team(THREADS);
    let long = Mutex::new(LongRun::default());
    std::thread::scope(|scope| {
        for seat in 0..THREADS {
            let (team, port, long) = (&team, &port, &long);
            scope.spawn(move || {
                bout.join_worker();
                team.serve(seat, port, Duration::ZERO, |()| {
                    team.open(seat);
                    let run = bout.run_long(|| {});
                    team.close(seat);
                    *long.lock().unwrap() = run;
                });
            });
        }
        while !team.is_complete() {
            std::thread::yield_now();
        }
        let (request, task) = (LONG, ());
        assert!(link.send(Message::Run { request, task }).is_ok());
        let mut asker = ByBaton {
            bout,
            link,
            freed_ns: Vec::with_capacity(FIGURES_MAX),
        };
        let asking_ns = bout.dispatch(&mut asker);
        // Asked a moment before the end, it may yield once more.
        while !matches!(asker.receive(), Some(Report::Completed(()))) {
            std::hint::spin_loop();
        }
        assert!(asker.link.send(Message::Stop).is_ok());
        Measured {
            asking_ns,
            freed_ns: asker.freed_ns,
            long: std::mem::take(&mut *long.lock().unwrap()),
        }
    })
}
