//! The server as a program.

use std::time::Duration;

use mimalloc::MiMalloc;
use psp_rocksdb::closing::close;
use psp_rocksdb::config::Flags;
use psp_rocksdb::startup::{self, KeyValueServer};

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// How long a stopped server waits for a request that it left behind.
const CLOSE_PATIENCE: Duration = Duration::from_secs(10);

fn main() -> anyhow::Result<()> {
    psp_program::main::<Flags>(|program| {
        let KeyValueServer { server, engine } = startup::build(program.config.clone())?;
        let outcome = program.serve(server);
        if !close(engine, CLOSE_PATIENCE) {
            tracing::warn!("a request still uses the store, which is left as it is");
            if let Err(error) = &outcome {
                tracing::error!("{error:#}");
            }
            // Without the destructors that `main` would return into.
            signal_hook::low_level::exit(i32::from(outcome.is_err()));
        }
        outcome
    })
}
