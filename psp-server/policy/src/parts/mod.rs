//! What policies share.

pub(crate) mod aged;
pub(crate) mod blocked;
pub(crate) mod by_deadline;
pub(crate) mod dispersion;
pub(crate) mod eligible;
pub(crate) mod finishing;
pub(crate) mod grouped;
pub(crate) mod handover;
pub(crate) mod heaps;
pub(crate) mod lists;
pub(crate) mod own_queues;
pub(crate) mod own_thread;
pub(crate) mod plan;
pub(crate) mod profile;
pub(crate) mod quanta;
pub(crate) mod queues;
pub(crate) mod ready;
pub(crate) mod reservations;
pub(crate) mod running;
pub(crate) mod slos;
pub(crate) mod stuck;
pub(crate) mod suspended;
pub(crate) mod waiting;
pub(crate) mod worker_times;
pub(crate) mod workers;
