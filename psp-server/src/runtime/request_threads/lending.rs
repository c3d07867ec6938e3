//! What the thread of a worker does: it lends its turn to a request thread, and waits for the end.

use std::sync::atomic::Ordering;
use std::thread::{park, park_timeout};
use std::time::Duration;

use psp_policy::{RequestId, WorkerId};

use super::pool::RequestThreads;
use super::request_thread::WorkerTurn;
use super::turn_owner::{REQUEST_THREAD, RequestThreadNumber, lock};
use crate::fiber::{Looked, TurnWatch};
use crate::runtime::channel::message::Report;
use crate::runtime::team::FIRST;
use crate::runtime::team::active_thread::Phase;

/// How often a worker looks whether the turn that it lent has become long.
const LOOK_INTERVAL: Duration = Duration::from_micros(100);

/// A turn to lend.
pub(crate) struct LentTurn<T> {
    /// The worker, which is the calling thread.
    pub(crate) worker: WorkerId,
    /// Its index among the cores of the workers.
    pub(crate) core_index: usize,
    /// Number of the turn, as the board shows it.
    pub(crate) turn: u64,
    pub(crate) request_thread: RequestThreadNumber,
    pub(crate) request: RequestId,
    /// `None` if the request thread has it already.
    pub(crate) task: Option<T>,
}

/// The end of such a turn.
pub(crate) struct Lent<T> {
    pub(crate) report: Report<T>,
    /// When it ended, in nanoseconds of the runtime's clock.
    pub(crate) ended_ns: u64,
    /// It was asked to yield.
    pub(crate) was_asked: bool,
    /// The worker did not hold the request before: it began now, or moves.
    pub(crate) is_new_here: bool,
}

impl<T> RequestThreads<T> {
    /// Lends a turn, and waits for its end. If it becomes long, and is under a watch, the watch hears of it meanwhile.
    pub(crate) fn lend(&self, turn: LentTurn<T>, watch: Option<&dyn TurnWatch>) -> Lent<T> {
        let LentTurn {
            worker,
            core_index,
            turn,
            request_thread: number,
            request,
            task,
        } = turn;
        let (owner, thread) = (self.owner(worker), self.request_thread(number));
        let member = &thread.member;
        let phase = if task.is_some() {
            *lock(&thread.inbox) = task;
            thread.set_said_long(false);
            Phase::Serving
        } else {
            let now_ns = self.clock.now_ns();
            member.come_back(now_ns);
            owner.start.announce_on(turn, now_ns, member.clock());
            match member.preemptible.load(Ordering::Relaxed) {
                true => Phase::Preemptible,
                false => Phase::Serving,
            }
        };
        member.request.store(request.0, Ordering::Relaxed);
        owner.set_request_thread(number);
        let is_new_here = !thread.set_held(true);
        let own_turn = thread.begin_turn();
        if let Some(core) = self.cores.as_ref().and_then(|it| it.number(core_index)) {
            thread.move_to(core);
        }
        // Before the request thread has the turn: a request to yield that comes at once finds this thread.
        owner.active.rest(FIRST);
        let wanted = member.raise(|| {
            let wanted = owner.active.resume_as(REQUEST_THREAD, turn, phase);
            thread.set_worker_turn(WorkerTurn::new(worker, turn));
            wanted
        });
        member.wake();
        if wanted {
            // This thread has the turn again, or the request thread has ended it.
            owner.active.take_away(turn);
        }
        let was_asked = self.wait_for_end(worker, number, own_turn, watch);
        let ended_ns = self.clock.now_ns();
        let completed = lock(&owner.completed).take();
        let report = match completed {
            Some(task) => Report::Completed(task),
            None => {
                member.go_away(ended_ns);
                if member.preemptible.load(Ordering::Relaxed) {
                    member.lower(|| true);
                }
                let served_ns = ended_ns.saturating_sub(owner.start.began_ns());
                match member.is_blocked.swap(false, Ordering::Relaxed) {
                    true => Report::Blocked { served_ns },
                    false => Report::Yielded { served_ns },
                }
            }
        };
        if !matches!(report, Report::Blocked { .. }) {
            thread.set_held(false);
        }
        owner.active.take_over(FIRST);
        Lent { report, ended_ns, was_asked, is_new_here }
    }

    /// Returns whether the turn was asked to yield.
    fn wait_for_end(
        &self,
        worker: WorkerId,
        number: RequestThreadNumber,
        own_turn: u64,
        mut watch: Option<&dyn TurnWatch>,
    ) -> bool {
        let (owner, thread) = (self.owner(worker), self.request_thread(number));
        let mut is_told = false;
        loop {
            let was_asked = owner.active.is_wanted();
            if owner.active.state().thread == FIRST {
                return was_asked || owner.active.is_wanted();
            }
            if was_asked && !std::mem::replace(&mut is_told, true) {
                thread.flag.ask(own_turn);
            }
            match watch {
                Some(it) => match it.look(thread.has_said_long()) {
                    Looked::GoesOn => park_timeout(LOOK_INTERVAL),
                    Looked::Settled | Looked::Pauses => watch = None,
                },
                None => park(),
            }
        }
    }

    /// The handler of its request says that it is long. The worker whose turn it has hears of that.
    pub(crate) fn say_long(&self, number: RequestThreadNumber) {
        let thread = self.request_thread(number);
        thread.set_said_long(true);
        self.owner(thread.worker_turn().worker).wake();
    }
}
