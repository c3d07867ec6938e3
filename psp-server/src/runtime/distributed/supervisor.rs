//! What the thread that runs the server does for workers that schedule themselves: feeds the policy's feedback, has a
//! timer core where requests are preempted, and puts another policy in force.
//!
//! ```text
//!   ServerHandle::set_policy ──► mailbox ──► turn: another worker group, its timer core ──► succession ──► workers
//!                                            turn: feedback of the latest group
//! ```
//!
//! A timer core lasts until no worker is a member of its group. Each worker is a member of one, so there are at most as
//! many timer cores as workers, and one.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use mio::Waker;
use psp_policy::{Policy, PreemptPolicy};

use super::feedback::FeedbackLoop;
use super::moving::Moving;
use super::prompter::Prompter;
use super::roster::Roster;
use super::succession::{Regime, Succession};
use super::timer::{TimerCore, Watched};
use super::worker_group::{WorkerGroup, can_preempt};
use crate::error::RunError;
use crate::runtime::dispatch::turns::quantum_ns_min;
use crate::runtime::host::clock::Clock;
use crate::shared::Shared;
use crate::transport::request_key::{Names, PortNumber};

/// How workers schedule themselves, before they have threads.
#[derive(Clone)]
pub(crate) struct Rules {
    shared: Arc<Shared>,
    /// The threads of requests, where preempted ones move.
    pub(crate) moving: Option<Arc<Moving>>,
    pub(crate) roster: Arc<Roster>,
    pub(crate) succession: Arc<Succession>,
}

/// The timer core of a worker group.
struct Timer {
    epoch: u64,
    core: TimerCore,
    thread: JoinHandle<()>,
}

/// See the [module](self).
pub(crate) struct Supervisor {
    rules: Rules,
    watched: Arc<[Watched]>,
    /// Of all workers.
    wakers: Vec<Arc<Waker>>,
    clock: Clock,
    /// For how long timer cores poll.
    spin: Duration,
    /// That of the latest group.
    feedback: Option<(Arc<WorkerGroup>, FeedbackLoop)>,
    timers: Vec<Timer>,
    /// Timer cores that end.
    ending: Vec<JoinHandle<()>>,
}

impl Rules {
    /// The rules of a server that starts. `roster` has its workers.
    ///
    /// # Errors
    /// When the system has no timer.
    pub(crate) fn new(shared: Arc<Shared>, roster: Arc<Roster>, moving: Option<Arc<Moving>>) -> io::Result<Self> {
        let first = Self::regime(&shared, &roster, moving.clone(), shared.policy.policy())?;
        Ok(Self {
            succession: Arc::new(Succession::new(shared.workers, first)),
            shared,
            moving,
            roster,
        })
    }

    /// The mechanism of all workers.
    pub(crate) fn preempt(&self) -> PreemptPolicy {
        match self.shared.group_setup().useful_preemption() {
            Some(_) => self.shared.config.preempt,
            None => PreemptPolicy::None,
        }
    }

    /// What workers have under a policy.
    fn regime(
        shared: &Shared,
        roster: &Arc<Roster>,
        moving: Option<Arc<Moving>>,
        policy: Policy,
    ) -> io::Result<Regime> {
        let setup = shared.group_setup();
        let group = match policy {
            // Nothing passes between its workers.
            Policy::DFcfs(_) => None,
            _ => WorkerGroup::new(&policy, &setup, roster.clone()),
        };
        let Some((group, objects)) = group else {
            return Ok(Regime::new(policy, None, Vec::new()));
        };
        let names = Names::new(PortNumber::default(), shared.workers);
        let mut group = group.with_moving(moving).with_names(names);
        if can_preempt(&policy, &setup) {
            let ns_min = quantum_ns_min(shared.config.preempt);
            group = group.with_timer(Prompter::new(shared.workers, ns_min)?);
        }
        Ok(Regime::new(policy, Some(Arc::new(group)), objects))
    }
}

impl Supervisor {
    /// Takes care of workers, each of which a timer core can watch and a waker wakes, and which have come to the first
    /// policy.
    ///
    /// # Errors
    /// When the system has no thread.
    pub(crate) fn new(
        rules: Rules,
        watched: Vec<Watched>,
        wakers: Vec<Arc<Waker>>,
        clock: Clock,
        spin: Duration,
    ) -> Result<Self, RunError> {
        let mut supervisor = Self {
            rules,
            watched: watched.into(),
            wakers,
            clock,
            spin,
            feedback: None,
            timers: Vec::new(),
            ending: Vec::new(),
        };
        let (epoch, group) = supervisor.rules.succession.latest();
        supervisor.tend(epoch, group)?;
        Ok(supervisor)
    }

    /// Tends the latest group from now on.
    fn tend(&mut self, epoch: u64, group: Option<Arc<WorkerGroup>>) -> Result<(), RunError> {
        self.feedback = group.clone().map(|group| {
            let feedback = FeedbackLoop::new(&group);
            (group, feedback)
        });
        let Some(group) = group.filter(|group| group.prompter().is_some()) else {
            return Ok(());
        };
        let (watched, clock) = (self.watched.clone(), self.clock.clone());
        let (core, thread) = TimerCore::start(group, watched, clock, self.spin)?;
        self.timers.push(Timer { epoch, core, thread });
        Ok(())
    }

    /// Does what is due. Returns when something is due again, if that is known.
    pub(crate) fn turn(&mut self) -> Option<Duration> {
        if let Some(policy) = self.rules.shared.policy.take() {
            self.change_to(policy);
        }
        let (group, feedback) = self.feedback.as_mut()?;
        Some(feedback.pass(group, self.clock.now_ns()))
    }

    /// Puts another policy in force. If the system lacks what it needs, the old one stays.
    #[cold]
    fn change_to(&mut self, policy: Policy) {
        let spelled = policy.spelled();
        let Rules { shared, moving, roster, succession } = &self.rules;
        let next = match Rules::regime(shared, roster, moving.clone(), policy) {
            Ok(next) => next,
            Err(error) => {
                tracing::error!(policy = spelled, %error, "the policy stays: there is no timer");
                return;
            }
        };
        let group = next.group.clone();
        let epoch = succession.post(self.clock.now_ns(), next);
        for waker in &self.wakers {
            if let Err(error) = waker.wake() {
                tracing::warn!(%error, "cannot wake a worker; it changes its policy at its next event");
            }
        }
        self.end_timers();
        if let Err(error) = self.tend(epoch, group) {
            tracing::error!(%error, "requests run to completion");
        }
        tracing::info!(policy = spelled, "policy changed");
    }

    /// Ends the timer cores of worker groups without members.
    fn end_timers(&mut self) {
        self.ending.retain(|thread| !thread.is_finished());
        for timer in std::mem::take(&mut self.timers) {
            if self.rules.succession.is_in_use(timer.epoch) {
                self.timers.push(timer);
            } else {
                drop(timer.core);
                self.ending.push(timer.thread);
            }
        }
    }

    /// Ends all timer cores. Returns their threads.
    pub(crate) fn end(self) -> impl Iterator<Item = JoinHandle<()>> {
        let threads = self.timers.into_iter().map(|timer| {
            drop(timer.core);
            timer.thread
        });
        threads.chain(self.ending)
    }
}
