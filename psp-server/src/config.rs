//! Settings of a server, for builders and TOML files.

use std::path::PathBuf;

use psp_arbiter::Priority;
use psp_arbiter::limits::THREADS_PER_SERVER_MAX;
use psp_policy::elastic::{ElasticSettings, Workers};
use psp_policy::internal::EitherCase;
use psp_policy::{PreemptPolicy, StuckAfter};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::BuildError;
use crate::limits::{
    CONNECTION_INDEX_LIMIT, OWED_MAX, QUEUE_CAPACITY_MAX, STACK_BYTES_TOTAL_MAX, TEAM_THREADS_MAX, WORKERS_MAX,
};

/// The middle of the levels.
const ARBITER_PRIORITY: u8 = 4;

/// Slices that the kernel accepts.
const SLICE_US_MIN: i128 = 100;
const SLICE_US_MAX: i128 = 100_000;

/// Contexts of a worker where nothing else is set: as many as have this much address space for their stacks, within
/// bounds.
const CONTEXTS_BYTES: usize = 1 << 30;
const CONTEXTS_MIN: usize = 32;
const CONTEXTS_MAX: usize = 4096;

/// Bytes that may be held for all peers where nothing else is set, and the fewest: a connection that holds 64 KiB is
/// closed for the sake of no other.
const BUFFERED_BYTES: usize = 1 << 30;
const BUFFERED_BYTES_MIN: i128 = 128 << 10;

/// Which threads a server has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Topology {
    /// `Inline` if the process may use up to four cores and the policy does not preempt, else `Dedicated`.
    #[default]
    Auto,
    /// The net thread is worker 0; each other worker has a thread, with a lower
    /// scheduling weight.
    Inline,
    /// The net worker and the dispatcher share a thread, and each worker has a thread.
    Dedicated,
    /// There is no net thread: each worker receives for itself, and decides what it runs. The kernel spreads
    /// connections and datagrams over the workers. Connections of Unix sockets, and of sockets that the server was
    /// given, go to one worker after the other. Each worker has queues of a polled port. The number of workers is
    /// fixed, and there is no arbiter.
    ///
    /// For the policies `d-fcfs`, `stealing`, `jsq`, `synergy` and `darc-distributed`, which preempt requests there
    /// with the mechanisms `cooperative` and `signal`, and else run them to completion.
    Distributed,
}

impl std::str::FromStr for Topology {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "auto" => Ok(Self::Auto),
            "inline" => Ok(Self::Inline),
            "dedicated" => Ok(Self::Dedicated),
            "distributed" => Ok(Self::Distributed),
            _ => Err(format!("unknown topology '{name}' (auto, inline, dedicated, distributed)")),
        }
    }
}

impl std::fmt::Display for Topology {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Inline => "inline",
            Self::Dedicated => "dedicated",
            Self::Distributed => "distributed",
        })
    }
}

/// Whether a server refuses what it cannot answer in time, by [`psp_policy::admission`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum AdmissionMode {
    /// `On` if a type has an [SLO](psp_policy::TypeSpec::slo), else `Off`.
    #[default]
    Auto,
    /// Queues are bounded by the number of requests.
    Off,
    /// Queues are bounded by the time that requests wait, too.
    On,
}

impl std::str::FromStr for AdmissionMode {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "auto" => Ok(Self::Auto),
            "off" => Ok(Self::Off),
            "on" => Ok(Self::On),
            _ => Err(format!("unknown admission '{name}' (auto, off, on)")),
        }
    }
}

/// Resources of a server and the behaviour of its threads. Every field has a default and a setter:
/// `Config::default().workers(2).connections_max(100)`.
///
/// In a configuration file the names have dashes; underscores are accepted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[serde(remote = "Self")]
#[non_exhaustive]
pub struct Config {
    /// Number of workers, 1024 at most, or a range within which they come and go with the load
    /// ([`elastic`](psp_policy::elastic)). Without it the server chooses a number by the number of cores.
    pub workers: Option<Workers>,
    /// A worker comes when so many requests run and wait for each worker. For a range of workers, as the next three.
    pub elastic_load_factor: f64,
    /// A worker goes when the load has fallen by this part below the load at which it came.
    pub elastic_hysteresis: f64,
    /// The load is averaged over this time before workers come or go.
    pub elastic_interval_ms: u64,
    /// A worker comes when more than one in a hundred requests of a type take longer than the 99th percentile of the
    /// type's service times, times this, because they wait; 0 to go by the requests that run and wait alone, as Arachne
    /// does.
    pub elastic_tail_factor: f64,
    /// The socket of a [psp-arbiter](psp_arbiter), which is asked for a core for each thread that the load needs. A
    /// worker is present while it has one; the fewest of the range, and the net thread, run without, too. Needs a range
    /// of [`workers`](field@Self::workers), and another mechanism than `kernel-thread`.
    pub arbiter: Option<PathBuf>,
    /// How important the server is to the arbiter: from 0, the highest level, to 7.
    pub arbiter_priority: u8,
    /// Where the [admin port](crate#features) listens: `HOST:PORT`, or a port of the loopback interface. It needs the
    /// feature `admin`.
    pub admin: Option<String>,
    /// A file with the secret of those who may use the admin port: `Authorization: Bearer SECRET`, or the password of
    /// any user. Without one, `/livez`, `/readyz` and `/metrics` answer everybody, and the rest those on the loopback
    /// interface. With one, the rest needs it.
    pub admin_token_file: Option<PathBuf>,
    /// The certificate chain, in PEM, of an admin port that speaks TLS. It needs the feature `admin-tls` and
    /// [`admin_tls_key_file`](field@Self::admin_tls_key_file). Both files are read again within a minute of a change.
    pub admin_tls_cert_file: Option<PathBuf>,
    /// The key of that certificate, in PEM.
    pub admin_tls_key_file: Option<PathBuf>,
    /// Which threads the server has.
    pub topology: Topology,
    /// Requests (or runs of pipelined requests) that may wait in one typed queue, 1 048 576 at most.
    pub queue_capacity: usize,
    /// Whether requests are refused that would not be answered in time: within the SLO of their type, or before their
    /// deadline.
    pub admission: AdmissionMode,
    /// How long a request (or run) whose typed queue is full may wait for a place in it. Meanwhile the server reads
    /// nothing more from that connection. A request that gets no place in time is refused. With 0 it is refused at
    /// once. Datagrams are dropped at once in any case.
    pub backpressure_ms: u64,
    /// Connections that may be open at once.
    pub connections_max: usize,
    /// Connections that one address may have open at once; 0 for no limit. The addresses of an IPv6 network of 64
    /// bits count as one. Unix sockets have no addresses and no such limit.
    pub connections_per_address_max: usize,
    /// How many requests of a connection may run at once, if the framing's replies
    /// [name their requests](psp_protocols::Framing::replies_in_order); 1 to 64. Requests of types that take less than
    /// [`long_us`](field@Self::long_us) on average, waits included, run one after the other beside the longer ones.
    /// With 1, and where replies come in order, a request waits for those before it.
    pub requests_per_connection_max: usize,
    /// A connection that sends neither a request nor a kilobyte of one for this long is closed; 0 never closes.
    pub idle_timeout_s: u64,
    /// A connection that takes none of its output, and whose requests do not run either, for this long is closed; 0
    /// never closes.
    pub output_timeout_s: u64,
    /// A peer that ends its side of a connection later than this after its last bytes has gone: its requests that
    /// still wait are dropped, and its running request [is told](crate::is_abandoned). 0 takes every end for that.
    ///
    /// Redis, memcached and nginx take every end for a closed connection. A client that ends its requests and goes on
    /// to read replies, such as `nc -N`, ends its side right behind its last bytes, and gets all replies.
    /// A reset counts at once in any case.
    pub half_close_grace_ms: u64,
    /// A connection whose TLS handshake takes longer than this is closed; 0 never closes.
    pub handshake_timeout_s: u64,
    /// A connection whose peer does not [authenticate](crate::Handler::is_authenticated) for this long is closed; 0
    /// never closes. Most handlers ask for no authentication.
    pub auth_timeout_s: u64,
    /// Longest reply, in bytes. A reply on a connection has three quarters of
    /// [`buffered_bytes_max`](field@Self::buffered_bytes_max) at most.
    pub reply_bytes_max: usize,
    /// Bytes that may be held for all peers together: incomplete requests, and replies from when they grow, by the
    /// memory that they take. A connection may hold three quarters of it. A request of which more than 64 KiB are
    /// announced counts as a whole from then on, and waits while there is no room for it. When a connection that holds
    /// more than 64 KiB pushes the sum over this, others are closed that have waited for longest, without progress for
    /// a second at least, and without such connections that one. A reply that grows beyond 64 KiB and pushes the sum
    /// over this is discarded: its peer gets an error. Connections that hold 64 KiB or less are closed only when the
    /// sum is a quarter beyond this. 128 KiB at least. Without this setting it is 1 GiB. The example programs set less
    /// in a control group with little memory.
    pub buffered_bytes_max: Option<usize>,
    /// Longest datagram of a request, in bytes, and longest reply in datagrams; each with its header. A buffer
    /// has twice as many bytes, and takes memory as it is first used. There is one for each place in the typed
    /// queues, and in the topology `distributed` as many for each worker. All together have 16 GiB at most.
    pub datagram_bytes_max: usize,
    /// Bytes of replies in datagrams that one source may get in a second; 0 for no limit. Headers of the protocol
    /// count, those of UDP and IP do not. The addresses of an IPv6 network of 64 bits are one source. A source that got
    /// nothing for a second may get the bytes of one second at once, and the replies to its requests that wait by then.
    /// Further datagrams from it are dropped and counted until its bytes suffice.
    pub datagram_bytes_per_source_per_s: u64,
    /// A connection with more unsent output than this, in bytes, starts no further request while its peer may read: TCP
    /// holds back who sends faster than it reads. If neither direction moves for some 10 ms, its requests run on, up to
    /// [`output_bytes_max`](field@Self::output_bytes_max): many clients write all of a pipeline before they read.
    pub output_high_water_bytes: usize,
    /// A connection with as much unsent output as this, in bytes, starts no further request in any case. If neither
    /// direction moves for a second then, it is closed, counted and logged. 0, or more than half of
    /// [`buffered_bytes_max`](field@Self::buffered_bytes_max), stands for that half.
    pub output_bytes_max: usize,
    /// How long a server that SIGTERM or SIGINT asks to stop goes on as before, without being
    /// [ready](crate::ServerHandle::is_ready), before it drains: for load balancers that ask the admin port, and then
    /// send their clients elsewhere. SIGINT after another signal ends the process at once.
    pub drain_delay_ms: u64,
    /// How long a stopping server waits for requests in flight. A connection that takes none of its replies for
    /// two seconds is closed meanwhile.
    pub drain_timeout_ms: u64,
    /// How long an idle thread polls before it sleeps, if every thread has a core to itself and one core is left
    /// over. If none is left over, threads of the topology `inline` poll for each other for so long, and threads of
    /// `dedicated` for as long as a wake-up takes at
    /// most: workers for their next request, and the net thread for a worker while requests wait.
    pub spin_us: u64,
    /// Nice value of workers that share cores with the net thread (0 to 19), unless the process's is higher. Above 0
    /// they starve beside other programs that are busy. In the topology `distributed`, a worker without a core to spare
    /// has it while it runs a long request, if it may take its own back: that needs CAP_SYS_NICE, or an RLIMIT_NICE for
    /// its own nice value.
    pub background_nice: i32,
    /// Slice of those workers. A thread with a shorter slice, such as the net thread or a client on the same machine,
    /// may preempt them when it wakes. 0 leaves the system's default.
    pub background_slice_us: u64,
    /// Slice of a net thread that shares its core. With a short slice the kernel lets the net thread run as soon
    /// as it wakes, whatever thread has the core. 0 leaves the system's default. In the topology `distributed` all
    /// workers have it, unless there is a core to spare.
    pub net_slice_us: u64,
    /// Mean service time from which the requests of a type are long: in the topology `distributed` a worker leaves its
    /// connections to others while it runs one, or one that has turned out to take so long. 0: no request is long, and
    /// a worker has its connections for good.
    pub long_us: u64,
    /// How long a request may have a thread that owns sockets: the net thread as worker 0, or in the topology
    /// `distributed` a worker while no other worker drives its connections. At its next [checkpoint](crate::checkpoint)
    /// it gives the thread back, whatever the policy, and goes on when the others that are there have had it for as
    /// long. 0: for any time. Requests of types that [never yield](psp_policy::TypeSpec::preempt) do not.
    pub net_budget_us: u64,
    /// How policies that share time make a request yield; other policies never do. With `none` no
    /// such policy can be chosen, except in the topology `distributed`: there requests run to completion.
    pub preempt: PreemptPolicy,
    /// Contexts of each worker at most: all but one may hold a request that has begun, and that one takes
    /// over when a request yields or [waits](crate::wait). If none is left, the worker begins no other request.
    /// A worker makes a context when it first needs it. Without this setting there are as many as reserve 1 GiB for
    /// their [stacks](field@Self::stack_bytes): 4096, and fewer with larger stacks, down to 32.
    /// With `kernel-thread` contexts are threads, 64 at most. In the topology `distributed` only requests with a
    /// quantum have threads then, as many as this allows for all workers together, and others have contexts.
    pub contexts_per_worker: Option<usize>,
    /// Stack of each context, in bytes. It is reserved with the context, and takes memory as it is used. The
    /// stacks of all contexts of all workers are 1 TiB at most.
    /// The threads of `kernel-thread` have the usual stack of a thread instead.
    pub stack_bytes: usize,
    /// Threads that run [`blocking`](crate::blocking) calls of requests on contexts, for all workers together. They
    /// start when they are needed.
    pub blocking_threads_max: usize,
    /// A request that was asked to yield and has not done so for this long is counted and logged;
    /// 0 for never.
    pub preempt_warn_ms: u64,
    /// A request that has run for this long, and for as many [mean service times](field@Self::stuck_after_means) of its
    /// type, is *stuck*: it may never end. It is counted and logged, and policies that reserve workers let a type whose
    /// workers are all stuck [use another](psp_policy::Scheduler::relief). From a fifth of that time on it yields at
    /// its checkpoints while others wait, each [`net_budget_us`](field@Self::net_budget_us), whatever the policy. 0 for
    /// never.
    pub stuck_after_ms: u64,
    /// See [`stuck_after_ms`](field@Self::stuck_after_ms). A run of pipelined requests, of which there are up to 64, is
    /// one request here.
    pub stuck_after_means: u64,
    /// A request that takes this long or longer from its arrival to the end of its handler is logged, and is among the
    /// [slow requests](crate::ServerHandle::slow_requests); 0 for never. [Types](psp_policy::TypeSpec::slow) may say
    /// something else.
    pub slow_us: u64,
    /// One request in so many has a span of the crate `tracing` (target `psp::request`, level INFO) with its type, its
    /// worker, and its times `wait_us` and `service_us`; 0 for none. The span lasts as long as the handler, which is
    /// not within it.
    pub span_every: u64,
    /// Seed of the policies that choose at random.
    pub seed: u64,
}

impl Serialize for Config {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, serializer)
    }
}

impl<'de> Deserialize<'de> for Config {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // This is the derived function, for keys in one case.
        Self::deserialize(EitherCase(deserializer))
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            workers: None,
            elastic_load_factor: ElasticSettings::default().load_factor,
            elastic_hysteresis: ElasticSettings::default().hysteresis,
            elastic_interval_ms: ElasticSettings::default().interval_ms,
            elastic_tail_factor: ElasticSettings::default().tail_factor,
            arbiter: None,
            arbiter_priority: ARBITER_PRIORITY,
            admin: None,
            admin_token_file: None,
            admin_tls_cert_file: None,
            admin_tls_key_file: None,
            topology: Topology::Auto,
            queue_capacity: 1024,
            admission: AdmissionMode::Auto,
            backpressure_ms: 1000,
            connections_max: 10_000,
            connections_per_address_max: 0,
            requests_per_connection_max: 64,
            idle_timeout_s: 0,
            output_timeout_s: 60,
            half_close_grace_ms: 100,
            handshake_timeout_s: 10,
            auth_timeout_s: 10,
            reply_bytes_max: 1 << 30,
            buffered_bytes_max: None,
            datagram_bytes_max: 2048,
            datagram_bytes_per_source_per_s: 0,
            output_high_water_bytes: 256 * 1024,
            output_bytes_max: 0,
            drain_delay_ms: 0,
            drain_timeout_ms: 10_000,
            spin_us: 50,
            background_nice: 0,
            background_slice_us: 700,
            net_slice_us: 100,
            long_us: 100,
            net_budget_us: 1000,
            preempt: PreemptPolicy::default(),
            contexts_per_worker: None,
            stack_bytes: 256 * 1024,
            blocking_threads_max: 16,
            preempt_warn_ms: 100,
            stuck_after_ms: 10_000,
            stuck_after_means: 100,
            slow_us: 0,
            span_every: 0,
            seed: 1,
        }
    }
}

/// Writes what there is of every setting: the setters of those with a type, and a function that takes settings over by
/// their names. Those before the semicolon may be left unset.
macro_rules! every_setting {
    ($($optional:ident),+; $($field:ident: $type:ty),+ $(,)?) => {
        psp_policy::setters! { $($field: $type),+ }

        /// This configuration, with the settings of `other` that are named, or that are not the default ones.
        pub(crate) fn with_named(self, other: &Self, is_named: impl Fn(&str) -> bool) -> Self {
            let default = Self::default();
            let mut own = self;
            let Self { $($optional,)+ $($field),+ } = other;
            $(if $optional.is_some() {
                own.$optional = $optional.clone();
            })+
            $(if is_named(stringify!($field)) || *$field != default.$field {
                own.$field = *$field;
            })+
            own
        }
    };
}

impl Config {
    /// Sets [`workers`](field@Self::workers).
    #[must_use]
    pub fn workers(mut self, workers: impl Into<Workers>) -> Self {
        self.workers = Some(workers.into());
        self
    }

    /// Sets [`arbiter`](field@Self::arbiter).
    #[must_use]
    pub fn arbiter(mut self, path: impl Into<PathBuf>) -> Self {
        self.arbiter = Some(path.into());
        self
    }

    /// Sets [`admin`](field@Self::admin).
    #[must_use]
    pub fn admin(mut self, place: impl Into<String>) -> Self {
        self.admin = Some(place.into());
        self
    }

    /// Sets [`admin_token_file`](field@Self::admin_token_file).
    #[must_use]
    pub fn admin_token_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.admin_token_file = Some(path.into());
        self
    }

    /// Sets [`admin_tls_cert_file`](field@Self::admin_tls_cert_file) and
    /// [`admin_tls_key_file`](field@Self::admin_tls_key_file).
    #[must_use]
    pub fn admin_tls(mut self, chain: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        self.admin_tls_cert_file = Some(chain.into());
        self.admin_tls_key_file = Some(key.into());
        self
    }

    /// Sets [`contexts_per_worker`](field@Self::contexts_per_worker).
    #[must_use]
    pub fn contexts_per_worker(mut self, contexts: usize) -> Self {
        self.contexts_per_worker = Some(contexts);
        self
    }

    /// The contexts that each worker has at most: [`contexts_per_worker`](field@Self::contexts_per_worker), or what
    /// holds without that setting.
    #[must_use]
    pub fn contexts(&self) -> usize {
        self.contexts_per_worker.unwrap_or(match self.preempt {
            PreemptPolicy::KernelThread => TEAM_THREADS_MAX,
            _ => (CONTEXTS_BYTES / self.stack_bytes.max(1)).clamp(CONTEXTS_MIN, CONTEXTS_MAX),
        })
    }

    /// Sets [`buffered_bytes_max`](field@Self::buffered_bytes_max).
    #[must_use]
    pub fn buffered_bytes_max(mut self, bytes: usize) -> Self {
        self.buffered_bytes_max = Some(bytes);
        self
    }

    /// The bytes that may be held for all peers: [`buffered_bytes_max`](field@Self::buffered_bytes_max), or what holds
    /// without that setting.
    #[must_use]
    pub fn buffered_bytes(&self) -> usize {
        self.buffered_bytes_max.unwrap_or(BUFFERED_BYTES)
    }

    every_setting! {
        workers, arbiter, admin, admin_token_file, admin_tls_cert_file, admin_tls_key_file, contexts_per_worker,
        buffered_bytes_max;
        elastic_load_factor: f64,
        elastic_hysteresis: f64,
        elastic_interval_ms: u64,
        elastic_tail_factor: f64,
        arbiter_priority: u8,
        topology: Topology,
        queue_capacity: usize,
        admission: AdmissionMode,
        backpressure_ms: u64,
        connections_max: usize,
        connections_per_address_max: usize,
        requests_per_connection_max: usize,
        idle_timeout_s: u64,
        output_timeout_s: u64,
        half_close_grace_ms: u64,
        handshake_timeout_s: u64,
        auth_timeout_s: u64,
        reply_bytes_max: usize,
        datagram_bytes_max: usize,
        datagram_bytes_per_source_per_s: u64,
        output_high_water_bytes: usize,
        output_bytes_max: usize,
        drain_delay_ms: u64,
        drain_timeout_ms: u64,
        spin_us: u64,
        background_nice: i32,
        background_slice_us: u64,
        net_slice_us: u64,
        long_us: u64,
        net_budget_us: u64,
        preempt: PreemptPolicy,
        stack_bytes: usize,
        blocking_threads_max: usize,
        preempt_warn_ms: u64,
        stuck_after_ms: u64,
        stuck_after_means: u64,
        slow_us: u64,
        span_every: u64,
        seed: u64,
    }

    /// Checks that each setting is in its range. [`ServerBuilder::build`](crate::ServerBuilder::build) does the
    /// same; programs check earlier, before they allocate anything.
    ///
    /// # Errors
    /// [`BuildError::Setting`] for the first setting that is out of its range, and [`BuildError::Stacks`].
    pub fn validate(&self) -> Result<(), BuildError> {
        let workers = self.workers.map_or(1, |workers| workers.max);
        let workers_min = self.workers.map_or(1, |workers| workers.min);
        let queue_capacity = QUEUE_CAPACITY_MAX as i128;
        let contexts = match self.preempt {
            PreemptPolicy::KernelThread => TEAM_THREADS_MAX as i128,
            _ => 65_536,
        };
        let connections = i128::from(CONNECTION_INDEX_LIMIT) - 1;
        let slice = |name, slice_us: u64| {
            let min = if slice_us == 0 { 0 } else { SLICE_US_MIN };
            (name, slice_us.into(), min, SLICE_US_MAX)
        };
        let nice = i128::from(self.background_nice);
        let ranges = [
            ("workers", workers as i128, 1, WORKERS_MAX as i128),
            ("workers", workers_min as i128, 1, workers as i128),
            ("arbiter_priority", self.arbiter_priority.into(), 0, Priority::LOWEST.level().into()),
            ("queue_capacity", self.queue_capacity as i128, 1, queue_capacity),
            ("connections_max", self.connections_max as i128, 1, connections),
            (
                "requests_per_connection_max",
                self.requests_per_connection_max as i128,
                1,
                OWED_MAX as i128,
            ),
            ("reply_bytes_max", self.reply_bytes_max as i128, 1, isize::MAX as i128),
            (
                "buffered_bytes_max",
                self.buffered_bytes() as i128,
                BUFFERED_BYTES_MIN,
                isize::MAX as i128,
            ),
            ("datagram_bytes_max", self.datagram_bytes_max as i128, 64, 65_507),
            ("background_nice", nice, 0, 19),
            slice("background_slice_us", self.background_slice_us),
            slice("net_slice_us", self.net_slice_us),
            ("contexts_per_worker", self.contexts() as i128, 2, contexts),
            ("blocking_threads_max", self.blocking_threads_max as i128, 1, 1024),
            ("stack_bytes", self.stack_bytes as i128, 64 << 10, 1 << 30),
        ];
        for (setting, value, min, max) in ranges {
            if !(min..=max).contains(&value) {
                let or_zero = if min == SLICE_US_MIN { "0 or " } else { "" };
                return Err(BuildError::Setting {
                    setting,
                    value: value.to_string(),
                    expected: format!("{or_zero}between {min} and {max}"),
                });
            }
        }
        self.validate_arbiter()?;
        self.validate_stacks(workers)?;
        let elastic = self.elastic_settings().validate();
        elastic.map_err(|error| BuildError::Setting {
            setting: error.setting(),
            value: error.value().to_string(),
            expected: error.range().to_owned(),
        })
    }

    /// A file for the admin port would do nothing without one. A configuration file alone may name it: flags follow.
    pub(crate) fn validate_admin(&self) -> Result<(), BuildError> {
        let files = [
            ("admin_token_file", &self.admin_token_file),
            ("admin_tls_cert_file", &self.admin_tls_cert_file),
            ("admin_tls_key_file", &self.admin_tls_key_file),
        ];
        let given = |(setting, file): (&'static str, &Option<PathBuf>)| Some((setting, file.clone()?));
        match files.into_iter().find_map(given) {
            Some((setting, file)) if self.admin.is_none() => Err(BuildError::Setting {
                setting,
                value: file.display().to_string(),
                expected: "unset where no admin port is set".to_owned(),
            }),
            _ => Ok(()),
        }
    }

    fn validate_arbiter(&self) -> Result<(), BuildError> {
        let Some(path) = self.arbiter.clone() else {
            return Ok(());
        };
        let workers = self.workers.unwrap_or_else(|| 1.into());
        // The net thread may be one more.
        let reason = if !workers.is_elastic() {
            "it needs a range of workers, which come and go with their cores, as in workers = 1..4"
        } else if workers.max >= THREADS_PER_SERVER_MAX {
            "it knows at most 255 workers of a server"
        } else if self.preempt == PreemptPolicy::KernelThread {
            "it moves one thread to a core, and a worker with preempt = kernel-thread has several"
        } else {
            return Ok(());
        };
        Err(BuildError::Arbiter { path, reason })
    }

    /// From when a request is stuck, if any ever is.
    pub(crate) fn stuck_after(&self) -> Option<StuckAfter> {
        let time_ns = self.stuck_after_ms.saturating_mul(1_000_000);
        let means = u32::try_from(self.stuck_after_means).unwrap_or(u32::MAX);
        (time_ns > 0).then(|| StuckAfter::new(time_ns, means))
    }

    /// The settings of the estimator.
    pub(crate) fn elastic_settings(&self) -> ElasticSettings {
        ElasticSettings::default()
            .load_factor(self.elastic_load_factor)
            .hysteresis(self.elastic_hysteresis)
            .interval_ms(self.elastic_interval_ms)
            .tail_factor(self.elastic_tail_factor)
    }

    /// Checks the address space that the contexts of so many workers reserve at most.
    pub(crate) fn validate_stacks(&self, workers: usize) -> Result<(), BuildError> {
        let (contexts, stack_bytes) = (self.contexts(), self.stack_bytes);
        let total = workers as u128 * contexts as u128 * stack_bytes as u128;
        let has_stacks = self.preempt != PreemptPolicy::KernelThread;
        if has_stacks && total > STACK_BYTES_TOTAL_MAX.into() {
            return Err(BuildError::Stacks {
                workers,
                contexts,
                stack_bytes,
                total,
                max: STACK_BYTES_TOTAL_MAX,
            });
        }
        Ok(())
    }
}
