//! Workers that receive for themselves and run each other's requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use psp_server::policy::PolicyError;
use psp_server::protocols::Sink;
use psp_server::{Config, Policy, PreemptPolicy, RequestType, SpawnedServer, Topology, TypeSpec, checkpoint};

use crate::common::{
    Client, OfLines, PATIENCE, Spawned, TestServer, classifier, handler, lines, policies_of_workers, start_tcp, until,
};

/// Enough connections for every worker to have some.
const CLIENTS: usize = 64;

fn policies() -> [Policy; 4] {
    [Policy::stealing(), Policy::darc_distributed(), Policy::jsq(), Policy::synergy()]
}

fn start(policy: Policy, config: Config) -> TestServer {
    start_tcp(policy, Topology::Distributed, config)
}

fn clients(server: &TestServer) -> Vec<Client> {
    (0..CLIENTS).map(|_| server.connect()).collect()
}

/// What workers took from each other and handed over.
fn moved(server: &TestServer) -> (u64, u64) {
    let workers = server.handle.snapshot().workers;
    let stolen = workers.iter().map(|worker| worker.stolen).sum();
    (stolen, workers.iter().map(|worker| worker.handed_over).sum())
}

fn wait_for(server: &TestServer, waiting: usize) {
    until("requests wait at the gate", || server.gate.waiting.load(Ordering::SeqCst) == waiting);
}

#[test]
fn replies_keep_their_order_whoever_runs_the_requests() {
    for policy in policies() {
        for workers in [1, 2, 3] {
            let server = start(policy.clone(), Config::default().workers(workers));
            server.gate.open();
            let mut clients = clients(&server);
            let requests: Vec<String> = (0..200)
                .map(|i| match i % 7 {
                    3 => format!("wait {i}"),
                    4 => format!("big {}", i * 1000),
                    5 => format!("?unknown {i}"),
                    _ => format!("short {i}"),
                })
                .collect();
            std::thread::scope(|scope| {
                for client in &mut clients {
                    let requests = &requests;
                    scope.spawn(move || {
                        client.send(&(requests.join("\n") + "\n"));
                        for request in requests {
                            let reply = client.line();
                            assert!(reply.ends_with(&format!("ok {request}")), "{request}");
                        }
                    });
                }
            });
            let all = (CLIENTS * requests.len()) as u64;
            let snapshot = server.handle.snapshot();
            let arrived: u64 = snapshot.types.iter().map(|ty| ty.arrivals).sum();
            let completed: u64 = snapshot.types.iter().map(|ty| ty.completions).sum();
            assert_eq!((arrived, completed), (all, all), "{policy}");
            assert_eq!(snapshot.net.connections_open, CLIENTS as u64);
            drop(clients);
            assert_eq!(server.stop().abandoned, 0);
        }
    }
}

/// A worker has one place for each type, which other workers give back. Who waits for it is admitted then, and not at
/// the end of its patience.
#[test]
fn who_waits_for_a_place_gets_it_from_whoever_gives_it_back() {
    const REQUESTS: usize = 50;
    for policy in policies() {
        let config = Config::default().workers(2).background_nice(0);
        let config = config.queue_capacity(1).backpressure_ms(u64::MAX);
        let server = start(policy, config);
        server.gate.open();
        std::thread::scope(|scope| {
            for mut client in clients(&server) {
                scope.spawn(move || {
                    for i in 0..REQUESTS {
                        let request = match i % 5 {
                            2 => format!("wait {i}"),
                            _ => format!("short {i}"),
                        };
                        client.send(&format!("{request}\n"));
                        assert!(client.line().ends_with(&format!("ok {request}")));
                    }
                });
            }
        });
        server.stop();
    }
}

/// How many requests run that begin with each word, and which words may end.
#[derive(Default)]
struct Gates {
    first: AtomicUsize,
    second: AtomicUsize,
    open: [AtomicBool; 2],
}

impl Gates {
    fn run(&self, line: &[u8]) {
        let (running, open) = match line {
            line if line.starts_with(b"first") => (&self.first, &self.open[0]),
            line if line.starts_with(b"second") => (&self.second, &self.open[1]),
            _ => return,
        };
        running.fetch_add(1, Ordering::SeqCst);
        let since = Instant::now();
        while !open.load(Ordering::SeqCst) && since.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(1));
            // Its worker learns that it is long.
            checkpoint();
        }
        running.fetch_sub(1, Ordering::SeqCst);
    }

    fn open(&self, word: usize) {
        self.open[word].store(true, Ordering::SeqCst);
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        self.held.open(0);
        self.held.open(1);
    }
}

/// A server all of whose workers run a `first` request, and clients whose requests no worker reads until that ends.
/// Then a worker reads all of a port at once.
struct Holding {
    server: SpawnedServer,
    held: Arc<Gates>,
    holders: Vec<Client>,
    clients: Vec<Client>,
}

fn holding(policy: Policy, workers: usize, config: Config) -> Holding {
    let held = Arc::new(Gates::default());
    let at = held.clone();
    let server = lines()
        .types([TypeSpec::new("any")])
        .classifier(classifier(|_| RequestType::new(0)))
        .handler(handler(move |request, reply| {
            at.run(request.payload);
            reply.put(b"ok ");
            reply.put(request.payload);
        }))
        .policy(policy)
        .config(config.workers(workers))
        .topology(Topology::Distributed)
        .spawned();
    let connect = || server.connect();
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| connect()).collect();
    for client in &mut clients {
        assert_eq!(client.ask("short"), "ok short");
    }
    let mut holders = Vec::new();
    until("all workers are held", || {
        let mut holder = connect();
        holder.send("first\n");
        holders.push(holder);
        std::thread::sleep(Duration::from_millis(5));
        // More than that, where one yields to another before this is seen.
        held.first.load(Ordering::SeqCst) >= workers
    });
    Holding { server, held, holders, clients }
}

#[test]
fn an_idle_worker_runs_what_was_received_behind_a_long_request() {
    let mut holding = holding(Policy::stealing(), 2, Config::default());
    let mut long = holding.clients.pop().expect("a client");
    long.send("second\n");
    for client in &mut holding.clients {
        client.send("short\n");
    }
    holding.held.open(0);
    for client in &mut holding.clients {
        assert_eq!(client.line(), "ok short");
    }
    // Its worker steps back before it begins.
    until("it runs", || holding.held.second.load(Ordering::SeqCst) == 1);
    let workers = holding.server.handle().snapshot().workers;
    let stolen: u64 = workers.iter().map(|worker| worker.stolen).sum();
    assert!(stolen > 0, "half of the connections are the busy worker's");
    holding.held.open(1);
    assert_eq!(long.line(), "ok second");
    for holder in &mut holding.holders {
        assert_eq!(holder.line(), "ok first");
    }
}

/// There is no other worker that could send them.
#[test]
fn replies_leave_before_a_long_request_that_follows() {
    for policy in policies_of_workers() {
        let mut holding = holding(policy, 1, Config::default());
        let mut long = holding.clients.pop().expect("a client");
        for client in &mut holding.clients {
            client.send("short\n");
        }
        // So that it comes last.
        std::thread::sleep(Duration::from_millis(20));
        long.send("second\n");
        holding.held.open(0);
        for client in &mut holding.clients {
            assert_eq!(client.line(), "ok short");
        }
        until("the long one runs", || holding.held.second.load(Ordering::SeqCst) == 1);
        holding.held.open(1);
        assert_eq!(long.line(), "ok second");
    }
}

#[test]
fn requests_beyond_the_queues_are_refused_and_all_others_answered() {
    for policy in policies() {
        let config = Config::default().queue_capacity(3).backpressure_ms(0);
        let mut holding = holding(policy.clone(), 2, config);
        for client in &mut holding.clients {
            client.send("short\n");
        }
        holding.held.open(0);
        let clients = holding.clients.iter_mut().chain(&mut holding.holders);
        let replies = clients.map(Client::line);
        let (refused, answered): (Vec<_>, Vec<_>) = replies.partition(|reply| reply.starts_with("!busy any "));
        let is_answer = |reply: &String| ["ok short", "ok first"].contains(&&**reply);
        assert!(answered.iter().all(is_answer), "{policy}: {answered:?}");
        assert!(answered.len() >= 4 && !refused.is_empty(), "{policy}");
        let handle = holding.server.handle().clone();
        let any = &handle.snapshot().types[0];
        assert_eq!(any.rejections, refused.len() as u64, "{policy}");
        // Their places are free again.
        for client in &mut holding.clients {
            assert_eq!(client.ask("short"), "ok short", "{policy}");
        }
    }
}

#[test]
fn the_worker_of_short_requests_answers_them_while_the_other_runs_a_long_one() {
    // The long request blocks: lent to it, the worker of short ones could not be taken back.
    let config = Config::default().workers(2).preempt(PreemptPolicy::None);
    let server = start(Policy::darc_distributed(), config);
    // Whoever is idle keeps a short request.
    let ran_on_first = |client: &mut Client| {
        let completions = || server.handle.snapshot().workers[0].completions;
        loop {
            let before = (completions(), moved(&server));
            assert_eq!(client.ask("short"), "ok short");
            if moved(&server) == before.1 {
                return completions() > before.0;
            }
        }
    };
    let (mut of_first, of_second): (Vec<_>, Vec<_>) = clients(&server)
        .into_iter()
        .map(|mut client| (ran_on_first(&mut client), client))
        .partition(|(is_first, _)| *is_first);
    let mut long = server.connect();
    long.send("wait alone\n");
    wait_for(&server, 1);
    let half = of_first.len() / 2;
    for (_, client) in &mut of_first[..half] {
        client.send("wait behind\n");
    }
    for (_, client) in &mut of_first[half..] {
        for _ in 0..3 {
            assert_eq!(client.ask("short"), "ok short");
        }
    }
    assert_eq!(server.gate.waiting.load(Ordering::SeqCst), 1);
    assert!(half > 0 && !of_second.is_empty(), "the kernel spreads 64");
    server.gate.open();
    assert_eq!(long.line(), "ok wait alone");
    for (_, client) in &mut of_first[..half] {
        assert_eq!(client.line(), "ok wait behind");
    }
    let handed_over = moved(&server).1;
    assert!(handed_over >= half as u64, "{handed_over} of {half}");
}

#[test]
fn a_policy_that_needs_a_dispatcher_is_refused_with_the_reason() {
    let server = start(Policy::stealing(), Config::default().workers(2));
    for name in Policy::NAMES {
        let policy: Policy = name.parse().unwrap();
        let refused = (!policy.is_local()).then(|| PolicyError::NotDistributed(name.to_owned()));
        let before = server.handle.policy();
        let set = server.handle.set_policy(policy.clone());
        let in_force = match &refused {
            Some(_) => before,
            None => policy,
        };
        assert_eq!(set.err(), refused);
        assert_eq!(server.handle.policy(), in_force);
        assert_eq!(server.connect().ask("short"), "ok short");
    }
}
