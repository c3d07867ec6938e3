//! The server as a program.

use std::sync::Arc;

use clap::Parser;
use mimalloc::MiMalloc;
use psp_redis::config::Flags;
use psp_redis::reload::reload;
use psp_redis::startup;
use psp_server::reload::on_hangup;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> anyhow::Result<()> {
    let flags = Flags::parse();
    let config = flags.clone().resolve()?;
    if flags.print_config {
        print!("{}", toml::to_string(&config)?);
        return Ok(());
    }
    let log = config.log_level.start_log();
    let redis = startup::build(config)?;
    redis
        .state
        .settings
        .on_log_level(move |level| log.set_level(level));
    let state = Arc::clone(&redis.state);
    on_hangup(move || match reload(&state, &flags) {
        Ok(restart) if restart.is_empty() => tracing::info!("configuration reloaded"),
        Ok(restart) => {
            let settings = restart.join(", ");
            tracing::warn!("configuration reloaded; a restart is needed to change {settings}");
        }
        Err(error) => tracing::error!("configuration not reloaded: {error:#}"),
    })?;
    psp_program::run(redis.server)
}
