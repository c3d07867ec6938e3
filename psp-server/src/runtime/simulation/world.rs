//! What happens beside the net worker, in order of time: clients, workers' turns, wakes, deferred replies, changes of
//! the policy, jumps of the clock, the drain. And the watch over all of it.

use std::cell::RefCell;
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::Arc;

use psp_policy::RequestId;

use super::client::{Client, Common, Counts, Jump, Next, TURN_NS};
use super::faults::Fault;
use super::ledger::{Executed, Later, Ledger, SLOT_BITS, with_ledger};
use super::losses::Losses;
use super::plan::Plan;
use super::worker::{Follows, Worker};
use crate::fiber::WakeList;
use crate::runtime::dispatch::places::Places;
use crate::shared::{Gate, ServerHandle, Shared};
use crate::shutdown::Shutdown;
use crate::simulated;
use crate::simulated::ClientEnd;
use crate::simulated::random::{Random, mix};

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
const S: u64 = 1_000_000_000;
const WATCH_NS: u64 = 100 * MS;
/// A client that waits for so long waits in vain.
const PATIENCE_NS: u64 = 60 * S;
/// What a piece of a request loses to other programs within that time. Where it loses more, clients wait for longer.
const LOSS_NS_MAX: u64 = MS;
/// The same of a control request, which no others may hold up.
const PATIENCE_CONTROL_NS: u64 = 5 * S;
/// How long the server may take to forget clients that are gone.
const QUIET_NS: u64 = 10 * S;
/// Addresses that clients come from.
const ADDRESSES: u32 = 50;

thread_local! {
    static WORLD: RefCell<Option<World>> = const { RefCell::new(None) };
}

/// What happens at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Happens {
    Connect(usize),
    Send(u32),
    Read(u32),
    Leave(u32),
    Worker(usize),
    Wake(usize, RequestId),
    Later(usize),
    Policy,
    /// Somebody kills endless requests.
    Kill,
    /// The size of values changes.
    Grow,
    /// Another program gets the net thread's core.
    Lose,
    Watch,
}

/// An event, in order of time and of its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    at_ns: u64,
    number: u64,
    happens: Happens,
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        // The heap's greatest is the first.
        let key = |entry: &Self| (entry.at_ns, entry.number);
        key(other).cmp(&key(self))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// How far the simulation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Clients come and go.
    Load,
    /// All are gone: nothing of them may be left after a while.
    Quiet { since_ns: u64 },
    /// The server was told to stop.
    Drain,
}

/// What the simulated server consists of, as far as others see it.
pub(super) struct Outside {
    pub(super) workers: Vec<Worker>,
    pub(super) wakes: Arc<WakeList>,
    pub(super) shared: Arc<Shared>,
    pub(super) places: Arc<Places>,
    pub(super) shutdown: Shutdown,
}

/// See the [module](self).
pub(super) struct World {
    plan: Plan,
    outside: Outside,
    random: Random,
    heap: BinaryHeap<Entry>,
    number: u64,
    clients: Vec<Option<Client>>,
    /// The client of each socket.
    by_socket: Vec<u32>,
    generation: u32,
    later: Vec<Option<Later>>,
    free_later: Vec<usize>,
    counts: Counts,
    room: Vec<u8>,
    phase: Phase,
    draining_ns: Option<u64>,
    jumped: Jump,
    /// When the clock jumped last, but for losses of the core: waiting begins anew.
    leapt_ns: u64,
    /// Somebody is about to kill endless requests.
    kills_later: bool,
    has_died: bool,
    /// The net worker has returned.
    is_gone: bool,
}

/// Installs the world of this thread.
pub(super) fn install(plan: Plan, outside: Outside) {
    let random = Random::new(plan.seed.wrapping_add(1) ^ 0xC11E_4175);
    let count = plan.clients.count;
    let mut world = World {
        random,
        heap: BinaryHeap::new(),
        number: 0,
        clients: (0..=count).map(|_| None).collect(),
        by_socket: Vec::new(),
        generation: 0,
        later: Vec::new(),
        free_later: Vec::new(),
        counts: Counts::default(),
        room: Vec::new(),
        phase: Phase::Load,
        draining_ns: None,
        jumped: Jump::default(),
        leapt_ns: 0,
        kills_later: false,
        has_died: false,
        is_gone: false,
        outside,
        plan,
    };
    with_ledger(|ledger| ledger.slots = vec![Executed::default(); count + 1]);
    let now_ns = simulated::now_ns();
    for slot in 0..count {
        let at_ns = now_ns + world.random.below(200 * US);
        world.plan_for(at_ns, Happens::Connect(slot));
    }
    world.plan_for(now_ns + WATCH_NS, Happens::Watch);
    if world.plan.policy_every_ns > 0 {
        world.plan_for(now_ns + world.plan.policy_every_ns, Happens::Policy);
    }
    for (every_ns, happens) in
        [(world.plan.grow_every_ns, Happens::Grow), (world.plan.net_losses.every_ns, Happens::Lose)]
    {
        if every_ns > 0 {
            world.plan_for(now_ns + every_ns, happens);
        }
    }
    WORLD.with(|slot| *slot.borrow_mut() = Some(world));
}

/// Does what is due by `now_ns`.
pub(super) fn happen(now_ns: u64) {
    WORLD.with(|world| {
        if let Some(world) = &mut *world.borrow_mut() {
            world.run_until(now_ns);
        }
    });
}

/// The net worker has died, as the worker that it is.
pub(super) fn note_death() {
    WORLD.with(|world| {
        if let Some(world) = &mut *world.borrow_mut() {
            world.has_died = true;
        }
    });
}

/// Removes the world, after its clients have seen the end of the server.
pub(super) fn finish() -> Counts {
    WORLD.with(|world| {
        let mut world = world.borrow_mut().take().expect("a world was installed");
        world.outlive_server();
        world.counts.killed = with_ledger(|ledger| ledger.killed);
        world.counts
    })
}

impl World {
    fn plan_for(&mut self, at_ns: u64, happens: Happens) {
        self.number += 1;
        self.heap.push(Entry { at_ns, number: self.number, happens });
    }

    fn run_until(&mut self, now_ns: u64) {
        self.look(now_ns);
        for index in 0..self.outside.workers.len() {
            self.with_worker(index, |worker, random, follows| {
                worker.look(now_ns, random, follows);
            });
        }
        while let Some(entry) = self.heap.peek().filter(|entry| entry.at_ns <= now_ns) {
            let Entry { at_ns, happens, .. } = *entry;
            self.heap.pop();
            self.carry_out(at_ns, happens);
            self.look(at_ns);
        }
        let next_ns = self.heap.peek().map_or(u64::MAX, |entry| entry.at_ns);
        simulated::not_due_before(next_ns);
    }

    /// Looks at what the server has done.
    fn look(&mut self, now_ns: u64) {
        while let Some((id, at_ns)) = simulated::with_network(simulated::Network::next_stirred) {
            let client = self.by_socket[id.index()];
            let at_ns = at_ns.max(now_ns) + 1 + self.random.below(self.plan.clients.latency_ns_max);
            self.plan_for(at_ns, Happens::Read(client));
        }
        let later = with_ledger(|ledger| match ledger.later.is_empty() {
            true => Vec::new(),
            false => std::mem::take(&mut ledger.later),
        });
        for later in later {
            let at_ns = later.at_ns;
            let index = self.free_later.pop().unwrap_or_else(|| {
                self.later.push(None);
                self.later.len() - 1
            });
            self.later[index] = Some(later);
            self.plan_for(at_ns, Happens::Later(index));
        }
        if !self.kills_later && with_ledger(|ledger| ledger.any_endless()) {
            self.kills_later = true;
            let in_ns = 1 + self.random.below(self.plan.kill_ns_max);
            self.plan_for(now_ns + in_ns, Happens::Kill);
        }
    }

    /// Has a worker do something, and plans for what follows.
    fn with_worker(&mut self, index: usize, body: impl FnOnce(&mut Worker, &mut Random, &mut dyn FnMut(Follows))) {
        let mut all = [None; 2];
        let mut count = 0;
        let worker = &mut self.outside.workers[index];
        body(worker, &mut self.random, &mut |follows| {
            all[count] = Some(follows);
            count += 1;
        });
        for follows in all.into_iter().flatten() {
            match follows {
                Follows::Step { at_ns } => self.plan_for(at_ns, Happens::Worker(index)),
                Follows::Wake { at_ns, request } => {
                    self.plan_for(at_ns, Happens::Wake(index, request));
                }
                Follows::Death => {
                    self.has_died = true;
                    self.start_drain(simulated::now_ns());
                }
            }
        }
    }

    fn carry_out(&mut self, at_ns: u64, happens: Happens) {
        match happens {
            Happens::Connect(slot) => self.connect(at_ns, slot),
            Happens::Send(client) => self.with_client(at_ns, client, |client, common| {
                client.sends_later = false;
                Ok(client.send(at_ns, common))
            }),
            Happens::Read(client) => {
                // Output came, or there is room for input.
                self.with_client(at_ns, client, |client, common| {
                    client.reads_later = false;
                    client.read(at_ns, common)
                });
                self.with_client(at_ns, client, |client, common| Ok(client.send_rest(at_ns, common)));
            }
            Happens::Leave(client) => self.leave(at_ns, client),
            Happens::Worker(index) => self.with_worker(index, |worker, random, follows| {
                worker.step(at_ns, random, follows);
            }),
            Happens::Wake(index, request) => {
                let worker = self.outside.workers[index].id();
                self.outside.wakes.put_woken(worker, request);
            }
            Happens::Later(index) => {
                let later = self.later[index].take();
                self.free_later.push(index);
                if let Some(Later { mut reply, head, .. }) = later {
                    head.reply(&mut reply);
                    reply.finish();
                }
            }
            Happens::Policy => self.change_policy(at_ns),
            Happens::Kill => self.kill(at_ns),
            Happens::Grow => self.grow(at_ns),
            Happens::Lose => self.lose_core(at_ns),
            Happens::Watch => self.watch(at_ns),
        }
    }

    fn is_over(&self) -> bool {
        self.counts.sent >= self.plan.requests || self.phase != Phase::Load
    }

    fn connect(&mut self, at_ns: u64, slot: usize) {
        if !self.is_over() && self.clients[slot].is_none() {
            let id = self.open(at_ns, slot, Client::new);
            if self.random.once_in(self.plan.clients.leaving) {
                let leaves_ns = at_ns + self.random.below(5 * MS);
                self.plan_for(leaves_ns, Happens::Leave(id));
            }
        }
    }

    /// A client comes. Returns its number.
    fn open(
        &mut self,
        at_ns: u64,
        slot: usize,
        client: impl FnOnce(u32, ClientEnd, u64, &mut Common<'_>) -> Client,
    ) -> u32 {
        self.generation += 1;
        let id = self.generation << SLOT_BITS | slot as u32;
        let address = Ipv4Addr::from_bits(0x0A00_0001 + slot as u32 % ADDRESSES);
        let port = 1024 + (self.generation % 60_000) as u16;
        let peer = SocketAddr::V4(SocketAddrV4::new(address, port)).into();
        let end = simulated::with_network(|network| network.connect(peer));
        if self.by_socket.len() <= end.id().index() {
            self.by_socket.resize(end.id().index() + 1, 0);
        }
        self.by_socket[end.id().index()] = id;
        with_ledger(|ledger| {
            let executed = &mut ledger.slots[slot];
            *executed = Executed { client: id, ..Executed::default() };
        });
        let mut common = Common {
            plan: &self.plan,
            random: &mut self.random,
            counts: &mut self.counts,
            is_over: false,
            draining_ns: self.draining_ns,
            is_lost: false,
            jumped: self.jumped,
            room: &mut self.room,
        };
        self.clients[slot] = Some(client(id, end, at_ns, &mut common));
        let first_ns = at_ns + self.random.below(self.plan.clients.latency_ns_max + 1);
        self.plan_for(first_ns, Happens::Send(id));
        id
    }

    /// Endless requests are killed: by the operator, who is one more client, or from outside if no client could.
    fn kill(&mut self, at_ns: u64) {
        self.kills_later = false;
        let operator = self.clients.len() - 1;
        let may_ask = self.plan.has_operator() && self.phase == Phase::Load;
        if !may_ask {
            with_ledger(Ledger::kill);
        } else if self.clients[operator].is_none() {
            self.open(at_ns, operator, Client::operator);
        }
    }

    /// Values become large, or small again.
    fn grow(&mut self, at_ns: u64) {
        if self.phase != Phase::Load {
            return;
        }
        let is_small = with_ledger(|ledger| ledger.size == 1);
        let size = match is_small {
            true => self.random.between(2, self.plan.size_max),
            false => 1,
        };
        with_ledger(|ledger| ledger.size = size);
        let in_ns = 1 + self.random.below(2 * self.plan.grow_every_ns);
        self.plan_for(simulated::now_ns().max(at_ns) + in_ns, Happens::Grow);
    }

    /// The net thread stands still, wherever it is.
    fn lose_core(&mut self, at_ns: u64) {
        if self.is_gone {
            return;
        }
        let Losses { every_ns, ns_max, .. } = self.plan.net_losses;
        self.jump(ns_max);
        let in_ns = 1 + self.random.below(2 * every_ns);
        self.plan_for(simulated::now_ns().max(at_ns) + in_ns, Happens::Lose);
    }

    /// The clock of the net thread is ahead of all others by a time below `ns_max`.
    fn jump(&mut self, ns_max: u64) {
        let mut by_ns = self.random.below(ns_max);
        simulated::jump(by_ns);
        let to_ns = simulated::now_ns();
        if to_ns - by_ns < self.jumped.to_ns + TURN_NS {
            // The server may be in the same turn.
            by_ns += self.jumped.by_ns;
        }
        self.jumped = Jump { to_ns, by_ns };
    }

    fn with_client(
        &mut self,
        at_ns: u64,
        id: u32,
        body: impl FnOnce(&mut Client, &mut Common<'_>) -> Result<Next, String>,
    ) {
        let slot = super::ledger::slot_of(id);
        let is_over = self.is_over();
        let Some(client) = self.clients[slot].as_mut().filter(|client| client.id == id) else {
            return;
        };
        let mut common = Common {
            plan: &self.plan,
            random: &mut self.random,
            counts: &mut self.counts,
            is_over,
            draining_ns: self.draining_ns,
            is_lost: self.has_died,
            jumped: self.jumped,
            room: &mut self.room,
        };
        match body(client, &mut common) {
            Ok(Next::Nothing) => {}
            Ok(Next::Send(at_ns)) => {
                if !std::mem::replace(&mut client.sends_later, true) {
                    self.plan_for(at_ns, Happens::Send(id));
                }
            }
            Ok(Next::Read(at_ns)) => {
                if !std::mem::replace(&mut client.reads_later, true) {
                    self.plan_for(at_ns, Happens::Read(id));
                }
            }
            Ok(Next::Leave(at_ns)) => self.plan_for(at_ns, Happens::Leave(id)),
            Ok(Next::Gone) => self.forget(at_ns, slot),
            Err(failure) => self.fail(failure),
        }
        if self.plan.drain_at.is_some_and(|at| self.counts.sent >= at) && self.phase == Phase::Load {
            self.start_drain(at_ns);
        }
        if self.plan.dies_at.is_some_and(|at| self.counts.sent >= at) {
            self.plan.dies_at = None;
            with_ledger(|ledger| ledger.is_deadly = true);
        }
    }

    /// A client leaves, whatever it waits for.
    fn leave(&mut self, at_ns: u64, id: u32) {
        let slot = super::ledger::slot_of(id);
        if let Some(client) = self.clients[slot].as_mut().filter(|client| client.id == id) {
            let resets = self.random.once_in(2);
            client.end.close(resets);
            self.counts.left += 1;
            self.forget(at_ns, slot);
        }
    }

    /// A client is gone. Another one may come.
    fn forget(&mut self, at_ns: u64, slot: usize) {
        self.clients[slot] = None;
        with_ledger(|ledger| ledger.slots[slot].client = 0);
        if !self.is_over() && slot < self.plan.clients.count {
            let in_ns = self.random.below(self.plan.clients.think_ns_max + 1);
            self.plan_for(at_ns + in_ns, Happens::Connect(slot));
        }
    }

    fn change_policy(&mut self, at_ns: u64) {
        if self.phase != Phase::Load {
            return;
        }
        let policy = self.random.pick(&self.plan.policies).clone();
        // Some policies need what this server does not have.
        let handle = ServerHandle::new(self.outside.shared.clone());
        if handle.set_policy(policy).is_ok() {
            simulated::ring();
        }
        let in_ns = 1 + self.random.below(2 * self.plan.policy_every_ns);
        self.plan_for(simulated::now_ns().max(at_ns) + in_ns, Happens::Policy);
    }

    /// Looks whether anybody waits in vain, and whether everybody is gone.
    fn watch(&mut self, at_ns: u64) {
        if self.is_gone {
            return;
        }
        let jumps = self.phase == Phase::Load && self.random.once_in(self.plan.jumps);
        // Whoever waits for very long is seen at last.
        if jumps && self.in_vain(at_ns, 0).is_none() {
            self.jump(self.plan.jump_ns_max);
            self.leapt_ns = self.jumped.to_ns;
        }
        if self.draining_ns.is_none()
            && let Some(client) = self.in_vain(at_ns, self.leapt_ns)
        {
            let text = format!("a client waits in vain: {}", client.describe());
            self.fail(text);
        }
        match self.phase {
            Phase::Load if self.is_over() && self.clients.iter().all(Option::is_none) => {
                self.phase = Phase::Quiet { since_ns: at_ns };
            }
            Phase::Load | Phase::Drain => self.nudge(at_ns),
            Phase::Quiet { since_ns } => match self.what_is_left() {
                None => self.start_drain(at_ns),
                Some(left) if at_ns > since_ns + QUIET_NS => self.fail(left),
                Some(_) => {}
            },
        }
        self.plan_for(simulated::now_ns().max(at_ns) + WATCH_NS, Happens::Watch);
    }

    /// A client that has waited for too long, from `from_ns` on at most.
    fn in_vain(&self, at_ns: u64, from_ns: u64) -> Option<&Client> {
        let crowded = (self.plan.net_losses.of_piece_ns() / LOSS_NS_MAX).max(1);
        let patience_ns = |client: &Client| match (client.is_slow() || client.waits_for_unknown(), client.is_operator())
        {
            (true, _) => 20 * PATIENCE_NS,
            (false, true) => PATIENCE_CONTROL_NS,
            (false, false) => crowded * PATIENCE_NS,
        };
        self.clients.iter().flatten().find(|client| {
            let since_ns = client.waits_since_ns().max(from_ns);
            client.waits() && at_ns.saturating_sub(since_ns) > patience_ns(client)
        })
    }

    /// Has clients go on that had no more to send before the load was over.
    fn nudge(&mut self, at_ns: u64) {
        if !self.is_over() || self.draining_ns.is_some() {
            return;
        }
        for slot in 0..self.clients.len() {
            if let Some(client) = &mut self.clients[slot]
                && !std::mem::replace(&mut client.sends_later, true)
            {
                let id = client.id;
                self.plan_for(at_ns, Happens::Send(id));
            }
        }
    }

    /// What the server has not forgotten of clients that are gone.
    fn what_is_left(&self) -> Option<String> {
        let shared = &self.outside.shared;
        let snapshot = ServerHandle::new(shared.clone()).snapshot();
        let later = self.later.iter().flatten().count();
        let busy = { self.outside.workers.iter() }.filter(|worker| !worker.is_empty()).count();
        let left = [
            ("connections", snapshot.net.connections_open),
            ("bytes", shared.buffers.held_bytes() as u64),
            ("deferred replies", snapshot.net.replies_deferred),
            ("queued requests", self.outside.places.waiting() as u64),
            ("connections in the backlog", simulated::with_network(|network| network.backlog()) as u64),
            ("replies to come", later as u64),
            ("requests that were let in", shared.gate.as_ref().map_or(0, Gate::inside) as u64),
            ("busy workers", busy as u64),
            ("blocked requests", snapshot.types.iter().map(|kind| kind.waits.blocked).sum()),
        ];
        let left: Vec<_> = { left.into_iter() }.filter(|&(_, count)| count > 0).collect();
        if !left.is_empty() {
            return Some(format!("no client is there any more, and the server still has {left:?}"));
        }
        let sum =
            |figure: fn(&crate::telemetry::TypeSnapshot) -> u64| -> u64 { snapshot.types.iter().map(figure).sum() };
        let arrivals = sum(|kind| kind.arrivals);
        let ends = [
            sum(|kind| kind.completions),
            sum(|kind| kind.rejections),
            sum(|kind| kind.expired),
            sum(|kind| kind.abandoned),
        ];
        let has_fault = self.plan.fault != Fault::None;
        (arrivals != ends.iter().sum::<u64>() && !has_fault).then(|| {
            format!("{arrivals} requests arrived, and completed, rejected, expired and abandoned are {ends:?}")
        })
    }

    fn start_drain(&mut self, at_ns: u64) {
        if self.draining_ns.is_some() {
            return;
        }
        self.phase = Phase::Drain;
        self.draining_ns = Some(at_ns);
        for client in self.clients.iter_mut().flatten() {
            let is_accepted = client.end.is_accepted();
            client.note_drain(is_accepted);
        }
        self.outside.shutdown.trigger();
        simulated::ring();
    }

    fn fail(&mut self, failure: String) {
        with_ledger(|ledger| ledger.fail(failure));
    }

    /// Lets clients see that the server is gone.
    fn outlive_server(&mut self) {
        self.is_gone = true;
        self.phase = Phase::Drain;
        if with_ledger(|ledger| ledger.failure.is_some()) {
            return;
        }
        simulated::with_network(simulated::Network::forget_backlog);
        let gone_ns = simulated::now_ns();
        let mut now_ns = gone_ns;
        while let Some(entry) = self.heap.peek() {
            let is_watch = entry.happens == Happens::Watch;
            now_ns = now_ns.max(entry.at_ns);
            let happens = entry.happens;
            self.heap.pop();
            if !is_watch {
                self.carry_out(now_ns, happens);
            }
            self.look(now_ns);
        }
        self.counts.digest = mix(self.counts.digest ^ now_ns);
        let left = self.clients.iter().flatten().find(|client| client.waits());
        let is_overdue =
            { self.draining_ns }.is_some_and(|since_ns| gone_ns >= since_ns + self.plan.config.drain_timeout_ms * MS);
        // Workers may still have connections of a server that was out of patience: the end of the process closes them.
        if let Some(client) = left.filter(|_| !self.has_died && !is_overdue) {
            let text = format!("the server is gone, and a client was not told: {}", client.describe());
            self.fail(text);
        }
    }
}
