//! A server from its start to its end.

use psp_protocols::Framing;
use psp_server::{Classifier, Handler, Server};

use crate::descriptors;

/// Says where `server` listens and runs it until SIGTERM or SIGINT.
///
/// # Errors
/// When a thread or the signal handlers cannot be set up, or the event queue fails.
pub fn run<F: Framing, K: Classifier, H: Handler>(server: Server<F, K, H>) -> anyhow::Result<()> {
    let connections_max = server.handle().connections_max();
    let room = descriptors::make_room(connections_max);
    if room < connections_max {
        tracing::warn!("the limit of open files has room for {room} of {connections_max} clients");
    }
    for address in server.local_addrs() {
        tracing::info!("listening on {address}");
    }
    let report = server.run()?;
    if report.abandoned > 0 {
        tracing::warn!(report.abandoned, "stopped before everything was answered");
    }
    Ok(())
}
