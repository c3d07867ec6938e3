//! What a mechanism does.

use std::fmt;
use std::io;
use std::path::PathBuf;

use super::error::MechanismError;
use super::kind::Kind;
use crate::cores::{CoreId, CoreSet};
use crate::thread::ThreadId;

/// What the mechanism works on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Scope {
    /// The cores that may be granted or stay unmanaged; all by default.
    pub cores: Option<CoreSet>,
    /// The cgroup, below the root of the hierarchy, in which the arbiter makes its own and whose tasks it confines. The
    /// root by default.
    pub parent: PathBuf,
}

/// A mechanism that has been started.
pub struct Started {
    /// The mechanism.
    pub mechanism: Box<dyn Mechanism>,
    /// Threads that an earlier arbiter left on cores.
    pub orphans: Vec<(CoreId, ThreadId)>,
}

impl Started {
    /// Starts a mechanism.
    ///
    /// # Errors
    /// See [`Mechanism::start`].
    pub fn new(mut mechanism: Box<dyn Mechanism>) -> Result<Self, MechanismError> {
        let orphans = mechanism.start()?;
        Ok(Self { mechanism, orphans })
    }
}

impl fmt::Debug for Started {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Started");
        shown.field("mechanism", &self.mechanism.kind());
        shown.field("orphans", &self.orphans).finish()
    }
}

/// Moves threads to cores and away from them.
pub trait Mechanism {
    /// Which one it is.
    fn kind(&self) -> Kind;

    /// The cores that can be granted or stay unmanaged.
    fn cores(&self) -> CoreSet;

    /// Takes over the machine: undoes what an earlier arbiter left, except for threads that are on cores. These are
    /// returned.
    ///
    /// # Errors
    /// A right is missing, or the kernel refuses.
    fn start(&mut self) -> Result<Vec<(CoreId, ThreadId)>, MechanismError>;

    /// Moves the thread to the core.
    ///
    /// # Errors
    /// The thread has ended, or the kernel refuses.
    fn grant(&mut self, core: CoreId, thread: ThreadId) -> io::Result<()>;

    /// Moves everything away from the core but the thread `stays`, which has it now. `left` has left the core, and has
    /// no other. Threads that have ended are no error.
    ///
    /// # Errors
    /// The kernel refuses.
    fn vacate(&mut self, core: CoreId, left: Option<ThreadId>, stays: Option<ThreadId>) -> io::Result<()>;

    /// Everything that has no granted core runs on these cores from now on, of which there is at least one.
    ///
    /// # Errors
    /// The kernel refuses.
    fn set_unmanaged(&mut self, cores: CoreSet) -> io::Result<()>;

    /// A server of this process has registered.
    ///
    /// # Errors
    /// The kernel refuses.
    fn admit(&mut self, process: i32) -> io::Result<()> {
        let _ = process;
        Ok(())
    }

    /// The last server of this process has gone. The process may live on.
    fn forget(&mut self, process: i32) {
        let _ = process;
    }

    /// Puts everything back.
    ///
    /// # Errors
    /// Names the first thing that could not be put back; the rest is.
    fn stop(&mut self) -> io::Result<()>;
}
