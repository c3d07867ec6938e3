//! The server program.

#[cfg(not(feature = "system-allocator"))]
mod allocator;

use std::process::ExitCode;
use std::sync::Arc;

use psp_redis::config::Config;
use psp_redis::startup;

fn main() -> ExitCode {
    #[cfg(not(feature = "system-allocator"))]
    allocator::begin();
    psp_program::main::<Config>(|program| {
        let redis = startup::build(program.config.clone())?;
        let state = Arc::clone(&redis.state);
        let log = program.log.clone();
        state.settings.on_log_level(move |level| log.set_level(level));
        let tls = redis.tls;
        let served = program.serve_and_reload(redis.server, move |started, config| {
            state.take_over(started, config);
            if let Some(tls) = &tls {
                startup::reload_certificates(tls, started, config);
            }
        });
        // No client is left whose writes could be missing.
        redis.saver.end().and(served)
    })
}
