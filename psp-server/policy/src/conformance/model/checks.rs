//! What a [`Model`] checks of what its scheduler does, and of what it leaves undone.

use std::collections::BTreeMap;

use super::{Model, Turn, Waiting, worker_id};
use crate::conformance::broken::{Broken, Promise};
use crate::conformance::promises::{Idling, Order, Preempts, Promises, Quantum};
use crate::event::{HandOff, RequestId, WorkerId};
use crate::request_type::RequestType;

impl Model<'_> {
    pub(super) fn check_type(&self, request: RequestId, named: RequestType) -> Result<(), Broken> {
        let request_type = self.types_of_requests[request.0 as usize];
        require!(
            NothingTwice,
            named == request_type,
            "{request:?} of {request_type:?} was called {named:?}"
        );
        Ok(())
    }

    /// A request begins or resumes. Returns whether it is too late to be run.
    pub(super) fn check_run(
        &mut self,
        worker: WorkerId,
        RequestId(id): RequestId,
        hand_off: HandOff,
    ) -> Result<bool, Broken> {
        let Some(started) = self.waiting.get(&id).copied() else {
            let blocked = self.blocked.contains_key(&id);
            let what = format!("request {id} runs, and does not wait; it is blocked: {blocked}");
            return Err(Broken::new(Promise::NothingTwice, what));
        };
        self.check_room(worker, id, &started)?;
        self.check_order(worker, id, &started, hand_off)?;
        self.check_choice(worker, id, &started)?;
        let hand_offs = self.promises.hand_offs;
        require!(HandOff, hand_offs.contains(&hand_off), "{hand_off:?} is not promised");
        self.waiting.remove(&id);
        self.running[worker.index()] = Some(Turn {
            id,
            slot: started.slot,
            deadline_ns: started.deadline_ns,
            started_ns: self.now_ns,
            served_ns: started.served_ns.unwrap_or(0),
            preempted: false,
            unblocked: started.unblocked,
        });
        Ok(started.is_late(self.now_ns))
    }

    /// Checks that `worker` can run the request.
    fn check_room(&self, worker: WorkerId, id: u32, started: &Waiting) -> Result<(), Broken> {
        let index = worker.index();
        let before = self.running.get(index).copied();
        require!(
            OneRequestPerWorker,
            before == Some(None),
            "{worker:?} has {before:?} and got request {id}"
        );
        let at_home = started.home.is_none_or(|home| home == worker);
        require!(HomeWorker, at_home, "{id} resumed on {worker:?}: {started:?}");
        let is_present = index < self.present || started.home.is_some();
        require!(PresentWorkers, is_present, "{worker:?} is absent, and began {id}: {started:?}");
        let fits = self.can_run(started, index);
        require!(Contexts, fits, "{worker:?} has no context for request {id}");
        Ok(())
    }

    /// Checks that the policy may choose `worker` for the request.
    fn check_choice(&self, worker: WorkerId, id: u32, started: &Waiting) -> Result<(), Broken> {
        let index = worker.index();
        let seen = self.seen();
        let promises = &self.promises;
        let is_relieved = || started.home.is_none() && self.relief(&seen, started.slot, index);
        require!(
            AllowedWorkers,
            started.may_use(&promises.workers, &seen, index) || is_relieved(),
            "{worker:?} ran a request of slot {}",
            started.slot
        );
        let stays = started.ran_on.is_none_or(|ran_on| ran_on == worker);
        require!(Stays, !promises.stays || stays, "{id} moved to {worker:?}");
        require!(
            OwnThreadSpared,
            !self.is_spared(started, index),
            "request {id} of slot {}, whose length is unknown, began on the driver's own thread",
            started.slot
        );
        let own_thread_free = self.case.inline
            && self.running[0].is_none()
            && started.home.is_none()
            && self.suspended(0) == 0
            && self.begins(0, 0);
        require!(
            OwnThreadFirst,
            index == 0
                || !(own_thread_free && promises.own_thread_first)
                || self.is_spared(started, 0)
                || !promises.workers.allow(&seen, started.slot, 0),
            "{worker:?} got request {id}, which worker 0 could run"
        );
        Ok(())
    }

    fn check_order(&mut self, worker: WorkerId, id: u32, started: &Waiting, hand_off: HandOff) -> Result<(), Broken> {
        let Promises { order, workers, .. } = &self.promises;
        let seen = self.seen();
        for (&other, waiting) in &self.waiting {
            // Preempted requests wait where the policy wants; requests that never ran keep their places.
            let comparable = self.promises.preempts == Preempts::Never || !(waiting.resumes() || started.resumes());
            let before = comparable && order.is_before(&seen, waiting.place(other), started.place(id));
            // In queues of the workers, it is first in that of the worker where it ran.
            let in_first_place = !order.is_at_workers()
                || waiting.home.is_some()
                || (self.promises.stays && waiting.ran_on == Some(worker));
            let is_owned = match &self.promises.idling {
                Idling::UnlessLent(owed) => owed.allow(&seen, waiting.slot, worker.index()),
                Idling::Freely => false,
                Idling::Never | Idling::BesideQueues { .. } => true,
            };
            let by_arrival =
                *order != Order::Deadline || (waiting.deadline_ns.is_none() && started.deadline_ns.is_none());
            let first_of_type = waiting.unblocked
                && (in_first_place && is_owned && by_arrival)
                && waiting.slot == started.slot
                && !started.resumes()
                && other < id;
            let passed_over = (before || first_of_type)
                && workers.allow(&seen, waiting.slot, worker.index())
                && !self.is_spared(waiting, worker.index())
                && self.can_run(waiting, worker.index());
            require!(Order, !passed_over, "{id} ran before {other} on {worker:?}");
        }
        let order = *order;
        let reservations = self.scheduler.reservation_updates();
        if std::mem::replace(&mut self.reservations, reservations) != reservations {
            self.begun_last.fill(BTreeMap::new());
        }
        let last = &mut self.begun_last[worker.index()];
        if hand_off == HandOff::Stolen {
            last.clear();
        }
        if order.is_at_workers() && !started.resumes() && !started.moved {
            let before = last.insert(order.class_at_worker(started.slot), id);
            let ascends = before.is_none_or(|before| before < id);
            require!(Order, ascends, "{id} began after {before:?} on {worker:?}");
        }
        Ok(())
    }

    pub(super) fn check_preempt(&mut self, worker: WorkerId, quantum_ns: u64) -> Result<(), Broken> {
        let allowed = self.case.preemption.is_some();
        require!(PreemptsWhatCanStop, allowed, "nothing can be preempted here");
        let index = worker.index();
        let Some(turn) = self.running.get(index).copied().flatten() else {
            let what = format!("{worker:?} was asked to stop, and runs nothing");
            return Err(Broken::new(Promise::PreemptsWhatCanStop, what));
        };
        let stops = self.case.yields(turn.slot);
        require!(PreemptsWhatCanStop, stops, "slot {} never yields", turn.slot);
        require!(PreemptsOnce, !turn.preempted, "{worker:?} was asked already");
        let since_ns = self.now_ns - turn.started_ns;
        require!(
            PreemptsAfterQuantum,
            since_ns >= quantum_ns,
            "{worker:?} was asked to stop after {since_ns} ns of {quantum_ns}"
        );
        let has_next = self.begins(index, 1) || self.suspended(index) > 0;
        require!(Contexts, has_next, "{worker:?} has no context for another request");
        self.check_purpose(index, &turn, quantum_ns)?;
        if let Some(turn) = &mut self.running[index] {
            turn.preempted = true;
        }
        Ok(())
    }

    /// Whether the policy may preempt a turn at all.
    fn check_purpose(&self, worker: usize, turn: &Turn, quantum_ns: u64) -> Result<(), Broken> {
        let usable = self.anyone_can_use(worker);
        let suspended = self.suspended(worker) > 0;
        let holds = match self.promises.preempts {
            Preempts::Never => false,
            Preempts::Freely => true,
            Preempts::OneForEachWaiting => {
                // Suspended requests can use no other worker, whichever stop.
                usable && (suspended || self.stopping_for_all() < self.unbound())
            }
            Preempts::ForOthers => usable,
            Preempts::AfterQuantum => quantum_ns > 0,
            Preempts::ForShorterOrAged { aged_ns } => {
                let seen = self.seen();
                let group = |slot| seen.group(slot).unwrap_or(usize::MAX);
                let is_shorter = |waiting: &Waiting| group(waiting.slot) < group(turn.slot);
                let attained_ns = turn.served_ns + self.now_ns - turn.started_ns;
                attained_ns >= aged_ns || (usable && self.waiting.values().any(is_shorter))
            }
        };
        let (preempts, waiting) = (self.promises.preempts, self.waiting.len());
        require!(
            PreemptsForOthers,
            holds,
            "worker {worker} was asked to stop {turn:?}, {waiting} wait, promised is {preempts:?}"
        );
        Ok(())
    }

    /// Number of workers that were asked to stop and have no suspended request.
    fn stopping_for_all(&self) -> usize {
        let turns = self.running.iter().enumerate();
        turns
            .filter(|(_, turn)| turn.is_some_and(|turn| turn.preempted))
            .filter(|&(worker, _)| worker < self.present && self.suspended(worker) == 0)
            .count()
    }

    /// How many requests may wait in queues of workers beyond their bounds: one on each worker that runs a
    /// request which was blocked, and went before it.
    fn put_off(&self) -> usize {
        let turns = self.running.iter().flatten();
        turns.filter(|turn| turn.unblocked).count()
    }

    /// How many requests wait that any worker may run.
    fn unbound(&self) -> usize {
        let waiting = self.waiting.values();
        waiting.filter(|waiting| waiting.home.is_none()).count()
    }

    /// Checks the telemetry, which must be right at any time.
    pub(super) fn check_status(&self) -> Result<(), Broken> {
        if !self.promises.telemetry {
            return Ok(());
        }
        for slot in 0..=self.case.types.len() {
            let status = self.scheduler.type_status(slot);
            let (queued, refused) = (self.queued(slot), self.refused[slot]);
            let first = status.worker_first.map_or(0, WorkerId::index);
            let makes_sense = status.queued == queued
                && status.rejections == refused
                && first + status.workers_reserved <= self.present
                && status.service_ns_mean.is_finite()
                && status.service_ns_mean >= 0.0
                && (0.0..=1.0).contains(&status.share);
            require!(
                Telemetry,
                makes_sense,
                "{queued} wait and {refused} were refused in slot {slot}: {status:?}"
            );
        }
        Ok(())
    }

    /// Checks which types may travel in one run.
    pub(super) fn check_runs(&self) -> Result<(), Broken> {
        let types: Vec<RequestType> = (0..=self.case.types.len())
            .map(|index| RequestType::new(u32::try_from(index).expect("few types")))
            .chain([RequestType::UNKNOWN])
            .collect();
        let known = |request_type| self.case.types.slot(request_type) < self.case.types.len();
        for &first in &types {
            for &next in &types {
                let same = self.scheduler.same_run(first, next);
                let holds = same == self.scheduler.same_run(next, first)
                    && (same || first != next)
                    && (!same || first == next || (known(first) && known(next)));
                require!(Runs, holds, "{first:?} and {next:?} in one run: {same}");
            }
        }
        let specs = self.case.types.specs();
        let group = |slot| self.scheduler.type_status(slot).group;
        for (alone, _) in { specs.iter().enumerate() }.filter(|(_, spec)| spec.is_never_grouped()) {
            let is_with = |&slot: &usize| slot != alone && group(slot) == group(alone);
            let with = (0..specs.len()).find(is_with).filter(|_| group(alone).is_some());
            require!(Runs, with.is_none(), "slots {alone} and {with:?} are one group");
        }
        Ok(())
    }

    /// Checks the deadline and quanta, when the scheduler has nothing more to do and knows the time.
    fn check_time(&self) -> Result<(), Broken> {
        let deadline_ns = self.scheduler.deadline_ns();
        let overdue = deadline_ns.is_some_and(|at_ns| at_ns <= self.now_ns);
        require!(Deadline, !overdue, "at {} ns it is {deadline_ns:?}", self.now_ns);
        if self.case.preemption.is_some() {
            self.check_quanta()?;
        }
        Ok(())
    }

    /// The workers that run a request beyond `quantum_ns` which yields and was not asked to.
    fn expired(&self, quantum_ns: u64) -> impl Iterator<Item = usize> {
        let turns = self.running.iter().enumerate();
        let expired = move |turn: &Turn| {
            let started_ns = turn.started_ns.max(self.since_ns);
            self.case.yields(turn.slot) && !turn.preempted && started_ns.saturating_add(quantum_ns) <= self.now_ns
        };
        turns
            .filter(move |(_, turn)| turn.as_ref().is_some_and(&expired))
            .map(|(worker, _)| worker)
    }

    /// Checks that no request waits for a worker that is beyond its quantum.
    fn check_quanta(&self) -> Result<(), Broken> {
        let unbound = self.unbound();
        match self.promises.quantum {
            Quantum::None => {}
            Quantum::ForAnyWaiting { quantum_ns } => {
                let wanted = unbound > self.stopping_for_all();
                for worker in self.expired(quantum_ns) {
                    let late = self.suspended(worker) > 0 || (wanted && self.begins(worker, 1));
                    require!(Quantum, !late, "worker {worker} runs on, and {unbound} wait");
                }
            }
            Quantum::ForOwnQueue { quantum_ns, queued_max } => {
                let can_stop = |worker: &usize| self.begins(*worker, 1);
                let expired: Vec<usize> = self.expired(quantum_ns).filter(can_stop).collect();
                for &worker in &expired {
                    let stays = |waiting: &&Waiting| {
                        waiting.home == Some(worker_id(worker))
                            || (self.promises.stays && waiting.ran_on == Some(worker_id(worker)))
                    };
                    let behind = self.waiting.values().find(stays);
                    require!(Quantum, behind.is_none(), "worker {worker} runs on, and {behind:?} waits behind");
                }
                // No request is in the queue of an expired worker, so all are in those of others.
                let keeps = |&worker: &usize| self.running[worker].is_some() || !self.begins(worker, 0);
                let keeping = (0..self.present).filter(keeps).count();
                let others = keeping - expired.len();
                let room = others.saturating_mul(queued_max);
                let room = room.saturating_add(self.put_off());
                require!(
                    Quantum,
                    expired.is_empty() || unbound <= room,
                    "{expired:?} run on, and {unbound} wait, of which {room} can wait elsewhere"
                );
            }
        }
        Ok(())
    }

    /// Checks what must hold when the scheduler has nothing more to do.
    pub(super) fn check_rest(&self) -> Result<(), Broken> {
        let owed = &self.refusals;
        require!(RefusedOnlyWhenFull, owed.is_empty(), "{owed:?} found their queues full");
        if self.told_ns == self.now_ns {
            self.check_time()?;
        }
        let idle: Vec<usize> = (0..self.case.workers).filter(|&worker| self.running[worker].is_none()).collect();
        // Without a context a worker begins nothing, and a request may wait in its queue for it.
        let all_begin = || idle.iter().all(|&worker| self.begins(worker, 0));
        let suspended = |waiting: &Waiting| waiting.home.is_some();
        let stranded = idle.len() == self.case.workers
            && !self.waiting.is_empty()
            && (all_begin() || self.waiting.values().any(suspended));
        let waiting = &self.waiting;
        require!(NothingLost, !stranded, "all workers idle, and {waiting:?} wait");
        self.check_idling(&idle)
    }

    fn check_idling(&self, idle: &[usize]) -> Result<(), Broken> {
        let owed = match &self.promises.idling {
            Idling::Never => &self.promises.workers,
            Idling::UnlessLent(owed) => owed,
            Idling::Freely => return Ok(()),
            Idling::BesideQueues { queued_max } => {
                let begin = idle.iter().filter(|&&worker| self.begins(worker, 0));
                let begin = begin.count();
                // A worker without a context keeps the requests of its queue as a busy one does.
                let keep = self.present - begin;
                let queued_max = keep.saturating_mul(*queued_max);
                let queued_max = queued_max.saturating_add(self.put_off());
                let unbound = self.unbound();
                require!(
                    WorkConserving,
                    begin == 0 || unbound <= queued_max,
                    "{idle:?} idle and {unbound} wait, of which {queued_max} can wait in queues"
                );
                let holds = idle.iter().find(|&&worker| self.suspended(worker) > 0);
                require!(WorkConserving, holds.is_none(), "{holds:?} idles with suspended requests");
                return Ok(());
            }
        };
        let seen = self.seen();
        for (id, waiting) in self.waiting.iter().filter(|(_, waiting)| !waiting.resumes()) {
            let could = idle
                .iter()
                .find(|&&worker| self.begins(worker, 0) && self.relief(&seen, waiting.slot, worker));
            require!(Relieved, could.is_none(), "{id} waits for stuck workers, and {could:?} idles");
        }
        // A request that ran before may be aged, and leave idle workers to requests yet to come.
        let may_age = matches!(self.promises.idling, Idling::UnlessLent(_));
        let owed_now = self.waiting.iter().filter(|(_, waiting)| !(may_age && waiting.resumes()));
        for (id, waiting) in owed_now {
            let could = idle.iter().find(|&&worker| {
                waiting.may_use(owed, &seen, worker)
                    && !self.is_spared(waiting, worker)
                    && self.can_run(waiting, worker)
            });
            require!(WorkConserving, could.is_none(), "{id} waits, and {could:?} idles");
        }
        Ok(())
    }
}
