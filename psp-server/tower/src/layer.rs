//! What a layer is made of.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderName;
use psp_pool::Pool;

use crate::carried::Carry;
use crate::placement::{Thresholds, nanos};
use crate::snapshot::Snapshot;
use crate::types::Types;

/// When clients that were refused may come back.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Has short requests of a service polled where they arrive, and long ones by a pool, in the order of its policy. See
/// the [crate](crate).
///
/// Clones have the same pool, and the same knowledge of types.
pub struct PspLayer<C> {
    pub(crate) pool: Pool,
    pub(crate) classifier: Arc<C>,
    pub(crate) types: Arc<Types>,
    pub(crate) settings: Settings,
}

#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) thresholds: Thresholds,
    pub(crate) deadline_header: Option<HeaderName>,
    pub(crate) retry_after: Duration,
    pub(crate) carry: Option<Carry>,
}

impl<C> PspLayer<C> {
    /// A layer over a pool that polls its tasks in the runtime of the service (`Builder::tokio`), with a
    /// [classifier](crate::Classify) that names types of the pool.
    #[must_use]
    pub fn new(pool: Pool, classifier: C) -> Self {
        let thresholds = Thresholds::DEFAULT;
        Self {
            types: Arc::new(Types::new(pool.types(), thresholds)),
            pool,
            classifier: Arc::new(classifier),
            settings: Settings {
                thresholds,
                deadline_header: None,
                retry_after: RETRY_AFTER,
                carry: None,
            },
        }
    }

    /// Types whose requests take less than this, on average, are polled where they arrive; 100 us by default. With zero
    /// all requests go to the pool.
    ///
    /// Forgets what is known of the types.
    #[must_use]
    pub fn inline_below(self, mean: Duration) -> Self {
        let thresholds = Thresholds { inline_below_ns: nanos(mean), ..self.settings.thresholds };
        self.with_thresholds(thresholds)
    }

    /// One poll that takes longer moves its type to the pool; 1 ms by default.
    ///
    /// Forgets what is known of the types.
    #[must_use]
    pub fn long_poll(self, time: Duration) -> Self {
        let thresholds = Thresholds { long_poll_ns: nanos(time), ..self.settings.thresholds };
        self.with_thresholds(thresholds)
    }

    fn with_thresholds(mut self, thresholds: Thresholds) -> Self {
        self.settings.thresholds = thresholds;
        self.types = Arc::new(Types::new(self.pool.types(), thresholds));
        self
    }

    /// Clients say in this header for how many milliseconds they wait. `grpc-timeout` is read in any case.
    ///
    /// A request with a deadline needs a runtime with timers.
    #[must_use]
    pub fn deadline_header(mut self, name: HeaderName) -> Self {
        self.settings.deadline_header = Some(name);
        self
    }

    /// What `Retry-After` says to clients whose requests found a full queue, in whole seconds; 1 s by default.
    #[must_use]
    pub const fn retry_after(mut self, time: Duration) -> Self {
        self.settings.retry_after = time;
        self
    }

    /// Takes along what belongs to the caller's task or thread: values of `task_local!`, the hub of Sentry, the context
    /// of OpenTelemetry. `capture` runs where a request arrives that goes to the pool. What it returns is called for
    /// each poll, on a worker, and has to call its argument once. Spans and subscribers of `tracing` need no such
    /// thing.
    ///
    /// ```
    /// use psp_pool::{Pool, RequestType};
    /// use psp_tower::PspLayer;
    ///
    /// tokio::task_local! {
    ///     static REQUEST_ID: u64;
    /// }
    ///
    /// let layer = PspLayer::new(Pool::builder().build()?, |_: &http::Request<()>| RequestType::UNKNOWN);
    /// let layer = layer.carry(|| {
    ///     let id = REQUEST_ID.try_get().unwrap_or(0);
    ///     move |poll: &mut dyn FnMut()| REQUEST_ID.sync_scope(id, || poll())
    /// });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn carry<A>(mut self, capture: impl Fn() -> A + Send + Sync + 'static) -> Self
    where
        A: FnMut(&mut dyn FnMut()) + Send + 'static,
    {
        self.settings.carry = Some(Carry::new(capture));
        self
    }

    /// What the layer has done until now.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.types.snapshot(self.settings.thresholds)
    }

    /// The pool: to change its policy, or to close it.
    #[must_use]
    pub const fn pool(&self) -> &Pool {
        &self.pool
    }
}

impl<C> Clone for PspLayer<C> {
    fn clone(&self) -> Self {
        Self {
            pool: self.pool.clone(),
            classifier: self.classifier.clone(),
            types: self.types.clone(),
            settings: self.settings.clone(),
        }
    }
}

impl<C> std::fmt::Debug for PspLayer<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PspLayer").field("settings", &self.settings).finish_non_exhaustive()
    }
}
