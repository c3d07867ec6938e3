//! Which threads of a server have cores of their own, and which workers are present therefore: a state machine between
//! the estimator, the arbiter and the scheduler.
//!
//! ```text
//!   thread    net thread   worker 0 │ worker 1   worker 2   worker 3   worker 4
//!   core         yes         yes    │   yes        yes      leaving      no
//!             run in any case       │ present ───────────┤  absent ─────────────
//! ```
//!
//! - Threads get cores in their order, and give them back from the end, so that the workers with cores are a range.
//! - A worker that gives its core back is absent at once. It keeps the core until the requests that it holds have
//!   ended.
//! - The net thread and the fewest workers do not need a core of their own. Without one they run beside everything
//!   else.
//! - Without an arbiter, as many workers are present as the load needs.

/// A thread, as far as cores are concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// It has no core, and was offered.
    Offered,
    /// It has a core.
    On,
    /// It has a core, and gives it back.
    Leaving,
    /// It has lost its core, and was not offered since.
    Taken,
}

impl Standing {
    const fn has_core(self) -> bool {
        matches!(self, Self::On | Self::Leaving)
    }
}

/// What is to be so by now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Settled {
    /// Workers that are present.
    pub(super) present: usize,
    /// Cores that the server has.
    pub(super) held: usize,
    /// Cores that it wants.
    pub(super) wanted: usize,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Grants {
    /// The net thread, and the workers that are other threads.
    threads: Vec<Standing>,
    /// The thread of worker 0.
    first_worker: usize,
    /// So many threads run without a core, too.
    always: usize,
    /// Workers that the load needs.
    needed: usize,
    workers_min: usize,
    /// There are no requests.
    rests: bool,
    is_registered: bool,
}

impl Grants {
    /// For `workers_min..=workers_max` workers. With `inline` the net thread is worker 0.
    pub(super) fn new(workers_min: usize, workers_max: usize, inline: bool) -> Self {
        let first_worker = usize::from(!inline);
        Self {
            threads: vec![Standing::Offered; first_worker + workers_max],
            first_worker,
            always: first_worker + workers_min,
            needed: workers_min,
            workers_min,
            rests: true,
            is_registered: false,
        }
    }

    /// The load needs so many workers.
    pub(super) fn need(&mut self, workers: usize) {
        self.needed = workers;
    }

    /// There are requests.
    pub(super) fn work(&mut self) {
        self.rests = false;
    }

    /// There were no requests for a while. All cores go back.
    pub(super) fn rest(&mut self) {
        self.rests = true;
        self.needed = self.workers_min;
    }

    /// Whether the server rests.
    pub(super) fn rests(&self) -> bool {
        self.rests
    }

    /// An arbiter knows the server.
    pub(super) fn registered(&mut self) {
        self.is_registered = true;
    }

    /// The arbiter has gone.
    pub(super) fn lost(&mut self) {
        self.is_registered = false;
    }

    /// The thread has a core from now on.
    pub(super) fn granted(&mut self, thread: usize) {
        self.threads[thread] = Standing::On;
    }

    /// The thread has lost its core.
    pub(super) fn taken(&mut self, thread: usize) {
        self.threads[thread] = Standing::Taken;
    }

    fn held(&self) -> usize {
        let held = self.threads.iter().filter(|standing| standing.has_core());
        held.count()
    }

    /// Whether a worker that gives its core back has not done so yet.
    pub(super) fn is_leaving(&self) -> bool {
        self.threads.contains(&Standing::Leaving)
    }

    /// Decides who goes and who stays when `must_release` of the cores are asked back, and puts the threads that are to
    /// be offered (again) into `offers`: the last one is to be granted a core first. `is_busy` says whether a worker
    /// holds requests that it can run.
    pub(super) fn settle(
        &mut self,
        must_release: usize,
        is_busy: impl Fn(usize) -> bool,
        offers: &mut Vec<usize>,
    ) -> Settled {
        let target = match self.rests {
            true => 0,
            false => self.first_worker + self.needed,
        };
        self.choose(target.min(self.held().saturating_sub(must_release)));
        self.release(is_busy, offers);
        let held = self.held();
        Settled {
            present: self.present(),
            held,
            // Who still needs its core for a while does not want to lose it yet.
            wanted: target.max(held),
        }
    }

    /// The first `keep` threads stay, if they have cores. A core beyond a thread without one is of no use to a worker,
    /// and goes back for the sake of that thread.
    fn choose(&mut self, keep: usize) {
        let (mut kept, mut is_range) = (0, true);
        for standing in &mut self.threads {
            let stays = standing.has_core() && is_range && kept < keep;
            kept += usize::from(stays);
            is_range &= stays || !self.is_registered;
            if standing.has_core() {
                *standing = if stays { Standing::On } else { Standing::Leaving };
            }
        }
    }

    fn release(&mut self, is_busy: impl Fn(usize) -> bool, offers: &mut Vec<usize>) {
        for (index, standing) in self.threads.iter_mut().enumerate().rev() {
            let is_offered = match standing {
                Standing::On => false,
                Standing::Leaving => index < self.always || !is_busy(index - self.first_worker),
                Standing::Taken => true,
                // It was offered before those, and comes before them.
                Standing::Offered => !offers.is_empty(),
            };
            if is_offered {
                *standing = Standing::Offered;
                offers.push(index);
            }
        }
    }

    fn present(&self) -> usize {
        if !self.is_registered {
            return self.needed;
        }
        let others = self.threads[self.always..].iter();
        let with_cores = others.take_while(|&&standing| standing == Standing::On);
        self.workers_min + with_cores.count()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;
    use psp_arbiter::Topology;
    use psp_arbiter::arbitration::{Action, Arbitration, ServerId, Settings};
    use psp_arbiter::{CoreId, CoreSet, Priority, Registration, ThreadId};

    use super::*;

    /// Settles with workers that run nothing.
    fn settle(grants: &mut Grants, must_release: usize) -> (Settled, Vec<usize>) {
        let mut offers = Vec::new();
        (grants.settle(must_release, |_| false, &mut offers), offers)
    }

    const fn settled(present: usize, held: usize, wanted: usize) -> Settled {
        Settled { present, held, wanted }
    }

    /// A registered server with 1 to 4 workers and a net thread, whose load needs `needed`.
    fn busy(needed: usize, granted: usize) -> Grants {
        let mut grants = Grants::new(1, 4, false);
        grants.registered();
        grants.work();
        grants.need(needed);
        (0..granted).for_each(|thread| grants.granted(thread));
        grants
    }

    #[test]
    fn a_worker_is_present_when_its_thread_has_a_core() {
        for (inline, granted, present) in [
            (false, 0, 1),
            (false, 2, 1),
            (false, 3, 2),
            (false, 5, 4),
            (true, 1, 1),
            (true, 2, 2),
            (true, 4, 4),
        ] {
            let mut grants = Grants::new(1, 4, inline);
            grants.registered();
            grants.work();
            grants.need(4);
            (0..granted).for_each(|thread| grants.granted(thread));
            let wanted = if inline { 4 } else { 5 };
            let expected = settled(present, granted, wanted);
            assert_eq!(settle(&mut grants, 0), (expected, vec![]));
        }
    }

    #[test]
    fn a_worker_that_is_not_needed_keeps_its_core_until_its_requests_have_ended() {
        let mut grants = busy(3, 4);
        grants.need(2);
        let mut offers = Vec::new();
        let runs = grants.settle(0, |worker| worker == 2, &mut offers);
        assert_eq!((runs, &offers[..]), (settled(2, 4, 4), &[][..]));
        assert!(grants.is_leaving());
        let (ended, offers) = settle(&mut grants, 0);
        assert_eq!((ended, &offers[..]), (settled(2, 3, 3), &[3][..]));
        assert!(!grants.is_leaving());
    }

    #[test]
    fn a_worker_that_is_needed_again_before_it_has_gone_stays() {
        let mut grants = busy(3, 4);
        grants.need(2);
        grants.settle(0, |_| true, &mut Vec::new());
        grants.need(3);
        assert_eq!(settle(&mut grants, 0), (settled(3, 4, 4), vec![]));
    }

    #[test]
    fn cores_that_are_asked_back_are_those_of_the_last_workers() {
        let mut grants = busy(4, 5);
        let mut offers = Vec::new();
        let recalled = grants.settle(2, |_| true, &mut offers);
        assert_eq!((recalled, offers.len()), (settled(2, 5, 5), 0));
        assert_eq!(settle(&mut grants, 2), (settled(2, 3, 5), vec![4, 3]));
        // The worker that always runs and the net thread need not end anything.
        let all = grants.settle(3, |_| true, &mut offers);
        assert_eq!((all, offers), (settled(1, 1, 5), vec![1, 0]));
    }

    #[test]
    fn a_worker_without_its_core_is_absent_and_offered_again() {
        let mut grants = busy(4, 5);
        grants.taken(4);
        let mut offers = Vec::new();
        let taken = grants.settle(0, |_| true, &mut offers);
        assert_eq!((taken, offers), (settled(3, 4, 5), vec![4]));
        grants.granted(4);
        assert_eq!(settle(&mut grants, 0), (settled(4, 5, 5), vec![]));
    }

    #[test]
    fn a_core_beyond_a_worker_without_one_goes_back_below_it() {
        let mut grants = busy(4, 3);
        grants.granted(4);
        assert_eq!(settle(&mut grants, 0), (settled(2, 3, 5), vec![4, 3]));
    }

    #[test]
    fn without_an_arbiter_workers_follow_the_load() {
        let mut grants = busy(2, 3);
        grants.lost();
        grants.need(4);
        assert_eq!(settle(&mut grants, 0), (settled(4, 3, 5), vec![]));
        grants.registered();
        assert_eq!(settle(&mut grants, 0), (settled(2, 3, 5), vec![]));
    }

    #[test]
    fn a_server_that_rests_wants_no_cores() {
        let mut grants = busy(3, 4);
        grants.rest();
        assert_eq!(settle(&mut grants, 0), (settled(1, 0, 0), vec![3, 2, 1, 0]));
        grants.work();
        assert_eq!(settle(&mut grants, 0), (settled(1, 0, 2), vec![]));
    }

    const WORKERS_MAX: usize = 4;
    const CORES: usize = 4;
    const MS: u64 = 1_000_000;

    fn thread(index: usize) -> ThreadId {
        ThreadId::new(1 + index as i32).unwrap()
    }

    fn registration(cores_max: usize) -> Registration {
        Registration {
            name: "server".to_owned(),
            priority: Priority::new(4).unwrap(),
            cores_min: 0,
            cores_max,
        }
    }

    /// A real arbitration, the server, and another one that is more important and gives back at once.
    struct World {
        now_ns: u64,
        arbitration: Arbitration,
        server: ServerId,
        other: ServerId,
        other_wants: usize,
        grants: Grants,
        busy: Vec<bool>,
        /// What the arbiter has told, and the server has not heard.
        told: VecDeque<Action>,
        /// Cores by the server's own books, and in the order of their grants.
        held: Vec<(usize, CoreId)>,
        wanted: usize,
    }

    const OTHERS: usize = 100;

    impl World {
        fn new(inline: bool) -> Self {
            let grants = Grants::new(1, WORKERS_MAX, inline);
            let mut world = Self {
                now_ns: 0,
                arbitration: Self::arbitration(),
                server: ServerId(0),
                other: ServerId(0),
                other_wants: 0,
                busy: vec![false; WORKERS_MAX],
                told: VecDeque::new(),
                held: Vec::new(),
                wanted: 0,
                grants,
            };
            world.register();
            world
        }

        fn arbitration() -> Arbitration {
            let cores: CoreSet = (0..CORES).filter_map(CoreId::new).collect();
            Arbitration::new(0, Settings::default(), cores, Topology::default(), [])
        }

        /// Both servers register, the one under test with what it has.
        fn register(&mut self) {
            let threads = self.grants.threads.len();
            let arbitration = &mut self.arbitration;
            self.server = arbitration.register(registration(threads), 0).unwrap();
            self.other = arbitration.register(registration(CORES), 0).unwrap();
            for thread in (0..threads).rev() {
                if !self.held.iter().any(|&(holder, _)| holder == thread) {
                    self.offer(thread);
                }
            }
            for (holder, core) in self.held.clone() {
                let (now_ns, id) = (self.now_ns, self.server);
                self.arbitration.hold(now_ns, id, thread(holder), core).unwrap();
            }
            for index in 0..CORES {
                let (now_ns, id) = (self.now_ns, self.other);
                self.arbitration.offer(now_ns, id, thread(OTHERS + index)).unwrap();
            }
            self.arbitration.want(self.now_ns, self.server, self.wanted);
            self.arbitration.want(self.now_ns, self.other, self.other_wants);
            self.grants.registered();
            self.act();
        }

        fn offer(&mut self, index: usize) {
            let id = self.server;
            self.arbitration.offer(self.now_ns, id, thread(index)).unwrap();
        }

        /// Tells the servers what the arbitration says.
        fn act(&mut self) {
            while let Some(action) = self.arbitration.next_action() {
                match action {
                    Action::Recall { server, .. } if server == self.other => {
                        let other = &self.arbitration.servers()[&self.other];
                        let surplus = other.held.len().saturating_sub(other.allowed);
                        let held: Vec<ThreadId> = other.held.iter().map(|&(_, thread)| thread).collect();
                        for &thread in held.iter().rev().take(surplus) {
                            let (now_ns, id) = (self.now_ns, self.other);
                            self.arbitration.offer(now_ns, id, thread).unwrap();
                        }
                    }
                    Action::Grant { server, .. } | Action::Take { server, .. } if server == self.server => {
                        self.told.push_back(action);
                    }
                    _ => {}
                }
            }
        }

        /// The server hears what it was told, and does something about it.
        fn listen(&mut self) {
            for action in std::mem::take(&mut self.told) {
                match action {
                    Action::Grant { thread, core, .. } => {
                        let index = thread.number() as usize - 1;
                        if !self.held.contains(&(index, core)) {
                            self.held.push((index, core));
                            self.grants.granted(index);
                        }
                    }
                    Action::Take { thread, core, .. } => {
                        let index = thread.number() as usize - 1;
                        if self.held.contains(&(index, core)) {
                            self.held.retain(|&(holder, _)| holder != index);
                            self.grants.taken(index);
                        }
                    }
                    _ => unreachable!("nothing else is told"),
                }
            }
            self.settle();
        }

        fn settle(&mut self) -> Settled {
            let allowed = self.arbitration.servers()[&self.server].allowed;
            let release = self.held.len().saturating_sub(allowed);
            let (busy, mut offers) = (self.busy.clone(), Vec::new());
            let settled = self.grants.settle(release, |worker| busy[worker], &mut offers);
            self.held.retain(|(holder, _)| !offers.contains(holder));
            assert_eq!(self.held.len(), settled.held);
            assert!(settled.present <= WORKERS_MAX);
            for worker in 1..settled.present {
                let thread = worker + self.grants.first_worker;
                let has_core = self.held.iter().any(|&(holder, _)| holder == thread);
                assert!(has_core, "worker {worker} is present without a core");
            }
            if !offers.is_empty() {
                let wanted = settled.held.min(settled.wanted);
                self.arbitration.want(self.now_ns, self.server, wanted);
                offers.iter().for_each(|&thread| self.offer(thread));
            }
            self.wanted = settled.wanted;
            self.arbitration.want(self.now_ns, self.server, settled.wanted);
            self.act();
            settled
        }

        /// Time passes until nothing changes any more.
        fn come_to_rest(&mut self) -> Settled {
            self.busy.fill(false);
            for _ in 0..2 * (CORES + WORKERS_MAX) {
                self.pass(20);
                self.listen();
            }
            self.settle()
        }

        fn pass(&mut self, ms: u64) {
            self.now_ns += ms * MS;
            self.arbitration.tick(self.now_ns);
            self.act();
        }
    }

    #[derive(Debug, Clone)]
    enum Step {
        Need(usize),
        Rest,
        Work,
        Busy(usize, bool),
        Other(usize),
        Pass(u64),
        Listen,
        Restart,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            3 => (1..=WORKERS_MAX).prop_map(Step::Need),
            1 => Just(Step::Rest),
            2 => Just(Step::Work),
            3 => (0..WORKERS_MAX, any::<bool>()).prop_map(|(worker, busy)| Step::Busy(worker, busy)),
            3 => (0..=CORES).prop_map(Step::Other),
            3 => (1..20_u64).prop_map(Step::Pass),
            6 => Just(Step::Listen),
            1 => Just(Step::Restart),
        ];
        prop::collection::vec(step, 0..80)
    }

    proptest! {
        #[test]
        fn an_arbiter_and_a_server_agree_whatever_happens(inline: bool, steps in steps()) {
            let mut world = World::new(inline);
            for step in steps {
                match step {
                    Step::Need(workers) => world.grants.need(workers),
                    Step::Rest => world.grants.rest(),
                    Step::Work => world.grants.work(),
                    Step::Busy(worker, busy) => world.busy[worker] = busy,
                    Step::Other(wanted) => {
                        world.other_wants = wanted;
                        world.arbitration.want(world.now_ns, world.other, wanted);
                        world.act();
                    }
                    Step::Pass(ms) => world.pass(ms),
                    Step::Listen => world.listen(),
                    Step::Restart => {
                        world.grants.lost();
                        world.told.clear();
                        world.arbitration = World::arbitration();
                        world.register();
                    }
                }
            }
            let settled = world.come_to_rest();
            let server = &world.arbitration.servers()[&world.server];
            let mut held: Vec<usize> =
                server.held.iter().map(|(_, thread)| thread.number() as usize - 1).collect();
            held.sort_unstable();
            let expected: Vec<usize> = (0..settled.held).collect();
            prop_assert_eq!(held, expected, "the first threads have the cores: {:?}", settled);
            prop_assert_eq!(settled.held, server.allowed);
            prop_assert_eq!(settled.wanted, server.wanted.unwrap());
            let workers = settled.held.saturating_sub(world.grants.first_worker).max(1);
            prop_assert_eq!(settled.present, workers);
            prop_assert!(!world.grants.is_leaving());
        }
    }
}
