//! One of the workers that receive for themselves, from its parts to its life on its thread.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver as Opened, Sender};
use std::thread::JoinHandle;

use psp_policy::{PreemptPolicy, RequestType, TypeTable, WorkerId};
use psp_protocols::Framing;

use super::common::Common;
use crate::classifier::Classifier;
use crate::error::{RunError, WorkerFault};
use crate::handler::Handler;
use crate::runtime::dispatch::dispatcher::Dispatcher;
use crate::runtime::distributed::{Joined, Peers, Watched, events_of};
use crate::runtime::host::scheduling::{Demotion, sharpen_timers, shorten_slice};
use crate::runtime::net::Polled;
use crate::runtime::net::net_worker::{NetWorker, Parts};
use crate::runtime::net::port::PortParts;
use crate::runtime::net::topology::Distributed;
use crate::runtime::start::Port;
use crate::runtime::worker::contexts::ContextPreempter;
use crate::runtime::worker::inline::{InlineThread, InlineWorker};
use crate::runtime::worker::notices::Notices;
use crate::runtime::worker::setup::WorkerSetup;
use crate::shared::Receiver;
use crate::shutdown::Shutdown;
use crate::transport::endpoint::Endpoint;
use crate::transport::request_key::PortNumber;

/// The classifier of all workers.
pub(super) struct CommonClassifier<K>(Arc<K>);

impl<K: Classifier<T>, T> Classifier<T> for CommonClassifier<K> {
    fn classify(&self, request: &[u8], head: &T) -> RequestType {
        self.0.classify(request, head)
    }

    fn priority(&self, request: &[u8], head: &T) -> u8 {
        self.0.priority(request, head)
    }

    fn tenant(&self, request: &[u8], head: &T) -> u32 {
        self.0.tenant(request, head)
    }

    fn types(&self) -> TypeTable {
        self.0.types()
    }
}

/// What comes from outside to a worker alone.
pub(super) struct Sources<C> {
    pub(super) port: Port,
    pub(super) polled: Option<Polled<C>>,
    pub(super) endpoints: Vec<Arc<Endpoint<C>>>,
}

/// A worker's number, and how what it served ended.
pub(super) type Answer = (usize, Result<usize, RunError>);

/// A worker before it has a thread.
pub(super) struct Worker<F: Framing, K, H: Handler<F::Head>> {
    common: Arc<Common<F, K, H>>,
    index: usize,
    sources: Sources<H::Connection>,
    setup: WorkerSetup<F, H>,
    receiver: Receiver,
    preempter: Arc<ContextPreempter>,
    demotion: Option<Demotion>,
}

/// A worker on its thread.
type Started<F, K, H> = (Distributed<F, CommonClassifier<K>, H>, InlineThread<F, H>);

impl<F: Framing, K: Classifier<F::Head>, H: Handler<F::Head>> Worker<F, K, H> {
    pub(super) fn new(
        common: Arc<Common<F, K, H>>,
        index: usize,
        sources: Sources<H::Connection>,
        notices: &Notices,
    ) -> Self {
        let worker = WorkerId(u32::try_from(index).expect("workers are counted in u32"));
        let receiver = Receiver::new(common.shared.clone(), index);
        receiver.deferrals().run(common.bells[index].clone(), common.datagrams);
        let count = common.shared.workers;
        let setup = WorkerSetup {
            worker,
            notifier: notices.notifier(worker),
            handler: common.handler.clone(),
            framing: common.framing.clone(),
            shared: common.shared.clone(),
            clock: common.clock.clone(),
            wakes: common.wakes[index].clone(),
            timers: common.timers[index].clone(),
            spin: common.spin(count).turn,
            cores: common.cores.clone(),
            core_index: index,
            threads: count,
            background: common.background,
        };
        Self {
            preempter: Arc::new(ContextPreempter::new(common.preempt)),
            demotion: common.background.then(|| Demotion::new(common.long)),
            common,
            index,
            sources,
            setup,
            receiver,
        }
    }

    /// What a timer core needs of it, if the policy preempts.
    pub(super) fn watched(&self) -> io::Result<Option<Watched>> {
        let (common, number) = (&*self.common, PortNumber::new(self.index));
        if common.preempt == PreemptPolicy::None {
            return Ok(None);
        }
        let [served_elsewhere, left] = [(); 2].map(|()| common.leases.clone());
        Ok(Some(Watched {
            events: events_of(&self.sources.port.poll)?,
            is_polled: self.sources.polled.is_some(),
            preempter: match &common.thread_runner {
                None => Box::new(self.preempter.clone()),
                Some(thread_runner) => Box::new(thread_runner.preempter(self.setup.worker)),
            },
            is_served_elsewhere: Box::new(move || served_elsewhere.is_served_elsewhere(number)),
            is_left: Box::new(move || left.is_free(number)),
            given_up: self.demotion.as_ref().map(Demotion::given_up),
            start: common.starts[self.index].clone(),
            receiver: self.receiver.clone(),
        }))
    }

    /// Starts its thread. It serves when `opened` says so, and sends an `answer` in the end.
    ///
    /// # Errors
    /// When the system has no thread.
    pub(super) fn spawn(
        self,
        opened: Opened<()>,
        answer: Sender<Answer>,
        shutdown: Shutdown,
    ) -> Result<JoinHandle<()>, RunError> {
        let (setup, index) = (self.setup.clone(), self.index);
        let life = move |setup: &WorkerSetup<F, H>| {
            let (net_worker, thread) = self.start()?;
            setup.notifier.ready();
            if opened.recv().is_ok() {
                let served = thread.occupy(|| net_worker.serve(&shutdown))?;
                if served.is_err() {
                    setup.shared.shutdown.trigger();
                }
                // Nothing receives answers that come too late.
                let _ = answer.send((index, served));
            }
            Ok(())
        };
        setup.spawn(format!("psp-worker-{index}"), life)
    }

    /// The worker, on the calling thread.
    fn start(self) -> Result<Started<F, K, H>, WorkerFault> {
        let Self { common, index, sources, setup, receiver, .. } = self;
        if setup.background {
            shorten_slice(receiver.config.net_slice_us);
        } else {
            setup.cores.pin(setup.core_index, setup.threads);
        }
        sharpen_timers();
        let turns = common.starts[index].clone();
        let own = InlineWorker::new(setup.clone(), turns.clone(), self.preempter)?;
        let own = own.with_thread_runner(common.thread_runner.clone());
        let thread = own.thread();
        let (rules, bell) = (&common.rules, common.bells[index].clone());
        let (peers, joined) = Peers::new(setup.worker, rules, common.offers.clone(), bell);
        let Joined { policy, member, .. } = joined;
        let has_group = member.is_some();
        let scheduler = Joined::scheduler(&receiver, &policy, member);
        let classifier = CommonClassifier(common.classifier.clone());
        let mut dispatcher = Dispatcher::new(classifier, scheduler, receiver.clone(), vec![turns]);
        if has_group {
            dispatcher = dispatcher.offering(peers.places().clone());
        }
        let dispatcher = dispatcher.with_lengths();
        let port = PortParts {
            poll: sources.port.poll,
            doorbell: common.doorbells[index].clone(),
            listeners: sources.port.listeners,
            endpoints: sources.endpoints,
            polled: sources.polled,
            handler: setup.handler,
            framing: setup.framing,
            shared: receiver,
            commons: common.commons.clone(),
            datagrams: common.datagrams,
        };
        let net = NetWorker::new(Parts {
            port,
            executors: 1,
            dispatcher,
            clock: setup.clock,
            wakes: setup.wakes,
            timers: setup.timers,
            spin: common.spin(common.shared.workers),
        })
        .map_err(|error| WorkerFault::State(error.into()))?;
        let net_worker = Distributed {
            net,
            own,
            peers,
            leases: common.leases.clone(),
            demotion: self.demotion,
        };
        Ok((net_worker, thread))
    }
}
