//! The server as a program.

use std::io::IsTerminal;
use std::sync::Arc;

use clap::Parser;
use mimalloc::MiMalloc;
use psp_redis::config::{Flags, LogLevel};
use psp_redis::reload::reload;
use psp_redis::{descriptors, startup};
use psp_server::reload::on_hangup;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::prelude::*;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> anyhow::Result<()> {
    let flags = Flags::parse();
    let config = flags.clone().resolve()?;
    if flags.print_config {
        print!("{}", toml::to_string(&config)?);
        return Ok(());
    }
    let (level, logging) = tracing_subscriber::reload::Layer::new(filter(config.log_level));
    let text = tracing_subscriber::fmt::layer()
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr);
    tracing_subscriber::registry().with(level).with(text).init();
    let connections_max = config.server.connections_max;
    let room = descriptors::make_room(connections_max);
    if room < connections_max {
        tracing::warn!("the limit of open files has room for {room} of {connections_max} clients");
    }
    let redis = startup::build(config)?;
    redis.state.settings.on_log_level(move |level| {
        // It fails only when the subscriber is gone.
        let _ = logging.reload(filter(level));
    });
    let state = Arc::clone(&redis.state);
    on_hangup(move || match reload(&state, &flags) {
        Ok(restart) if restart.is_empty() => tracing::info!("configuration reloaded"),
        Ok(restart) => {
            let settings = restart.join(", ");
            tracing::warn!("configuration reloaded; a restart is needed to change {settings}");
        }
        Err(error) => tracing::error!("configuration not reloaded: {error:#}"),
    })?;
    for address in redis.server.local_addrs() {
        tracing::info!("listening on {address}");
    }
    let report = redis.server.run()?;
    if report.abandoned > 0 {
        tracing::warn!(report.abandoned, "stopped before everything was answered");
    }
    Ok(())
}

fn filter(level: LogLevel) -> LevelFilter {
    LevelFilter::from_level(level.into())
}
