//! Policies that change while requests wait and run.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::{Client, TestServer, handler, lines, policies_of_workers, start, until};
use psp_server::policy::{Action, Event, PolicyError, Portfolio, Scheduler, TypedQueues};
use psp_server::telemetry::{TurnSnapshot, WorkerSnapshot};
use psp_server::{Config, Policy, PreemptPolicy, Topology};

const CLIENTS: usize = 6;
const SWITCHES: usize = 68;

fn config() -> Config {
    Config::default().workers(3)
}

/// Sends numbered requests of all types, some pipelined, until told to stop. Returns how many were answered.
fn talk(mut client: Client, name: usize, stop: &AtomicBool) -> usize {
    let mut sent = 0;
    while !stop.load(Ordering::Relaxed) {
        let burst: Vec<String> = (sent..sent + 1 + sent % 5)
            .map(|number| match number % 4 {
                0 => format!("spin {}.{name}.{number}", number % 3 * 300),
                1 => format!("?unknown {name}.{number}"),
                _ => format!("short {name}.{number}"),
            })
            .collect();
        client.send(&(burst.join("\n") + "\n"));
        for request in &burst {
            assert_eq!(client.line(), format!("ok {request}"));
        }
        sent += burst.len();
    }
    sent
}

/// Changes the policy over and over under load. Every request must be answered in order.
fn switch_under_load(server: TestServer, policies: &[Policy]) {
    server.gate.open();
    let stop = AtomicBool::new(false);
    let answered: usize = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|name| {
                let client = server.connect();
                let stop = &stop;
                scope.spawn(move || talk(client, name, stop))
            })
            .collect();
        let completed = || -> u64 {
            let snapshot = server.handle.snapshot();
            snapshot.types.iter().map(|ty| ty.completions).sum()
        };
        for policy in policies.iter().cycle().take(SWITCHES) {
            server.handle.set_policy(policy.clone()).unwrap();
            assert_eq!(server.handle.policy(), *policy);
            let before = completed();
            until("requests go on", || completed() > before + 20);
        }
        stop.store(true, Ordering::Relaxed);
        clients.into_iter().map(|client| client.join().unwrap()).sum()
    });
    let snapshot = server.handle.snapshot();
    let arrived: u64 = snapshot.types.iter().map(|ty| ty.arrivals).sum();
    let completed: u64 = snapshot.types.iter().map(|ty| ty.completions).sum();
    assert_eq!((arrived, completed), (answered as u64, answered as u64));
    assert_eq!(server.stop().abandoned, 0);
}

struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A portfolio studies what arrived, and goes on under what it chose.
#[test]
fn no_request_is_lost_while_a_portfolio_chooses() {
    let few: Policy = Portfolio::default().first_study(50).trial_requests(256).into();
    for topology in [Topology::Inline, Topology::Dedicated] {
        let server = start(few.clone(), topology, config());
        server.gate.open();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let clients = (0..CLIENTS).map(|name| {
                let client = server.connect();
                let stop = &stop;
                scope.spawn(move || talk(client, name, stop))
            });
            let clients: Vec<_> = clients.collect();
            // A panic ends the clients, too, for which the scope waits.
            let stops = StopOnDrop(&stop);
            until("studies end", || server.handle.snapshot().studies >= 3);
            drop(stops);
            let answered: usize = { clients.into_iter() }.map(|it| it.join().unwrap()).sum();
            let types = server.handle.snapshot().types;
            let completed: u64 = types.iter().map(|ty| ty.completions).sum();
            assert_eq!(completed, answered as u64);
        });
        assert_eq!(server.stop().abandoned, 0);
    }
}

fn policies(names: &[&str]) -> Vec<Policy> {
    names.iter().map(|name| name.parse().unwrap()).collect()
}

#[test]
fn no_request_is_lost_between_all_policies() {
    let server = start(Policy::darc(), Topology::Dedicated, config());
    let handle = server.handle.clone();
    switch_under_load(server, &policies(&Policy::NAMES));
    let workers = handle.snapshot().workers;
    let preemptions = |of: fn(&TurnSnapshot) -> u64| -> u64 { workers.iter().map(|worker| of(&worker.turns)).sum() };
    let honoured = preemptions(|turns| turns.preemptions_honoured);
    assert!(honoured > 0, "requests were suspended on the way");
    assert!(preemptions(|turns| turns.preemptions_asked) >= honoured);
}

#[test]
fn no_request_is_lost_between_policies_where_the_net_thread_is_a_worker() {
    let names = Policy::names_to_completion();
    let server = start(Policy::darc(), Topology::Inline, config());
    switch_under_load(server, &policies(&names));
}

#[test]
fn no_request_is_lost_between_policies_of_workers_that_receive_for_themselves() {
    let server = start(Policy::d_fcfs(), Topology::Distributed, config());
    let handle = server.handle.clone();
    switch_under_load(server, &policies_of_workers());
    let workers = handle.snapshot().workers;
    let all = |of: fn(&WorkerSnapshot) -> u64| workers.iter().map(of).sum::<u64>();
    assert!(all(|worker| worker.stolen) > 0);
    assert!(all(|worker| worker.handed_over) > 0);
    assert!(all(|worker| worker.turns.preemptions_honoured) > 0);
}

/// One of two workers runs a request that does not end. Under `jsq` the other one hands requests over to it. They are
/// not lost when the policy changes again.
#[test]
fn what_was_handed_over_to_a_worker_that_never_came_is_run_by_another() {
    const SHORTS: usize = 100;
    let two = Config::default().workers(2).preempt(PreemptPolicy::None);
    let server = start(Policy::stealing(), Topology::Distributed, two);
    let mut held = server.connect();
    held.send("wait here\n");
    until("it runs", || server.gate.waiting.load(Ordering::SeqCst) == 1);
    let mut shorts: Vec<Client> = (0..SHORTS).map(|_| server.connect()).collect();
    for next in [Policy::d_fcfs(), Policy::stealing(), Policy::darc_distributed()] {
        server.handle.set_policy(Policy::jsq()).unwrap();
        let arrivals = || server.handle.snapshot().types[0].arrivals;
        let all = arrivals() + SHORTS as u64;
        for short in &mut shorts {
            short.send("short\n");
        }
        until("all have arrived", || arrivals() == all);
        server.handle.set_policy(next).unwrap();
        for short in &mut shorts {
            assert_eq!(short.line(), "ok short");
        }
    }
    assert_eq!(server.gate.waiting.load(Ordering::SeqCst), 1);
    server.gate.open();
    assert_eq!(held.line(), "ok wait here");
    assert_eq!(server.stop().abandoned, 0);
}

#[test]
fn waiting_requests_go_on_under_the_next_policy() {
    let server = start(Policy::c_fcfs(), Topology::Dedicated, config());
    let mut held: Vec<Client> = (0..5).map(|_| server.connect()).collect();
    for client in &mut held {
        client.send("wait here\n");
    }
    until("three run", || server.gate.waiting.load(Ordering::SeqCst) == 3);
    let mut short = server.connect();
    short.send("short\n");
    until("all have arrived", || {
        server.handle.snapshot().types[0].arrivals == 1 && server.handle.snapshot().types[1].arrivals == 5
    });
    server.handle.set_policy(Policy::fixed_priority()).unwrap();
    server.gate.open();
    for mut client in held {
        assert_eq!(client.line(), "ok wait here");
    }
    assert_eq!(short.line(), "ok short");
    let turns: u64 = server.handle.snapshot().workers.iter().map(|worker| worker.turns.turns).sum();
    assert_eq!(turns, 6);
}

#[test]
fn a_policy_that_does_not_fit_is_refused_and_the_old_one_stays() {
    let server = start(Policy::darc(), Topology::Inline, config());
    let error = server.handle.set_policy(Policy::darc_static(3)).unwrap_err();
    assert!(matches!(error, PolicyError::Setting { setting: "reserved", .. }), "{error}");
    let error = server.handle.set_policy(Policy::mq()).unwrap_err();
    assert_eq!(error, PolicyError::NeedsDedicated("mq".to_owned()));
    assert_eq!(server.handle.policy(), Policy::darc());
    assert_eq!(server.connect().ask("short"), "ok short");
}

/// Serves requests one type after another, and hands nothing over.
struct KeepsAll(TypedQueues);

impl Scheduler for KeepsAll {
    fn on_event(&mut self, now_ns: u64, event: Event<'_>) {
        self.0.on_event(now_ns, event);
    }

    fn poll(&mut self, now_ns: u64) -> Option<Action> {
        let slot = (0..self.0.slots()).find(|&slot| self.0.can_run(slot));
        let refused = self.0.next_refused();
        refused.or_else(|| self.0.run(now_ns, slot?))
    }
}

#[test]
fn a_policy_that_hands_nothing_over_is_neither_left_nor_adopted() {
    let keeps_all = Policy::custom("keeps-all", |setup| Box::new(KeepsAll(TypedQueues::new(setup))));
    for (first, next) in [(keeps_all.clone(), Policy::darc()), (Policy::darc(), keeps_all.clone())] {
        let server = start(first.clone(), Topology::Dedicated, config());
        assert_eq!(server.connect().ask("short"), "ok short");
        let error = server.handle.set_policy(next).unwrap_err();
        assert_eq!(error, PolicyError::NoHandover("keeps-all".to_owned()));
        assert_eq!(server.handle.policy(), first);
        assert_eq!(server.connect().ask("short"), "ok short");
    }
}

#[test]
fn a_policy_set_before_the_start_is_in_force_from_the_start() {
    let server = lines().handler(handler(|_, _| {})).build().unwrap();
    let handle = server.handle();
    handle.set_policy(Policy::sjf()).unwrap();
    assert_eq!(handle.policy(), Policy::sjf());
    handle.shut_down();
    assert_eq!(server.run_until(&psp_server::Shutdown::new()).unwrap().abandoned, 0);
}
