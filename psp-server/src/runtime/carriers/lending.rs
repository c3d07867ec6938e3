//! What the thread of a worker does: it lends its turn to a carrier, and waits for the end.

use std::sync::atomic::Ordering;
use std::thread::{park, park_timeout};
use std::time::Duration;

use psp_policy::{RequestId, WorkerId};

use super::carrier::Seat;
use super::pool::Carriers;
use super::post::{CARRIER, CarrierNumber, lock};
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
    pub(crate) carrier: CarrierNumber,
    pub(crate) request: RequestId,
    /// `None` if the carrier has it already.
    pub(crate) task: Option<T>,
}

/// The end of such a turn.
pub(crate) struct Lent<T> {
    pub(crate) report: Report<T>,
    /// When it ended, in nanoseconds of the runtime's clock.
    pub(crate) ended_ns: u64,
    /// It was asked to give way.
    pub(crate) was_asked: bool,
    /// The worker did not hold the request before: it began now, or moves.
    pub(crate) is_new_here: bool,
}

impl<T> Carriers<T> {
    /// Lends a turn, and waits for its end. If it becomes long, and is under a watch, the watch hears of it meanwhile.
    pub(crate) fn lend(&self, turn: LentTurn<T>, watch: Option<&dyn TurnWatch>) -> Lent<T> {
        let LentTurn {
            worker,
            core_index,
            turn,
            carrier: number,
            request,
            task,
        } = turn;
        let (post, carrier) = (self.post(worker), self.carrier(number));
        let member = &carrier.member;
        let phase = if task.is_some() {
            *lock(&carrier.inbox) = task;
            carrier.set_said_long(false);
            Phase::Serving
        } else {
            let now_ns = self.clock.now_ns();
            member.come_back(now_ns);
            post.start.announce_on(turn, now_ns, member.clock());
            match member.preemptible.load(Ordering::Relaxed) {
                true => Phase::Preemptible,
                false => Phase::Serving,
            }
        };
        member.request.store(request.0, Ordering::Relaxed);
        post.set_carrier(number);
        let is_new_here = !carrier.set_held(true);
        let own_turn = carrier.begin_turn();
        if let Some(core) = self.cores.as_ref().and_then(|it| it.number(core_index)) {
            carrier.move_to(core);
        }
        // Before the carrier has the turn: a request to give way that comes at once finds this thread.
        post.active.rest(FIRST);
        let wanted = member.raise(|| {
            let wanted = post.active.resume_as(CARRIER, turn, phase);
            carrier.sit(Seat::new(worker, turn));
            wanted
        });
        member.wake();
        if wanted {
            // This thread has the turn again, or the carrier has ended it.
            post.active.take_away(turn);
        }
        let was_asked = self.wait_for_end(worker, number, own_turn, watch);
        let ended_ns = self.clock.now_ns();
        let completed = lock(&post.completed).take();
        let report = match completed {
            Some(task) => Report::Completed(task),
            None => {
                member.go_away(ended_ns);
                if member.preemptible.load(Ordering::Relaxed) {
                    member.lower(|| true);
                }
                let served_ns = ended_ns.saturating_sub(post.start.began_ns());
                match member.is_blocked.swap(false, Ordering::Relaxed) {
                    true => Report::Blocked { served_ns },
                    false => Report::Yielded { served_ns },
                }
            }
        };
        if !matches!(report, Report::Blocked { .. }) {
            carrier.set_held(false);
        }
        post.active.take_over(FIRST);
        Lent {
            report,
            ended_ns,
            was_asked,
            is_new_here,
        }
    }

    /// Returns whether the turn was asked to give way.
    fn wait_for_end(
        &self,
        worker: WorkerId,
        number: CarrierNumber,
        own_turn: u64,
        mut watch: Option<&dyn TurnWatch>,
    ) -> bool {
        let (post, carrier) = (self.post(worker), self.carrier(number));
        let mut is_told = false;
        loop {
            let was_asked = post.active.is_wanted();
            if post.active.state().thread == FIRST {
                return was_asked || post.active.is_wanted();
            }
            if was_asked && !std::mem::replace(&mut is_told, true) {
                carrier.flag.ask(own_turn);
            }
            match watch {
                Some(it) => match it.look(carrier.has_said_long()) {
                    Looked::GoesOn => park_timeout(LOOK_INTERVAL),
                    Looked::Settled | Looked::Pauses => watch = None,
                },
                None => park(),
            }
        }
    }

    /// The handler of the carrier's request says that it is long. The worker whose turn it has hears of that.
    pub(crate) fn say_long(&self, number: CarrierNumber) {
        let carrier = self.carrier(number);
        carrier.set_said_long(true);
        self.post(carrier.seat().worker).wake();
    }
}
