//! The objects of a policy without a dispatcher.

use crate::distributed::board::Board;
use crate::distributed::feedback::Feedback;
use crate::distributed::knowledge::Knowledge;
use crate::distributed::word::Word;
use crate::distributed::worker::WorkerPolicy;
use crate::setup::SchedulerSetup;

/// How requests get to workers, and how the wait queue and the timer core behave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ways {
    /// Requests arrive at workers at random, as receive-side scaling spreads them. Otherwise a dispatcher receives
    /// all, and the object of worker 0 places them.
    pub at_random: bool,
    /// A worker is preempted only while others wait in its own queue; else at the end of its quantum.
    pub conditional: bool,
    /// A quantum that ends while none waits is followed by another; else it is over from then on.
    pub renewed: bool,
    /// How long requests stay in the wait queue until it is congested, in nanoseconds; 0 for ever.
    pub congestion_ns: u64,
}

impl Default for Ways {
    fn default() -> Self {
        Self {
            at_random: true,
            conditional: true,
            renewed: true,
            congestion_ns: 0,
        }
    }
}

/// What workers need that schedule themselves: an object for each, one feedback, and what they share.
#[derive(Debug)]
pub struct Local<C, W, F> {
    /// By their numbers.
    pub workers: Vec<W>,
    /// One for all.
    pub feedback: F,
    /// Its words.
    pub knowledge: Knowledge<C>,
    /// The lines of the workers.
    pub board: Board<C>,
    /// Whether a worker's own queue has a [lane](super::lane_of) for each type, or one for all.
    pub typed: bool,
    /// The rest of the policy.
    pub ways: Ways,
}

/// As [`Local`], of a policy that is known at run time.
pub type AnyLocal<C> = Local<C, Box<dyn WorkerPolicy<C>>, Box<dyn Feedback<C>>>;

impl<C: Word, W: WorkerPolicy<C>, F: Feedback<C>> Local<C, W, F> {
    /// Workers with one lane each that `worker` makes.
    pub(crate) fn new(
        setup: &SchedulerSetup<'_>,
        feedback: impl FnOnce(&Knowledge<C>) -> F,
        worker: impl Fn() -> W,
    ) -> Self {
        let knowledge = Knowledge::new(setup.types.len(), setup.workers);
        Self {
            workers: (0..setup.workers).map(|_| worker()).collect(),
            feedback: feedback(&knowledge),
            knowledge,
            board: Board::new(setup.workers),
            typed: false,
            ways: Ways::default(),
        }
    }

    /// As this, with other ways.
    pub(crate) fn with(self, ways: Ways) -> Self {
        Self { ways, ..self }
    }

    /// As [`Local::new`], with a lane for each type.
    pub(crate) fn typed(self) -> Self {
        Self { typed: true, ..self }
    }

    /// The same objects behind pointers.
    pub(crate) fn boxed(self) -> AnyLocal<C>
    where
        W: 'static,
        F: 'static,
    {
        let boxed = |worker| Box::new(worker) as Box<dyn WorkerPolicy<C>>;
        Local {
            workers: self.workers.into_iter().map(boxed).collect(),
            feedback: Box::new(self.feedback),
            knowledge: self.knowledge,
            board: self.board,
            typed: self.typed,
            ways: self.ways,
        }
    }
}
