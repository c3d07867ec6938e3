//! Requests that yield to another context of their thread: at checkpoints, or by a signal.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::bout::{Asker, Bout, LongRun, Measured};
use crate::fiber::{
    self, AlternateStack, ContextPool, Pause, PreemptFlag, Target, Wake, Yielder, begin_turn, checkpoint, in_handler,
    occupy, pause,
};
use crate::figures::Figures;
use crate::policy::RequestId;
use crate::preempt::PreemptPolicy;
use crate::runtime::channel::turn_start::TurnStart;

pub(crate) const STACK_BYTES: usize = 256 * 1024;
const LONG: RequestId = RequestId(1);

/// The state that both sides share.
struct Link {
    flag: PreemptFlag,
    target: Option<Target>,
    start: TurnStart,
}

/// The worker's side.
struct Worker<'a> {
    bout: &'a Bout,
    link: &'a Link,
    /// When the long request yielded last.
    left_ns: Cell<u64>,
    switch_ns: RefCell<Figures>,
    propagation_ns: RefCell<Figures>,
    long: RefCell<Option<LongRun>>,
}

impl Yielder for Worker<'_> {
    fn yield_now(&self) {
        self.left_ns.set(self.bout.clock.now_ns());
        pause(Pause::Suspended(LONG));
        self.bout.next_turn();
        self.announce();
    }

    fn describe(&self, _slot: usize, _out: &mut dyn std::fmt::Write) -> std::fmt::Result {
        Ok(())
    }
}

impl Worker<'_> {
    fn announce(&self) {
        let now_ns = self.bout.clock.now_ns();
        self.link.start.announce(fiber::turn(), now_ns);
    }

    fn run_long(&self, preempt: PreemptPolicy) {
        fiber::ensure_spare();
        begin_turn();
        self.announce();
        in_handler(0, preempt, || {
            let long = match preempt {
                PreemptPolicy::Cooperative => self.bout.run_long(checkpoint),
                _ => self.bout.run_long(|| {}),
            };
            fiber::no_preempt(|| self.long.replace(Some(long)));
        });
        pause(Pause::Stop);
    }

    /// The request that runs when the worker is free.
    fn run_other(&self) {
        loop {
            let now_ns = self.bout.clock.now_ns();
            self.switch_ns.borrow_mut().push(now_ns - self.left_ns.get());
            self.propagation_ns.borrow_mut().push(self.bout.since_decision_ns());
            begin_turn();
            if pause(Pause::StepAside(LONG)) == Wake::Finish {
                return;
            }
        }
    }
}

fn serve(bout: &'static Bout, link: &'static Link, preempt: PreemptPolicy) -> Measured {
    bout.join_worker();
    let worker = Rc::new(Worker {
        bout,
        link,
        left_ns: Cell::new(0),
        switch_ns: RefCell::new(Figures::new()),
        propagation_ns: RefCell::new(Figures::new()),
        long: RefCell::default(),
    });
    let first = Cell::new(true);
    let pool = ContextPool::new(2, STACK_BYTES, || {
        let (worker, is_first) = (worker.clone(), first.replace(false));
        Ok(move || {
            if is_first {
                worker.run_long(preempt);
            } else {
                worker.run_other();
            }
        })
    });
    let _alternate = AlternateStack::install().unwrap();
    occupy(&link.flag, &*worker, || {
        if let Some(target) = &link.target {
            fiber::prepare_thread();
            target.register();
        }
        pool.run().unwrap();
        if let Some(target) = &link.target {
            target.retire();
        }
    });
    Measured {
        send_ns: Figures::new(),
        propagation_ns: worker.propagation_ns.replace(Figures::new()),
        switch_ns: Some(worker.switch_ns.replace(Figures::new())),
        long: worker.long.take().unwrap(),
    }
}

/// Asks by the flag, and by a signal if there is a target.
struct ByFlag<'a> {
    bout: &'a Bout,
    link: &'a Link,
    /// The present turn of the long request. Every second turn is the other request's, which counts its turns
    /// itself.
    turn: u64,
}

impl Asker for ByFlag<'_> {
    fn had_ns(&self, now_ns: u64) -> Option<u64> {
        self.link.start.had_ns(self.turn, now_ns)
    }

    fn ask(&mut self) {
        self.link.flag.ask(self.turn);
        if let Some(target) = &self.link.target {
            target.signal();
        }
    }

    fn follow_up(&mut self) {}

    fn yielded(&mut self) -> bool {
        let turn = self.bout.turns() + 1;
        std::mem::replace(&mut self.turn, turn) != turn
    }
}

pub(crate) fn run(bout: Bout, preempt: PreemptPolicy) -> Measured {
    // Leaked, a few hundred bytes a run: the worker's contexts need references that live for ever.
    let bout: &'static Bout = Box::leak(Box::new(bout));
    let link: &'static Link = Box::leak(Box::new(Link {
        flag: PreemptFlag::new(),
        target: (preempt == PreemptPolicy::Signal).then(Target::default),
        start: TurnStart::new(),
    }));
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| serve(bout, link, preempt));
        let send_ns = bout.dispatch(&mut ByFlag { bout, link, turn: 1 });
        Measured { send_ns, ..worker.join().unwrap() }
    })
}
