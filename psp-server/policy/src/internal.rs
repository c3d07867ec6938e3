//! What the other crates of this workspace need beyond the API. It may change with every version.

pub use crate::keys::EitherCase;
pub use crate::parts::worker_times::WorkerTimes;
pub use crate::policies::portfolio::candidates::{QUANTA, least_quantum_us};
pub use crate::study_pace::{StudyEnded, StudyPace};
