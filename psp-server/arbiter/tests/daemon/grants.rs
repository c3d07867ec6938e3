//! Cores come, are recalled, are taken, and survive either side's end.

use psp_arbiter::ThreadId;
use psp_arbiter::arbitration::Settings;
use psp_arbiter::client::{Arbiter, ArbiterEvent, ConnectError};
use psp_arbiter::mechanism::Step;
use psp_arbiter::protocol::Refusal;

use crate::rig::{Client, Rig, next_event, registration};

fn recalled(event: ArbiterEvent) -> Option<usize> {
    match event {
        ArbiterEvent::Recalled { release } => Some(release),
        _ => None,
    }
}

/// Whoever is recalled has all the time in the world.
fn patient() -> Settings {
    Settings { release_within_ns: u64::MAX, ..Settings::default() }
}

#[test]
fn a_server_is_granted_cores_and_gives_them_back() {
    let rig = Rig::start(4, Settings::default());
    let mut client = Client::connect(&rig.socket(), "one", 3, 2);
    client.arbiter.set_wanted(2);
    let (first, second) = (client.granted(), client.granted());
    assert_eq!((first.1.number(), second.1.number()), (3, 2));
    let mut held: Vec<_> = client.arbiter.granted().collect();
    held.sort_by_key(|&(_, core)| std::cmp::Reverse(core));
    assert_eq!(held, [first, second]);
    assert_eq!(client.arbiter.must_release(), 0);
    let status = rig.status();
    assert_eq!(status.unmanaged.to_string(), "0-1");
    assert_eq!(status.servers[0].name, "one");
    assert_eq!(status.servers[0].process as u32, std::process::id());
    client.arbiter.set_wanted(1);
    client.arbiter.release(second.0);
    rig.wait_for("one core back", |status| status.unmanaged.to_string() == "0-2");
    let steps = rig.mechanism.steps();
    assert!(steps.contains(&Step::Grant(first.1, first.0)));
    assert!(steps.contains(&Step::Vacate(second.1)));
}

#[test]
fn a_more_important_server_gets_the_core_once_it_is_released() {
    let rig = Rig::start(2, patient());
    let mut low = Client::connect(&rig.socket(), "low", 7, 1);
    low.arbiter.set_wanted(1);
    let (thread, core) = low.granted();
    let mut high = Client::connect(&rig.socket(), "high", 0, 1);
    high.arbiter.set_wanted(1);
    assert_eq!(low.expect(recalled), 1);
    assert_eq!(low.arbiter.must_release(), 1);
    let page = low.arbiter.page().unwrap();
    assert_eq!(page.must_release(1), 1);
    assert_eq!(high.arbiter.poll(), None);
    low.arbiter.release(thread);
    assert_eq!(high.granted(), (high.threads[0], core));
    // Nothing is said twice: the low server gets it back when the high one goes.
    drop(high);
    assert_eq!(low.granted(), (thread, core));
}

#[test]
fn a_core_that_is_not_released_is_taken() {
    let rig = Rig::start(2, Settings::default());
    let mut low = Client::connect(&rig.socket(), "low", 7, 1);
    low.arbiter.set_wanted(1);
    let (thread, core) = low.granted();
    let mut high = Client::connect(&rig.socket(), "high", 0, 1);
    high.arbiter.set_wanted(1);
    assert_eq!(high.granted(), (high.threads[0], core));
    let taken = low.expect(|event| match event {
        ArbiterEvent::Taken { thread, core } => Some((thread, core)),
        _ => None,
    });
    assert_eq!(taken, (thread, core));
    assert_eq!(low.arbiter.granted().count(), 0);
    // It comes back only after the thread was offered again.
    high.arbiter.set_wanted(0);
    high.arbiter.release(high.threads[0]);
    rig.wait_for("a free core", |status| status.unmanaged.len() == 2);
    low.arbiter.offer(thread);
    assert_eq!(low.granted(), (thread, core));
}

#[test]
fn servers_go_on_without_the_arbiter_and_register_again() {
    let mut rig = Rig::start(4, Settings::default());
    let mut client = Client::connect(&rig.socket(), "one", 3, 3);
    client.arbiter.set_wanted(2);
    let held = [client.granted(), client.granted()];
    rig.stop();
    client.expect(|event| (event == ArbiterEvent::Lost).then_some(()));
    assert!(!client.arbiter.is_registered());
    assert_eq!(client.arbiter.granted().count(), 2);
    assert_eq!(client.arbiter.must_release(), 0);
    // What happens meanwhile is told later.
    client.arbiter.set_wanted(3);
    client.arbiter.withdraw(held[1].0);
    rig.restart(Settings::default());
    client.expect(|event| matches!(event, ArbiterEvent::Registered { cores: 3 }).then_some(()));
    let (thread, _) = client.granted();
    assert!(held.iter().all(|&(other, _)| other != thread));
    let status = rig.wait_for("two cores", |status| status.servers[0].held.len() == 2);
    let kept = |held: &psp_arbiter::status::GrantedCore| held.thread == thread_number(client.threads[2]);
    assert_eq!(held[0].0, client.threads[2], "the last offered is the first granted");
    assert!(status.servers[0].held.iter().any(kept));
}

fn thread_number(thread: ThreadId) -> i32 {
    thread.number()
}

#[test]
fn a_dead_servers_cores_are_free_at_once() {
    let rig = Rig::start(2, patient());
    let mut first = Client::connect(&rig.socket(), "first", 3, 1);
    first.arbiter.set_wanted(1);
    let (_, core) = first.granted();
    let mut second = Client::connect(&rig.socket(), "second", 3, 1);
    second.arbiter.set_wanted(1);
    drop(first);
    assert_eq!(second.granted().1, core);
}

#[test]
fn a_server_may_start_before_the_arbiter() {
    let mut rig = Rig::start(2, Settings::default());
    rig.stop();
    let refused = Arbiter::connect(rig.socket(), registration("early", 3)).unwrap_err();
    assert!(matches!(refused, ConnectError::Unreachable { .. }), "{refused}");
    let mut early = Arbiter::connect_later(rig.socket(), registration("early", 3)).unwrap();
    assert_eq!(early.poll(), None);
    rig.restart(Settings::default());
    next_event(&mut early, |event| matches!(event, ArbiterEvent::Registered { .. }).then_some(()));
}

#[test]
fn a_second_arbiter_does_not_start() {
    let rig = Rig::start(2, Settings::default());
    let refused = psp_arbiter::daemon::Listener::bind(&rig.socket(), 0o600).unwrap_err();
    assert!(refused.to_string().contains("another arbiter listens at"), "{refused}");
    assert_eq!(rig.status().servers, []);
}

#[test]
fn a_registration_that_a_user_may_not_have_is_refused() {
    let mut settings = Settings::default();
    let user = rustix::process::getuid().as_raw();
    let limits = psp_arbiter::arbitration::UserLimits {
        cores_max: Some(1),
        priority_highest: psp_arbiter::Priority::new(4),
    };
    settings.limits.users.insert(user, limits);
    let rig = Rig::start(4, settings);
    let refused = Arbiter::connect(rig.socket(), registration("proud", 3)).unwrap_err();
    assert!(matches!(refused, ConnectError::Refused(Refusal::PriorityOfUser)), "{refused}");
    let mut client = Client::connect(&rig.socket(), "modest", 4, 2);
    client.arbiter.set_wanted(2);
    client.granted();
    assert_eq!(rig.status().servers[0].allowed, 1);
}
