//! The server as a program.

use std::time::Duration;

use clap::Parser;
use mimalloc::MiMalloc;
use psp_program::reload_on_hangup;
use psp_rocksdb::closing::close;
use psp_rocksdb::config::Flags;
use psp_rocksdb::reload::reload;
use psp_rocksdb::startup;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// How long a stopped server waits for a request that it left behind.
const CLOSE_PATIENCE: Duration = Duration::from_secs(10);

fn main() -> anyhow::Result<()> {
    let flags = Flags::parse();
    let config = flags.clone().resolve()?;
    if flags.print_config {
        print!("{}", toml::to_string(&config)?);
        return Ok(());
    }
    let log = config.log_level.start_log();
    let startup::KeyValueServer { server, engine } = startup::build(config.clone())?;
    let handle = server.handle();
    reload_on_hangup(move || reload(&config, &flags, &handle, &log))?;
    let outcome = psp_program::run(server);
    if !close(engine, CLOSE_PATIENCE) {
        tracing::warn!("a request still uses the store, which is left as it is");
        if let Err(error) = &outcome {
            tracing::error!("{error:#}");
        }
        // Without the destructors that `main` would return into.
        signal_hook::low_level::exit(i32::from(outcome.is_err()));
    }
    outcome
}
