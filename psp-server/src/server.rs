//! A server that is ready to run, and how it runs.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use mio::Waker;
use mio::net::UdpSocket;
use psp_protocols::Framing;

use crate::admin::{Admin, AdminListener};
use crate::classifier::Classifier;
use crate::error::RunError;
use crate::guarded_framing::GuardedFraming;
use crate::handler::Handler;
use crate::peer::Peer;
use crate::request_types;
use crate::runtime::host::cores::Cores;
use crate::runtime::{Launch, Port, launch};
use crate::shared::{ServerHandle, Shared};
use crate::shutdown::Shutdown;
use crate::spawned_server::SpawnedServer;
use crate::transport::PacketPort;
use crate::transport::endpoint::{Endpoint, Outlet};
use crate::watchdog::Watchdog;

pub use crate::runtime::DrainReport;

/// How long the net thread, and then the workers, may take to return after the drain timeout.
const STUCK_AFTER: Duration = Duration::from_secs(2);
/// What a log that another thread writes gets for the last line.
const LOG_TIME: Duration = Duration::from_millis(100);

/// A server that is bound to its addresses and ready to run.
pub struct Server<F, K, H> {
    pub(crate) framing: F,
    pub(crate) classifier: K,
    pub(crate) handler: H,
    pub(crate) shared: Arc<Shared>,
    pub(crate) cores: Cores,
    /// Of each thread that receives requests.
    pub(crate) ports: Vec<Port>,
    /// Of each address of UDP: a socket of each of these threads, or one that they share.
    pub(crate) udp_sockets: Vec<(Vec<UdpSocket>, SocketAddr)>,
    pub(crate) packet_port: Option<PacketPort>,
    /// Datagrams of sockets, or of a polled port, that may wait or be in flight, at each of these threads.
    pub(crate) datagrams: usize,
    pub(crate) local_addrs: Vec<SocketAddr>,
    pub(crate) unix_paths: Vec<PathBuf>,
    pub(crate) admin: Option<AdminListener>,
}

impl<F: Framing, K: Classifier<F::Head>, H: Handler<F::Head>> Server<F, K, H> {
    /// The addresses that the server listens on: first TCP, then UDP, each in the order given, and last the
    /// address of a polled port. A name that resolves to several addresses has them in this order, too.
    #[must_use]
    pub fn local_addrs(&self) -> &[SocketAddr] {
        &self.local_addrs
    }

    /// The paths of the Unix sockets that the server listens on, in the order given. A socket without a path, such
    /// as one of Linux' abstract namespace, is not among them.
    #[must_use]
    pub fn unix_paths(&self) -> &[PathBuf] {
        &self.unix_paths
    }

    /// A handle to the server's counters and limits.
    #[must_use]
    pub fn handle(&self) -> ServerHandle {
        ServerHandle::new(self.shared.clone())
    }

    /// Serves until SIGTERM or SIGINT, and for [`drain_delay_ms`](crate::Config::drain_delay_ms) more, then drains. The
    /// process ends two seconds after the drain timeout even if a
    /// request holds the net thread until then, as one may in the topology `Inline`; its exit status is then 1.
    ///
    /// # Errors
    /// When the signal handlers cannot be set up, and those of [`run_until`](Self::run_until).
    pub fn run(self) -> Result<DrainReport, RunError> {
        let drain_timeout = Duration::from_millis(self.shared.config.drain_timeout_ms);
        let (running, stopped) = channel::<Infallible>();
        let shared = self.shared.clone();
        let leave = move || shared.leave();
        let shutdown = Shutdown::on_signals_between(leave, move || {
            let deadline = drain_timeout.saturating_add(STUCK_AFTER);
            if stopped.recv_timeout(deadline) == Err(RecvTimeoutError::Timeout) {
                tracing::error!("a request holds the net thread beyond the drain timeout");
                std::thread::sleep(LOG_TIME);
                std::process::exit(1);
            }
        })?;
        let report = self.run_until(&shutdown);
        drop(running);
        report
    }

    /// Starts the workers, logs `listening on ADDRESS` for each address when all of them are ready, and serves on
    /// the calling thread and the workers' threads until `shutdown` is triggered, then drains: takes no more
    /// requests, answers the requests that it has received, and returns when that is done or the drain timeout is
    /// over.
    ///
    /// # Errors
    /// When a thread cannot be started, a worker cannot start or dies later, or the event queue fails.
    pub fn run_until(self, shutdown: &Shutdown) -> Result<DrainReport, RunError> {
        self.run_and_tell(shutdown, || {})
    }

    /// Serves on a thread of its own, and returns when all workers are ready. It installs no handlers of signals:
    /// the server stops by [`SpawnedServer::shut_down`], by a [`ServerHandle`], or when the [`SpawnedServer`] is
    /// dropped.
    ///
    /// # Errors
    /// When the server cannot start: a thread cannot be started, a worker cannot start, or there is no event queue.
    ///
    /// # Panics
    /// When the handler panics in [`Handler::init`] or [`Handler::connect`].
    pub fn spawn(self) -> Result<SpawnedServer, RunError> {
        let (local_addrs, unix_paths) = (self.local_addrs.clone(), self.unix_paths.clone());
        SpawnedServer::start(local_addrs, unix_paths, self.handle(), |ready| {
            self.run_and_tell(&Shutdown::new(), move || {
                let _ = ready.send(());
            })
        })
    }

    /// [`run_until`](Self::run_until), which calls `on_ready` when all workers are ready.
    fn run_and_tell(self, shutdown: &Shutdown, on_ready: impl FnOnce()) -> Result<DrainReport, RunError> {
        let Self {
            framing,
            classifier,
            handler,
            shared,
            cores,
            ports,
            udp_sockets,
            packet_port,
            datagrams,
            local_addrs,
            unix_paths,
            admin,
        } = self;
        let admin_at = admin.as_ref().map(|admin| (admin.scheme(), admin.address()));
        let server = ServerHandle::new(shared.clone());
        // Serves until the drain is over.
        let _admin = admin.map(|listener| Admin::start(listener, server.clone())).transpose()?;
        let _watchdog = Watchdog::start(shared.clone())?;
        let wakers: Vec<Arc<Waker>> = ports.iter().map(|port| port.waker.clone()).collect();
        shutdown.attach(wakers.clone());
        shared.policy.attach(wakers[0].clone());
        shared.shutdown.attach(wakers);
        let policy = shared.policy.policy();
        let scheduler = shared.scheduler(&policy);
        let handler = Arc::new(handler);
        handler.init(server);
        let datagram_addrs = udp_sockets.iter().map(|(_, address)| *address).collect();
        let mut endpoints: Vec<Vec<_>> = ports.iter().map(|_| Vec::new()).collect();
        for (sockets, address) in udp_sockets {
            let endpoint = |socket| {
                Arc::new(Endpoint {
                    outlet: Outlet::Socket(socket),
                    state: handler.connect(Peer::Ip(address)),
                })
            };
            let of_address: Vec<_> = sockets.into_iter().map(endpoint).collect();
            for (of_thread, endpoint) in endpoints.iter_mut().zip(of_address.iter().cycle()) {
                of_thread.push(endpoint.clone());
            }
        }
        let polled = packet_port.map(|port| {
            let state = handler.connect(Peer::Ip(port.address()));
            let (packets, transmitters) = port.serve();
            let outlet = Outlet::Port(transmitters);
            let endpoint = Arc::new(Endpoint { outlet, state });
            let parts = packets.into_iter();
            parts.map(|packets| (packets, endpoint.clone())).collect()
        });
        let (topology, workers) = (shared.topology, shared.workers);
        let cores_count = cores.count;
        let unhinted = policy.goes_by_length().then(|| request_types::unhinted(&shared.types)).flatten();
        let serving = shared.clone();
        let tell = move || {
            tracing::info!(
                policy = policy.spelled(),
                %topology,
                workers,
                cores = cores_count,
                "serving"
            );
            if let Some(types) = unhinted {
                tracing::info!(
                    types,
                    "these types have no service_time hint: their lengths are unknown until measured"
                );
            }
            for address in local_addrs {
                tracing::info!("listening on {address}");
            }
            for path in unix_paths {
                tracing::info!("listening on unix:{}", path.display());
            }
            if let Some((scheme, address)) = admin_at {
                tracing::info!("admin port at {scheme}://{address}/");
            }
            serving.is_serving.store(true, Ordering::Relaxed);
            on_ready();
        };
        launch(
            Launch {
                ports,
                endpoints,
                datagram_addrs,
                polled: polled.unwrap_or_default(),
                classifier,
                scheduler,
                handler,
                framing: Arc::new(GuardedFraming::new(framing)),
                shared,
                cores,
                datagrams,
            },
            shutdown,
            tell,
        )
    }
}
