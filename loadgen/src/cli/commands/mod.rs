//! One file for each subcommand.

pub(super) mod calibrate;
pub(super) mod capacity;
pub(super) mod compare;
pub(super) mod figure;
pub(super) mod preload;
pub(super) mod report;
pub(super) mod run;
pub(super) mod sim;
pub(super) mod sweep;
pub(super) mod tournament;
