//! The server program.

use std::process::ExitCode;
use std::sync::Arc;

use psp_redis::config::Flags;
use psp_redis::startup;
use tikv_jemallocator::Jemalloc;

#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> ExitCode {
    psp_program::main::<Flags>(|program| {
        let redis = startup::build(program.config.clone())?;
        let state = Arc::clone(&redis.state);
        let log = program.log.clone();
        state
            .settings
            .on_log_level(move |level| log.set_level(level));
        let tls = redis.tls;
        program.serve_and_reload(redis.server, move |started, config| {
            state.settings.take_over(started, config);
            state.configure_eviction(config);
            if let Some(tls) = &tls {
                startup::reload_certificates(tls, started, config);
            }
        })
    })
}
