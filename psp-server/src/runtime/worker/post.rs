//! What each thread of a worker starts with.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use psp_protocols::Framing;

use crate::handler::Handler;
use crate::policy::WorkerId;
use crate::runtime::clock::Clock;
use crate::runtime::cores::Cores;
use crate::runtime::executor::{Executor, Sending};
use crate::runtime::scheduling::lower_priority;
use crate::runtime::shared::Shared;

/// See the [module](self).
pub(crate) struct Post<F, H> {
    pub(crate) worker: WorkerId,
    pub(crate) handler: Arc<H>,
    pub(crate) framing: Arc<F>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) clock: Clock,
    /// How long an idle worker polls before it sleeps.
    pub(crate) spin: Duration,
    pub(crate) cores: Cores,
    /// Which of the cores is its own.
    pub(crate) place: usize,
    /// Threads of the server that are to have a core each.
    pub(crate) threads: usize,
    /// Whether they share cores instead, and the worker gives way to the net thread.
    pub(crate) background: bool,
}

impl<F: Framing, H: Handler> Post<F, H> {
    /// Tells the kernel how the calling thread, the worker's only one, shares its core.
    pub(crate) fn settle(&self) {
        if self.background {
            lower_priority(self.shared.config.background_nice);
        } else {
            self.cores.pin(self.place, self.threads);
        }
    }

    /// The same for one of a team: it stays on the team's core in any case.
    pub(crate) fn settle_in_team(&self) {
        if self.background {
            lower_priority(self.shared.config.background_nice);
        }
        self.cores.pin_shared(self.place);
    }

    /// An executor for the calling thread, which takes `away_ns` off its measurements.
    pub(crate) fn executor(&self, away_ns: Rc<Cell<u64>>) -> Executor<F, H> {
        Executor::new(
            self.worker,
            self.handler.clone(),
            self.framing.clone(),
            self.shared.clone(),
            self.clock.clone(),
            Sending::AtOnce,
            away_ns,
        )
    }
}

impl<F, H> Clone for Post<F, H> {
    fn clone(&self) -> Self {
        Self {
            worker: self.worker,
            handler: self.handler.clone(),
            framing: self.framing.clone(),
            shared: self.shared.clone(),
            clock: self.clock.clone(),
            spin: self.spin,
            cores: self.cores.clone(),
            place: self.place,
            threads: self.threads,
            background: self.background,
        }
    }
}
