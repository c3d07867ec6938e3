//! The server program.

use std::process::ExitCode;
use std::time::Duration;

use psp_rocksdb::closing::close;
use psp_rocksdb::config::Config;
use psp_rocksdb::startup::{self, KeyValueServer};
use tikv_jemallocator::Jemalloc;

#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

/// How long a stopped server waits for an unfinished request.
const CLOSE_PATIENCE: Duration = Duration::from_secs(10);

fn main() -> ExitCode {
    psp_program::main::<Config>(|program| {
        let KeyValueServer { server, engine } = startup::build(program.config.clone())?;
        let outcome = program.serve(server);
        if !close(engine, CLOSE_PATIENCE) {
            tracing::warn!("a request still uses the store: exiting without closing it");
            if let Err(error) = &outcome {
                tracing::error!("{}", psp_program::explain(error));
            }
            // Exit without the destructors that run after `main` returns.
            signal_hook::low_level::exit(i32::from(outcome.is_err()));
        }
        outcome
    })
}
