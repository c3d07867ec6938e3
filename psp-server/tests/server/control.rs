//! Types whose requests run where they arrive, past the policy.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use psp_server::protocols::Sink;
use psp_server::telemetry::TypeSnapshot;
use psp_server::{
    Config, DrainReport, Policy, RequestType, Server, ServerHandle, SpawnedServer, Topology, TypeSpec, sleep,
};

use crate::common::{
    Client, Gate, Lines, OfLines, Spawned, UdpClient, classifier, handler, policies_of_workers, until,
};

const TOPOLOGIES: [Topology; 3] = [Topology::Inline, Topology::Dedicated, Topology::Distributed];

/// Slots of the types.
const GET: usize = 0;
const ADMIN: usize = 1;
const LONG: usize = 2;

/// A server with `get`, `admin` and `long` requests, by their first words. `long` ones wait at the gate and hold their
/// worker; `admin nap` sleeps, `admin panic` panics, `admin work` computes for a while.
struct Rig {
    server: Option<SpawnedServer>,
    handle: ServerHandle,
    gate: Arc<Gate>,
}

/// `admin` requests take about as long as `long` ones, so that policies which group types group these.
fn admin() -> TypeSpec {
    TypeSpec::new("admin").service_time(Duration::from_millis(9))
}

fn start(policy: Policy, topology: Topology, config: Config, admin: TypeSpec) -> Rig {
    let gate = Arc::new(Gate::default());
    let at = gate.clone();
    let get = TypeSpec::new("get").service_time(Duration::from_micros(1));
    let long = TypeSpec::new("long").service_time(Duration::from_millis(10));
    let server = Server::builder()
        .tcp("127.0.0.1:0")
        .udp("127.0.0.1:0")
        .framing(Lines)
        .types([get, admin, long])
        .classifier(classifier(|line| {
            let words: [&[u8]; 3] = [b"get", b"admin", b"long"];
            let found = words.iter().position(|word| line.starts_with(word));
            RequestType::new(found.unwrap_or(GET) as u32)
        }))
        .policy(policy)
        .config(config.topology(topology))
        .handler(handler(move |request, reply| {
            let line = request.payload.trim_ascii_end();
            match line {
                b"long" => at.wait(),
                b"admin nap" => sleep(Duration::from_millis(50)),
                b"admin panic" => panic!("the test asked for it"),
                b"admin work" => (0..20_000).for_each(|_| std::hint::spin_loop()),
                _ => {}
            }
            reply.put(b"ok ");
            reply.put(line);
            reply.put(b"\n");
        }))
        .spawned();
    Rig { handle: server.handle().clone(), server: Some(server), gate }
}

impl Rig {
    fn connect(&self) -> Client {
        let address = self.server.as_ref().unwrap().local_addrs()[0];
        Client::new(std::net::TcpStream::connect(address).unwrap())
    }

    fn datagrams(&self) -> UdpClient {
        UdpClient::new(*self.server.as_ref().unwrap().local_addrs().last().unwrap())
    }

    fn of(&self, slot: usize) -> TypeSnapshot {
        self.handle.snapshot().types[slot].clone()
    }

    /// Clients whose requests hold so many workers, and more that wait for these.
    fn hold(&self, workers: usize, more: usize) -> Vec<Client> {
        let mut clients: Vec<_> = (0..workers + more).map(|_| self.connect()).collect();
        for client in &mut clients {
            client.send("long\n");
        }
        until("the workers are held", || {
            self.gate.waiting.load(Ordering::SeqCst) == workers && self.of(LONG).arrivals >= workers as u64
        });
        clients
    }

    fn stop(mut self) -> DrainReport {
        self.server.take().unwrap().stop()
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.gate.open();
    }
}

/// A policy, and how many of two workers its long requests hold.
type LongsHold = (Policy, usize);

/// In `inline` the policies that keep long requests off the net thread. In `distributed` one worker is left, which
/// serves the ports of both.
fn held(topology: Topology) -> Vec<LongsHold> {
    match topology {
        Topology::Inline => vec![(Policy::darc(), 1), (Policy::darc_static(1), 1), (Policy::static_partition(), 1)],
        Topology::Dedicated => vec![
            (Policy::darc(), 1),
            (Policy::darc_lending(), 1),
            (Policy::c_fcfs(), 2),
            (Policy::sjf(), 2),
            (Policy::drr(), 2),
            (Policy::mq(), 2),
            (Policy::sq(), 2),
        ],
        _ => policies_of_workers().map(|policy| (policy, 1)).to_vec(),
    }
}

#[test]
fn control_requests_are_answered_beside_requests_that_hold_their_workers() {
    for topology in TOPOLOGIES {
        for (policy, workers) in held(topology) {
            let config = Config::default().workers(2);
            let rig = start(policy.clone(), topology, config, admin().control());
            let mut long = rig.hold(workers, 0);
            // In `distributed` their connections are those of both workers.
            let mut others: Vec<_> = (0..8).map(|_| rig.connect()).collect();
            for (number, other) in others.iter_mut().enumerate() {
                let request = format!("admin {number}");
                assert_eq!(other.ask(&request), format!("ok {request}"), "{policy}");
            }
            assert_eq!(rig.gate.waiting.load(Ordering::SeqCst), workers, "{policy}");
            let admin = rig.of(ADMIN);
            let counted = (admin.arrivals, admin.completions, admin.turns.turns);
            assert_eq!(counted, (8, 8, 8), "{policy}, {topology}");
            rig.gate.open();
            for client in &mut long {
                assert_eq!(client.line(), "ok long");
            }
            drop((long, others));
            assert_eq!(rig.stop().abandoned, 0, "{policy}, {topology}");
        }
    }
}

/// What the test above would find without control requests.
#[test]
fn a_type_that_is_grouped_with_longer_ones_waits_behind_them_unless_it_is_never_grouped() {
    for topology in [Topology::Inline, Topology::Dedicated] {
        let config = || Config::default().workers(3).stuck_after_ms(0);
        let grouped = start(Policy::darc(), topology, config(), admin());
        let mut long = grouped.hold(2, 1);
        let (mut other, mut witness) = (grouped.connect(), grouped.connect());
        other.send("admin\n");
        for _ in 0..1_000 {
            assert_eq!(witness.ask("get"), "ok get");
        }
        assert_eq!(grouped.of(ADMIN).completions, 0, "{topology}");
        grouped.gate.open();
        assert_eq!(other.line(), "ok admin");
        long.iter_mut().for_each(|client| assert_eq!(client.line(), "ok long"));

        let apart = start(Policy::darc(), topology, config(), admin().never_grouped());
        let _long = apart.hold(1, 1);
        assert_eq!(apart.connect().ask("admin"), "ok admin", "{topology}");
    }
}

#[test]
fn pipelines_keep_their_order_while_policies_change() {
    const ROUNDS: usize = 200;
    for topology in TOPOLOGIES {
        let rig = start(Policy::d_fcfs(), topology, Config::default().workers(2), admin().control());
        rig.gate.open();
        let policies: Vec<_> = held(topology).into_iter().map(|(policy, _)| policy).collect();
        thread::scope(|scope| {
            let clients: Vec<_> = (0..4)
                .map(|client| {
                    let mut connection = rig.connect();
                    scope.spawn(move || {
                        for round in 0..ROUNDS {
                            let words = ["get", "admin", "admin", "get", "long", "admin nap"];
                            let count = if round % 50 == client { 6 } else { 4 };
                            let lines = words[..count].iter();
                            let sent: String = lines.clone().map(|word| format!("{word}\n")).collect();
                            connection.send(&sent);
                            for word in lines {
                                assert_eq!(connection.line(), format!("ok {word}"));
                            }
                        }
                    })
                })
                .collect();
            let mut next = policies.iter().cycle();
            while !clients.iter().all(thread::ScopedJoinHandle::is_finished) {
                rig.handle.set_policy(next.next().unwrap().clone()).unwrap();
                thread::sleep(Duration::from_millis(5));
            }
        });
        let snapshot = rig.handle.snapshot();
        let arrived: u64 = snapshot.types.iter().map(|ty| ty.arrivals).sum();
        let completed: u64 = snapshot.workers.iter().map(|worker| worker.completions).sum();
        assert_eq!(arrived, completed, "{topology}");
        let own = usize::from(topology == Topology::Dedicated);
        assert_eq!(snapshot.workers.len(), 2 + own, "the net thread is one more");
        assert_eq!(rig.stop().abandoned, 0, "{topology}");
    }
}

#[test]
fn a_control_request_that_waits_holds_up_nobody_and_is_waited_for() {
    for topology in TOPOLOGIES {
        let config = Config::default().workers(2);
        let rig = start(Policy::d_fcfs(), topology, config, admin().control());
        let mut napping: Vec<_> = (0..20).map(|_| rig.connect()).collect();
        napping.iter_mut().for_each(|client| client.send("admin nap\n"));
        let mut other = rig.connect();
        let mut answered = 0;
        until("all naps are over", || {
            assert_eq!(other.ask("get"), "ok get");
            assert_eq!(other.ask("admin"), "ok admin");
            answered += 1;
            rig.of(ADMIN).completions == 20 + answered
        });
        assert!(answered > 1, "{answered} rounds beside 20 naps");
        let waits = rig.of(ADMIN).waits;
        assert_eq!((waits.waits, waits.blocked), (20, 0), "{topology}");
        for client in &mut napping {
            assert_eq!(client.line(), "ok admin nap");
        }
        other.send("admin nap\n");
        until("it waits", || rig.of(ADMIN).waits.blocked == 1);
        assert_eq!(rig.stop().abandoned, 0, "{topology}");
        assert_eq!(other.line(), "ok admin nap");
    }
}

#[test]
fn a_control_request_that_panics_fails_alone() {
    for topology in TOPOLOGIES {
        let config = Config::default().workers(2);
        let rig = start(Policy::d_fcfs(), topology, config, admin().control());
        let mut client = rig.connect();
        for _ in 0..3 {
            assert_eq!(client.ask("admin panic"), "!failed admin panic");
            assert_eq!(client.ask("admin"), "ok admin");
            assert_eq!(client.ask("get"), "ok get");
        }
        let panics = rig.handle.snapshot().workers;
        assert_eq!(panics.iter().map(|worker| worker.panics).sum::<u64>(), 3);
    }
}

#[test]
fn no_queue_is_full_and_no_wait_too_long_for_control_requests() {
    let admin = || {
        let admin = admin().queue_capacity(1).max_wait(Duration::ZERO);
        admin.control()
    };
    for topology in TOPOLOGIES {
        let config = Config::default().workers(2).backpressure_ms(0);
        let rig = start(Policy::d_fcfs(), topology, config, admin());
        let mut clients: Vec<_> = (0..50).map(|_| rig.connect()).collect();
        for _ in 0..20 {
            clients.iter_mut().for_each(|client| client.send("admin\n"));
            for client in &mut clients {
                assert_eq!(client.line(), "ok admin", "{topology}");
            }
        }
        let admin = rig.of(ADMIN);
        assert_eq!((admin.completions, admin.rejections, admin.expired), (1_000, 0, 0));
    }
}

#[test]
fn datagrams_may_be_control_requests() {
    for topology in TOPOLOGIES {
        let (policy, workers) = held(topology).remove(0);
        let config = Config::default().workers(2);
        let rig = start(policy, topology, config, admin().control());
        let _long = rig.hold(workers, 0);
        for _ in 0..8 {
            // Each socket may be another worker's.
            assert_eq!(rig.datagrams().ask("admin"), "ok admin", "{topology}");
        }
    }
}

#[test]
fn a_flood_of_control_requests_leaves_time_for_others() {
    for topology in TOPOLOGIES {
        let config = Config::default().workers(2);
        let rig = start(Policy::d_fcfs(), topology, config, admin().control());
        thread::scope(|scope| {
            for _ in 0..8 {
                let mut client = rig.connect();
                scope.spawn(move || {
                    client.send(&"admin work\n".repeat(500));
                    (0..500).for_each(|_| assert_eq!(client.line(), "ok admin work"));
                });
            }
            let mut other = rig.connect();
            until("the flood has begun", || rig.of(ADMIN).completions > 100);
            let mut beside = 0;
            until("the flood is over", || {
                assert_eq!(other.ask("get"), "ok get");
                beside += 1;
                rig.of(ADMIN).completions == 8 * 500
            });
            assert!(beside > 10, "{topology}: {beside} beside the flood");
        });
    }
}
