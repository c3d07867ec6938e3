//! Contexts and their worker state are made when they are first needed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use psp_server::protocols::Sink;
use psp_server::{
    Config, Handler, Peer, Policy, PreemptPolicy, Reply, Request, RequestType, ServerHandle, SpawnedServer, Topology,
    TypeSpec, WorkerId, checkpoint,
};

use crate::common::{Client, OfLines, Spawned, lines, until};

const WORKERS: usize = 2;

/// Counts its worker states. A line that begins with `spin` runs until the gate is open.
#[derive(Clone, Default)]
struct Counting {
    made: Arc<AtomicUsize>,
    begun: Arc<AtomicUsize>,
    gate: Arc<AtomicBool>,
}

impl Handler for Counting {
    type Worker = ();
    type Connection = ();

    fn init_worker(&self, _worker: WorkerId) {
        self.made.fetch_add(1, Ordering::SeqCst);
    }

    fn connect(&self, _peer: Peer) {}

    fn handle(&self, (): &mut (), request: Request<'_, ()>, reply: &mut Reply<'_>) {
        if request.request_type == RequestType::new(1) {
            self.begun.fetch_add(1, Ordering::SeqCst);
            while !self.gate.load(Ordering::SeqCst) {
                checkpoint();
            }
        }
        reply.put(b"ok ");
        reply.put(request.payload);
    }
}

struct Running {
    counting: Counting,
    handle: ServerHandle,
    server: SpawnedServer,
}

impl Running {
    fn start(policy: impl Into<Policy>, topology: Topology, preempt: PreemptPolicy) -> Self {
        let counting = Counting::default();
        let server = lines()
            .types([TypeSpec::new("short"), TypeSpec::new("spin")])
            .classifier(|line: &[u8]| RequestType::new(line.starts_with(b"spin").into()))
            .policy(policy)
            .config(Config::default().workers(WORKERS).topology(topology).preempt(preempt).background_nice(0))
            .handler(counting.clone())
            .spawned();
        Self { counting, handle: server.handle().clone(), server }
    }

    fn connect(&self) -> Client {
        self.server.connect()
    }

    /// Runs `longs` requests until all have begun, lets them end, and checks each reply.
    fn run(&self, longs: usize) {
        self.counting.gate.store(false, Ordering::SeqCst);
        self.counting.begun.store(0, Ordering::SeqCst);
        let mut clients: Vec<Client> = (0..longs).map(|_| self.connect()).collect();
        for client in &mut clients {
            client.send("spin\n");
        }
        until("all have begun", || self.counting.begun.load(Ordering::SeqCst) == longs);
        self.counting.gate.store(true, Ordering::SeqCst);
        for client in &mut clients {
            assert_eq!(client.line(), "ok spin");
        }
    }

    fn made(&self) -> usize {
        self.counting.made.load(Ordering::SeqCst)
    }

    fn stop(self) {
        assert_eq!(self.server.stop().abandoned, 0);
    }
}

fn mechanisms() -> impl Iterator<Item = PreemptPolicy> {
    let kernel_thread = cfg!(target_os = "linux").then_some(PreemptPolicy::KernelThread);
    [PreemptPolicy::Cooperative].into_iter().chain(kernel_thread)
}

#[test]
fn a_worker_has_one_state_where_nothing_is_preempted() {
    for preempt in mechanisms().chain([PreemptPolicy::None]) {
        for (policy, topology) in [
            (Policy::darc(), Topology::Inline),
            (Policy::darc_lending(), Topology::Inline),
            (Policy::c_fcfs(), Topology::Dedicated),
        ] {
            let server = Running::start(policy, topology, preempt);
            if topology == Topology::Dedicated {
                server.run(WORKERS);
            }
            server.counting.gate.store(true, Ordering::SeqCst);
            assert_eq!(server.connect().ask("short"), "ok short");
            until("all workers run", || server.made() == WORKERS);
            server.stop();
        }
    }
}

/// One state for each suspended request, one for the running request, and one or two that could take over. Which
/// worker gets how many requests differs from round to round, so a worker may need more states in a later round. If
/// states were not kept, each round would make as many as the first one.
#[test]
fn states_are_made_when_needed_and_kept() {
    const ROUNDS: usize = 4;
    for preempt in mechanisms() {
        let policy = Policy::sq().quantum_us(100.0);
        let server = Running::start(policy, Topology::Dedicated, preempt);
        until("all workers run", || server.made() == WORKERS);
        // A thread of a team that is about to be idle may not be seen as one yet, and the worker starts another.
        let (least, most) = (3 * WORKERS + 1, WORKERS * (3 * WORKERS + 4));
        assert!(ROUNDS * least > most);
        for round in 1..=ROUNDS {
            server.run(3 * WORKERS);
            let made = server.made();
            assert!((least..=most).contains(&made), "{preempt}: {made} states in round {round}");
        }
        server.stop();
    }
}

#[test]
fn a_policy_that_preempts_can_follow_one_that_does_not() {
    for preempt in mechanisms() {
        let server = Running::start(Policy::c_fcfs(), Topology::Dedicated, preempt);
        server.run(WORKERS);
        assert_eq!(server.made(), WORKERS);
        let policy = Policy::sq().quantum_us(100.0);
        server.handle.set_policy(policy).unwrap();
        server.run(3 * WORKERS);
        let made = server.made();
        assert!(made > 3 * WORKERS, "{preempt}: {made}");
        server.handle.set_policy(Policy::c_fcfs()).unwrap();
        server.run(WORKERS);
        assert_eq!(server.made(), made, "{preempt}: none is needed");
        server.stop();
    }
}
