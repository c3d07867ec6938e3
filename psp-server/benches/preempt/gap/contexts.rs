//! Requests that give way to another context of their thread: at checkpoints, or by a signal.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::bout::{Asker, Bout, FIGURES_MAX, LongRun, Measured};
use crate::fiber::{
    self, AlternateStack, ContextPool, GiveWay, Pause, PreemptFlag, Target, Wake, begin_turn,
    checkpoint, occupy, pause, preemptible,
};
use crate::policy::RequestId;
use crate::preempt::PreemptPolicy;

const STACK_BYTES: usize = 256 * 1024;
const LONG: RequestId = RequestId(1);

/// The worker's side.
struct Worker<'a> {
    bout: &'a Bout,
    freed_ns: RefCell<Vec<u64>>,
    long: RefCell<LongRun>,
}

impl GiveWay for Worker<'_> {
    fn give_way(&self) {
        pause(Pause::Yielded(LONG));
        self.bout.next_turn();
    }

    fn describe(&self, _slot: usize, _out: &mut dyn std::fmt::Write) -> std::fmt::Result {
        Ok(())
    }
}

impl Worker<'_> {
    fn run_long(&self, preempt: PreemptPolicy) {
        begin_turn();
        preemptible(0, preempt, || {
            let long = match preempt {
                PreemptPolicy::Cooperative => self.bout.run_long(checkpoint),
                _ => self.bout.run_long(|| {}),
            };
            fiber::no_preempt(|| self.long.replace(long));
        });
        pause(Pause::Stop);
    }

    /// What runs when the worker is free.
    fn run_other(&self) {
        loop {
            self.freed_ns
                .borrow_mut()
                .push(self.bout.since_decision_ns());
            begin_turn();
            if pause(Pause::StepAside(LONG)) == Wake::Finish {
                return;
            }
        }
    }
}

fn serve(
    bout: &'static Bout,
    flag: &PreemptFlag,
    target: Option<&Target>,
    preempt: PreemptPolicy,
) -> Measured {
    bout.join_worker();
    let worker = Rc::new(Worker {
        bout,
        freed_ns: RefCell::new(Vec::with_capacity(FIGURES_MAX)),
        long: RefCell::default(),
    });
    let first = Cell::new(true);
    let pool = ContextPool::new(2, STACK_BYTES, || {
        let (worker, is_first) = (worker.clone(), first.replace(false));
        move || {
            if is_first {
                worker.run_long(preempt);
            } else {
                worker.run_other();
            }
        }
    });
    let _alternate = AlternateStack::install().unwrap();
    occupy(flag, &*worker, || {
        if let Some(target) = target {
            fiber::prepare_thread();
            target.register();
        }
        pool.unwrap().run();
        if let Some(target) = target {
            target.retire();
        }
    });
    Measured {
        asking_ns: Vec::new(),
        freed_ns: worker.freed_ns.take(),
        long: worker.long.take(),
    }
}

/// Asks by the flag, and by a signal where there is one.
struct ByFlag<'a> {
    bout: &'a Bout,
    flag: &'a PreemptFlag,
    target: Option<&'a Target>,
    /// Turns that were over when it was asked last.
    turns: u64,
}

impl Asker for ByFlag<'_> {
    fn ask(&mut self) {
        self.turns = self.bout.turns();
        // Every other turn is the other context's, which counts them for itself.
        self.flag.ask(self.turns + 1);
        if let Some(target) = self.target {
            target.signal();
        }
    }

    fn goes_on(&mut self) -> bool {
        self.bout.turns() != self.turns
    }
}

pub(crate) fn run(bout: Bout, preempt: PreemptPolicy) -> Measured {
    // Leaked, a few hundred bytes a run: the worker's contexts want it for ever.
    let bout: &'static Bout = Box::leak(Box::new(bout));
    let flag = PreemptFlag::new();
    let target = (preempt == PreemptPolicy::Signal).then(Target::default);
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| serve(bout, &flag, target.as_ref(), preempt));
        let asking_ns = bout.dispatch(&mut ByFlag {
            bout,
            flag: &flag,
            target: target.as_ref(),
            turns: 0,
        });
        Measured {
            asking_ns,
            ..worker.join().unwrap()
        }
    })
}
