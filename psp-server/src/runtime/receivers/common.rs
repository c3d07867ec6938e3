//! What the workers of a server have in common that receive for themselves.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use psp_policy::{PreemptPolicy, WorkerId};
use psp_protocols::Framing;

use crate::admission;
use crate::config::Config;
use crate::fiber::{Bell, Timers, WakeList, WakeLists};
use crate::guarded_framing::GuardedFraming;
use crate::handler::Handler;
use crate::runtime::channel::doorbell::Doorbell;
use crate::runtime::channel::turn_start::TurnStart;
use crate::runtime::dispatch::places::Places;
use crate::runtime::distributed::{Moving, Offers, Roster, Rules, TurnBell};
use crate::runtime::host::clock::Clock;
use crate::runtime::host::cores::Cores;
use crate::runtime::host::scheduling::{Background, can_be_raised, can_lower_preempted};
use crate::runtime::host::spin::Spin;
use crate::runtime::net::PortLeases;
use crate::runtime::net::commons::Commons;
use crate::runtime::request_threads::RequestThreads;
use crate::runtime::start::Launch;
use crate::runtime::worker::contexts::ContextTask;
use crate::runtime::worker::thread_runner::ThreadRunner;
use crate::shared::Shared;

/// See the [module](self). Vectors have an entry for each worker.
pub(super) struct Common<F: Framing, K, H: Handler<F::Head>> {
    pub(super) shared: Arc<Shared>,
    pub(super) classifier: Arc<K>,
    pub(super) handler: Arc<H>,
    pub(super) framing: Arc<GuardedFraming<F>>,
    pub(super) cores: Cores,
    /// Datagrams that may wait or be in flight, at each worker.
    pub(super) datagrams: usize,
    pub(super) clock: Clock,
    /// Without a core to spare, other programs want those of the workers.
    pub(super) background: bool,
    /// How workers step back then, while they run long requests.
    pub(super) long: Background,
    pub(super) rules: Rules,
    pub(super) preempt: PreemptPolicy,
    pub(super) doorbells: Vec<Arc<Doorbell>>,
    pub(super) bells: Vec<Arc<TurnBell>>,
    /// When turns begin.
    pub(super) starts: Vec<Arc<TurnStart>>,
    pub(super) wakes: Arc<[Arc<WakeList>]>,
    pub(super) timers: Box<[Arc<Timers>]>,
    pub(super) commons: Arc<Commons<H::Connection, F::Head>>,
    pub(super) offers: Arc<Offers<ContextTask<F, H>>>,
    pub(super) leases: Arc<PortLeases<F, H>>,
    /// Where requests move from worker to worker.
    pub(super) thread_runner: Option<Arc<ThreadRunner<F, H>>>,
}

impl<F: Framing, K, H: Handler<F::Head>> Common<F, K, H> {
    /// The doorbells wake the workers.
    ///
    /// # Errors
    /// When the system has no timer.
    pub(super) fn new(launch: Launch<F, K, H>, doorbells: Vec<Arc<Doorbell>>) -> io::Result<Arc<Self>> {
        let Launch { shared, cores, .. } = launch;
        let (count, clock) = (shared.workers, Clock::new());
        let traced_by = clock.clone();
        shared.trace.run_by(move || traced_by.now_ns());
        let background = !cores.spare_for(count);
        let bells = doorbells.iter().map(|bell| bell.clone() as Arc<dyn Bell>);
        let roster = Arc::new(Roster::new(bells));
        let moves = admission::moves(&shared.config, shared.topology);
        let moving = moves.then(|| Arc::new(Moving::new(request_threads(&shared), shared.clone())));
        let rules = Rules::new(shared.clone(), roster, moving)?;
        let preempt = rules.preempt();
        let bells = (0..).map(WorkerId).zip(&doorbells);
        let bells = bells.map(|(worker, bell)| Arc::new(TurnBell::new(worker, bell.clone())));
        let bells: Vec<_> = bells.collect();
        let starts: Vec<_> = (0..count).map(|_| Arc::new(TurnStart::new())).collect();
        let wakes = bells.iter().map(|bell| WakeList::new(bell.clone()));
        let wakes: Arc<[_]> = wakes.map(Arc::new).collect();
        let timers = bells.iter().map(|bell| Timers::new(bell.clone()));
        let timers: Box<[_]> = timers.map(Arc::new).collect();
        let thread_runner = rules.moving.clone().map(|moving| {
            let cores = (!background).then(|| cores.pinned(count)).flatten();
            let (threads, lowers) = (request_threads(&shared), can_lower_preempted());
            let threads = RequestThreads::new(threads, starts.clone(), lowers, cores, clock.clone());
            let wakes = WakeLists::OfWorkers(wakes.clone());
            Arc::new(ThreadRunner::new(threads, moving, wakes, timers.clone()))
        });
        let places = || Arc::new(Places::shared(&shared.types, &shared.config));
        Ok(Arc::new(Self {
            classifier: Arc::new(launch.classifier),
            handler: launch.handler,
            framing: launch.framing,
            datagrams: launch.datagrams,
            background,
            long: long(&shared.config, background),
            preempt,
            commons: Arc::new(Commons::new(&bells, launch.datagram_addrs, &shared.config)),
            offers: Arc::new(Offers::new((0..count).map(|_| places()))),
            leases: Arc::new(leases(&rules, &doorbells)),
            rules,
            doorbells,
            bells,
            starts,
            wakes,
            timers,
            thread_runner,
            shared,
            cores,
            clock,
        }))
    }

    /// How long so many threads poll, of which the workers are some.
    pub(super) fn spin(&self, threads: usize) -> Spin {
        let longest = Duration::from_micros(self.shared.config.spin_us);
        Spin::new(&self.cores, threads, false, longest)
    }
}

/// How many threads there are for requests that move.
fn request_threads(shared: &Shared) -> usize {
    shared.workers * (shared.config.contexts() - 1)
}

fn leases<F: Framing, H: Handler<F::Head>>(rules: &Rules, doorbells: &[Arc<Doorbell>]) -> PortLeases<F, H> {
    let leases = PortLeases::new(doorbells.to_vec());
    match rules.preempt() {
        PreemptPolicy::None => leases,
        _ => {
            let succession = rules.succession.clone();
            leases.alerting(move || succession.no_worker_reads())
        }
    }
}

/// How a worker steps back for a long request, if it shares its core in the `background`.
fn long(config: &Config, background: bool) -> Background {
    let long = Background::new(config.background_nice, config.background_slice_us);
    let long = match background && can_be_raised() {
        true => long,
        false => long.without_nice(),
    };
    if background && long.nice.is_none() && config.background_nice > 0 {
        tracing::warn!(
            "without CAP_SYS_NICE or an RLIMIT_NICE for their nice value, workers that run long requests keep their \
             weight beside those that run short ones"
        );
    }
    long
}
