//! Single decisions, and promises under random events, in virtual time.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::registration::Priority;

fn thread(number: i32) -> ThreadId {
    ThreadId::new(number).unwrap()
}

fn cores(number: usize) -> CoreSet {
    (0..number).filter_map(CoreId::new).collect()
}

fn registration(level: u8, cores_min: usize) -> Registration {
    Registration {
        name: "server".to_owned(),
        priority: Priority::new(level).unwrap(),
        cores_min,
        cores_max: 16,
    }
}

/// An arbitration, and what its driver has been told.
struct Driver {
    arbitration: Arbitration,
    told: Vec<Action>,
}

impl Driver {
    fn new(number: usize) -> Self {
        Self::with(Settings::default(), number, &[])
    }

    fn with(settings: Settings, number: usize, orphans: &[(usize, i32)]) -> Self {
        let orphans = orphans.iter();
        let orphans = orphans.map(|&(core, number)| (CoreId::new(core).unwrap(), thread(number)));
        let topology = Topology::default();
        Self {
            arbitration: Arbitration::new(0, settings, cores(number), topology, orphans),
            told: Vec::new(),
        }
    }

    /// Registers a server with threads `first..first + threads`.
    fn server(&mut self, level: u8, first: i32, threads: i32) -> ServerId {
        let registration = registration(level, 0);
        let id = self.arbitration.register(registration, 0).unwrap();
        for number in first..first + threads {
            self.arbitration.offer(0, id, thread(number)).unwrap();
        }
        id
    }

    fn actions(&mut self) -> Vec<Action> {
        let actions: Vec<_> = std::iter::from_fn(|| self.arbitration.next_action()).collect();
        self.told.extend(&actions);
        actions
    }

    fn held(&self, id: ServerId) -> usize {
        self.arbitration.servers()[&id].held.len()
    }
}

#[test]
fn a_server_gets_the_cores_that_it_wants_and_one_stays_unmanaged() {
    let mut driver = Driver::new(4);
    let id = driver.server(3, 100, 8);
    assert_eq!(driver.actions(), []);
    driver.arbitration.want(0, id, 2);
    let granted = |number, core| Action::Grant {
        server: id,
        thread: thread(number),
        core: CoreId::new(core).unwrap(),
    };
    let allowed = Action::Allow { server: id, cores: 2 };
    assert_eq!(driver.actions(), [allowed, granted(107, 3), granted(106, 2)]);
    driver.arbitration.want(0, id, 9);
    assert_eq!(driver.held(id), 3);
    assert_eq!(driver.arbitration.unmanaged().to_string(), "0");
}

#[test]
fn a_core_goes_to_a_higher_level_when_it_is_released() {
    let mut driver = Driver::new(2);
    let (low, high) = (driver.server(5, 100, 1), driver.server(1, 200, 1));
    driver.arbitration.want(0, low, 1);
    driver.actions();
    driver.arbitration.want(7, high, 1);
    let recall = Action::Recall { server: low, cores: 0 };
    assert!(driver.actions().contains(&recall));
    assert_eq!((driver.held(low), driver.held(high)), (1, 0));
    assert_eq!(driver.arbitration.next_deadline_ns(), Some(10_000_007));
    driver.arbitration.offer(8, low, thread(100)).unwrap();
    let core = CoreId::new(1).unwrap();
    let vacate = Action::Vacate { thread: thread(100), core };
    let grant = Action::Grant { server: high, thread: thread(200), core };
    assert_eq!(driver.actions(), [vacate, grant]);
    assert_eq!(driver.arbitration.next_deadline_ns(), None);
    // The core comes back when the higher server no longer wants it.
    driver.arbitration.want(9, high, 0);
    driver.arbitration.offer(9, high, thread(200)).unwrap();
    assert_eq!((driver.held(low), driver.held(high)), (1, 0));
}

#[test]
fn a_core_that_is_not_released_in_time_is_taken() {
    let mut driver = Driver::new(2);
    let (low, high) = (driver.server(5, 100, 1), driver.server(1, 200, 1));
    driver.arbitration.want(0, low, 1);
    driver.arbitration.want(0, high, 1);
    driver.actions();
    driver.arbitration.tick(9_999_999);
    assert_eq!(driver.actions(), []);
    driver.arbitration.tick(10_000_000);
    let core = CoreId::new(1).unwrap();
    let take = Action::Take { server: low, thread: thread(100), core };
    let grant = Action::Grant { server: high, thread: thread(200), core };
    assert_eq!(driver.actions(), [take, grant]);
    // A thread that lost its core gets none until the server offers it.
    driver.arbitration.gone(10_000_001, high);
    assert_eq!(driver.held(low), 0);
    driver.arbitration.offer(10_000_002, low, thread(100)).unwrap();
    assert_eq!(driver.held(low), 1);
}

#[test]
fn a_recall_ends_when_nobody_wants_the_core_any_more() {
    let mut driver = Driver::new(2);
    let (low, high) = (driver.server(5, 100, 1), driver.server(1, 200, 1));
    driver.arbitration.want(0, low, 1);
    driver.arbitration.want(0, high, 1);
    driver.arbitration.want(5, high, 0);
    driver.actions();
    driver.arbitration.tick(u64::MAX);
    assert_eq!(driver.actions(), []);
    assert_eq!(driver.held(low), 1);
}

#[test]
fn a_dead_servers_cores_are_free_at_once() {
    let mut driver = Driver::new(3);
    let (first, second) = (driver.server(1, 100, 2), driver.server(1, 200, 2));
    driver.arbitration.want(0, first, 2);
    driver.arbitration.want(0, second, 2);
    assert_eq!((driver.held(first), driver.held(second)), (2, 0), "one was recalled");
    driver.arbitration.gone(1, first);
    assert_eq!(driver.held(second), 2);
    assert_eq!(driver.arbitration.next_deadline_ns(), None);
}

#[test]
fn a_server_that_registers_again_keeps_its_cores() {
    let mut driver = Driver::with(Settings::default(), 4, &[(3, 100), (2, 101)]);
    assert_eq!(driver.arbitration.unmanaged().to_string(), "0-1");
    let id = driver.arbitration.register(registration(1, 0), 0).unwrap();
    driver.arbitration.want(0, id, 2);
    let three = CoreId::new(3).unwrap();
    driver.arbitration.hold(5, id, thread(100), three).unwrap();
    assert_eq!(driver.arbitration.holder(three), Some(thread(100)));
    // Another thread's core is not its own.
    let two = CoreId::new(2).unwrap();
    driver.arbitration.hold(5, id, thread(102), two).unwrap();
    let take = Action::Take { server: id, thread: thread(102), core: two };
    assert!(driver.actions().contains(&take));
    assert_eq!(driver.arbitration.next_deadline_ns(), Some(1_000_000_000));
    driver.arbitration.tick(1_000_000_000);
    let vacate = Action::Vacate { thread: thread(101), core: two };
    assert_eq!(driver.actions(), [vacate]);
    assert_eq!(driver.arbitration.unmanaged().to_string(), "0-2");
}

#[test]
fn users_have_limits() {
    let mut settings = Settings::default();
    settings.limits.default.cores_max = Some(1);
    settings.limits.default.priority_highest = Priority::new(4);
    let mut driver = Driver::with(settings, 4, &[]);
    let arbitration = &mut driver.arbitration;
    let refused = arbitration.register(registration(3, 0), 1000);
    assert_eq!(refused, Err(Refusal::PriorityOfUser));
    let id = arbitration.register(registration(4, 3), 1000).unwrap();
    for number in 1..=3 {
        arbitration.offer(0, id, thread(number)).unwrap();
    }
    arbitration.want(0, id, 3);
    assert_eq!(driver.held(id), 1);
}

#[test]
fn a_thread_belongs_to_one_server_and_a_server_has_a_bounded_number() {
    let mut driver = Driver::new(2);
    let (first, second) = (driver.server(1, 1, 256), driver.server(1, 1000, 0));
    let arbitration = &mut driver.arbitration;
    assert_eq!(arbitration.offer(0, second, thread(1)), Err(Refusal::Thread));
    assert_eq!(arbitration.offer(0, first, thread(999)), Err(Refusal::Threads));
    assert_eq!(arbitration.offer(0, first, thread(1)), Ok(()));
    assert_eq!(arbitration.withdraw(0, first, thread(2)), Ok(()));
    assert_eq!(arbitration.offer(0, first, thread(999)), Ok(()));
}

/// Something that happens; servers and threads are chosen by index.
#[derive(Debug, Clone)]
enum Happening {
    Register { level: u8, least: usize },
    Want { server: usize, cores: usize },
    Offer { server: usize, thread: i32 },
    Hold { server: usize, thread: i32, core: usize },
    Withdraw { server: usize, thread: i32 },
    Gone { server: usize },
    Pass { ns: u64 },
    GrantFails,
}

fn happenings() -> impl Strategy<Value = Vec<Happening>> {
    let (server, of) = (0..6_usize, 0..6_i32);
    let one = prop_oneof![
        2 => (0..8_u8, 0..3_usize).prop_map(|(level, least)| Happening::Register { level, least }),
        6 => (server.clone(), 0..9_usize).prop_map(|(server, cores)| Happening::Want { server, cores }),
        9 => (server.clone(), of.clone()).prop_map(|(server, thread)| Happening::Offer { server, thread }),
        1 => (server.clone(), of.clone(), 0..8_usize)
            .prop_map(|(server, thread, core)| Happening::Hold { server, thread, core }),
        1 => (server.clone(), of).prop_map(|(server, thread)| Happening::Withdraw { server, thread }),
        1 => server.prop_map(|server| Happening::Gone { server }),
        4 => (0..20_000_000_u64).prop_map(|ns| Happening::Pass { ns }),
        1 => Just(Happening::GrantFails),
    ];
    proptest::collection::vec(one, 0..120)
}

/// What the actions say, followed as a driver would follow them.
#[derive(Default)]
struct Followed {
    on_core: BTreeMap<CoreId, ThreadId>,
    allowed: BTreeMap<ServerId, usize>,
}

impl Followed {
    fn follow(&mut self, action: Action) {
        match action {
            Action::Allow { server, cores } | Action::Recall { server, cores } => {
                self.allowed.insert(server, cores);
            }
            Action::Grant { thread, core, .. } => {
                let before = self.on_core.insert(core, thread);
                assert_eq!(before, None, "core {core} has two threads");
            }
            Action::Take { thread, core, .. } | Action::Vacate { thread, core } => {
                if self.on_core.get(&core) == Some(&thread) {
                    self.on_core.remove(&core);
                }
            }
        }
    }
}

proptest! {
    #[test]
    fn promises_hold_whatever_happens(
        happenings in happenings(),
        number in 1..9_usize,
        reserve in 0..3_usize,
        orphans in proptest::collection::btree_map(0..8_usize, 100..106_i32, 0..3),
    ) {
        let settings = Settings { reserve, ..Settings::default() };
        let orphans: Vec<_> = orphans.into_iter().filter(|&(core, _)| core < number).collect();
        let mut driver = Driver::with(settings, number, &orphans);
        let mut now_ns = 0;
        let mut ids = Vec::new();
        let mut followed = Followed::default();
        for happening in happenings {
            let held_before: BTreeMap<ServerId, Vec<_>> = driver.arbitration.servers().iter()
                .map(|(&id, server)| (id, server.held.clone())).collect();
            let arbitration = &mut driver.arbitration;
            let pick = |server: usize| ids.get(server % ids.len().max(1)).copied().unwrap_or(ServerId(0));
            let own = |server: usize, number: i32| thread(100 * (1 + server as i32) + number);
            let mut released = None;
            match happening {
                Happening::Register { level, least } => {
                    if ids.len() < 6 {
                        ids.push(arbitration.register(registration(level, least), 0).unwrap());
                    }
                }
                Happening::Want { server, cores } => arbitration.want(now_ns, pick(server), cores),
                Happening::Offer { server, thread } => {
                    let thread = own(server % ids.len().max(1), thread);
                    released = Some(thread);
                    let _ = arbitration.offer(now_ns, pick(server), thread);
                }
                Happening::Hold { server, thread, core } => {
                    let thread = own(server % ids.len().max(1), thread);
                    released = Some(thread);
                    let _ = arbitration.hold(now_ns, pick(server), thread, CoreId::new(core).unwrap());
                }
                Happening::Withdraw { server, thread } => {
                    let thread = own(server % ids.len().max(1), thread);
                    released = Some(thread);
                    let _ = arbitration.withdraw(now_ns, pick(server), thread);
                }
                Happening::Gone { server } => {
                    let id = pick(server);
                    arbitration.gone(now_ns, id);
                    ids.retain(|&other| other != id);
                }
                Happening::Pass { ns } => {
                    // As a driver, it ticks at each deadline.
                    let until_ns = now_ns + ns;
                    while let Some(deadline_ns) = arbitration.next_deadline_ns().filter(|&at| at <= until_ns) {
                        now_ns = deadline_ns;
                        arbitration.tick(now_ns);
                    }
                    now_ns = until_ns;
                }
                Happening::GrantFails => {
                    let held = arbitration.servers().iter().find(|(_, server)| !server.held.is_empty());
                    if let Some((id, thread)) = held.map(|(&id, server)| (id, server.held[0].1)) {
                        released = Some(thread);
                        arbitration.grant_failed(now_ns, id, thread);
                    }
                }
            }
            let actions = driver.actions();
            for &action in &actions {
                followed.follow(action);
            }
            let arbitration = &driver.arbitration;
            // At least one core, and the reserve, stay unmanaged or an orphan's.
            let held: usize = arbitration.servers().values().map(|server| server.held.len()).sum();
            prop_assert!(held <= number.saturating_sub(reserve.max(1)));
            // The union of cores is conserved, and each has one owner.
            let orphaned = arbitration.orphans.len();
            prop_assert_eq!(held + orphaned + arbitration.unmanaged().len(), number);
            // The driver has been told all of that.
            for (id, server) in arbitration.servers() {
                for (core, thread) in &server.held {
                    prop_assert_eq!(followed.on_core.get(core), Some(thread));
                }
                if server.wanted.is_some() {
                    prop_assert_eq!(followed.allowed.get(id), Some(&server.allowed));
                }
                // Every core beyond what is allowed has a time by which it is taken.
                let recalled = server.held.len().saturating_sub(server.allowed);
                prop_assert_eq!(server.recalled_until_ns.len(), recalled);
                for &until_ns in &server.recalled_until_ns {
                    prop_assert!(now_ns < until_ns && until_ns <= now_ns + 10_000_000);
                }
                // No server waits for a free core.
                let hungry = server.held.len() < server.allowed && !server.idle.is_empty();
                prop_assert!(!hungry || arbitration.free_count() == 0, "{server:?}");
            }
            prop_assert_eq!(followed.on_core.len(), held);
            // Cores move only when they are released, taken late, or their server has gone.
            for (id, before) in held_before {
                let Some(server) = arbitration.servers().get(&id) else { continue };
                for (core, thread) in before {
                    let taken = actions.contains(&Action::Take { server: id, thread, core });
                    let kept = server.held.contains(&(core, thread));
                    prop_assert!(kept || taken || released == Some(thread), "core {core} moved");
                }
            }
        }
    }
}
