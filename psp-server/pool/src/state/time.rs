//! What happens by time alone: hand-offs, ends of quanta, deadlines.

use std::sync::Arc;
use std::time::Duration;

use psp_policy::{Event, Policy};

use super::parts::{Due, Left, Timer};
use super::scheduling::{State, preempts};
use crate::hand_off::Overdue;
use crate::pool_thread::PoolThread;

impl State {
    /// Whether a timer has to be started for this policy. There is one then.
    pub(crate) fn claims_timer(&mut self, policy: &Policy) -> bool {
        let claims = self.timer.is_none() && (preempts(policy, self.limits) || self.hand_offs.may_be_wanted());
        if claims {
            self.timer = Some(Timer::default());
        }
        claims
    }

    /// The timer could not be started.
    pub(crate) fn has_no_timer(&mut self) {
        self.timer = None;
    }

    /// What the timer does next.
    pub(crate) fn due(&mut self, now_ns: u64) -> Due {
        let overdue = self.overdue(now_ns);
        let deadline_ns = self.deadline_ns();
        let Some(timer) = &mut self.timer else {
            return Due::In(Duration::MAX);
        };
        timer.looks_ns = 0;
        let until_hand_off = match overdue {
            Overdue::Now(_) if self.threads.has_spare() => return Due::HandOff,
            Overdue::Now(_) => return Due::Thread,
            Overdue::At(at_ns) => Duration::from_nanos(at_ns.saturating_sub(now_ns)),
            Overdue::Never => Duration::MAX,
        };
        let until_tick = timer.ticker.wait(now_ns, deadline_ns);
        if until_tick.is_zero() {
            return Due::Tick;
        }
        let wait = until_tick.min(until_hand_off);
        let wait_ns = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
        timer.looks_ns = now_ns.saturating_add(wait_ns);
        Due::In(wait)
    }

    fn overdue(&mut self, now_ns: u64) -> Overdue {
        self.hand_offs.overdue(now_ns, &self.threads, &self.waiting)
    }

    /// Whether the timer has to look earlier than it would. It does then.
    pub(crate) fn wakes_timer(&mut self) -> bool {
        if self.timer.is_none() {
            return false;
        }
        let hands_off = self.hand_offs.wakes_timer(&self.threads, self.waiting.any());
        let deadline_ns = self.deadline_ns().unwrap_or(u64::MAX);
        // What begins to wait may be shorter than all that waited before.
        let has_new_type = self.waiting.take_new_type();
        let hand_off_ns = if has_new_type {
            self.hand_offs.due_ns(&self.threads, &self.waiting)
        } else {
            None
        };
        let deadline_ns = deadline_ns.min(hand_off_ns.unwrap_or(u64::MAX));
        let is_over = self.is_over();
        let Some(timer) = &mut self.timer else {
            return false;
        };
        let is_early = deadline_ns < timer.looks_ns;
        if is_early {
            timer.looks_ns = 0;
        }
        hands_off || is_early || is_over
    }

    /// A spare thread serves a worker in place of one that runs a task for too long, and that has the rest of the task.
    /// Nothing happens if there is no need any more.
    pub(crate) fn hand_off(&mut self, now_ns: u64, left: &mut Left) {
        let overdue = self.overdue(now_ns);
        let Overdue::Now(worker) = overdue else {
            return;
        };
        if !self.threads.has_spare() {
            return;
        }
        let Some((request_type, since_ns)) = self.threads.relieves(worker) else {
            return;
        };
        self.threads.thread_of(worker).steps_back();
        self.counted(request_type).handed_off += 1;
        let served_ns = now_ns.saturating_sub(since_ns);
        self.event(now_ns, Event::Blocked { worker, served_ns });
        self.run_what_can(left);
        self.fill(worker, left);
    }

    /// A thread was started to be spare.
    pub(crate) fn add_spare(&mut self, thread: Arc<PoolThread>) {
        self.threads.add_spare(thread);
    }

    /// When something has to be done though nothing happens.
    fn deadline_ns(&self) -> Option<u64> {
        let deadlines = [self.scheduler.deadline_ns(), self.threads.due_ns()];
        deadlines.into_iter().flatten().min()
    }

    /// The same for workers that wait: a timer sees to it if there is one.
    pub(crate) fn deadline_without_timer_ns(&self) -> Option<u64> {
        match self.timer {
            Some(_) => None,
            None => self.deadline_ns(),
        }
    }

    /// Time has passed.
    pub(crate) fn tick(&mut self, now_ns: u64, left: &mut Left) {
        self.event(now_ns, Event::Tick);
        self.threads.ask_due(now_ns);
        self.run_what_can(left);
    }
}
