//! The server as a program.

use std::io::IsTerminal;

use clap::Parser;
use mimalloc::MiMalloc;
use psp_redis::config::Flags;
use psp_redis::{descriptors, startup};

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> anyhow::Result<()> {
    let flags = Flags::parse();
    let print_config = flags.print_config;
    let config = flags.resolve()?;
    if print_config {
        print!("{}", toml::to_string(&config)?);
        return Ok(());
    }
    tracing_subscriber::fmt()
        .with_max_level(tracing::Level::from(config.log_level))
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr)
        .init();
    let connections_max = config.server.connections_max;
    let room = descriptors::make_room(connections_max);
    if room < connections_max {
        tracing::warn!("the limit of open files has room for {room} of {connections_max} clients");
    }
    let redis = startup::build(config)?;
    for address in redis.server.local_addrs() {
        tracing::info!("listening on {address}");
    }
    let report = redis.server.run()?;
    if report.abandoned > 0 {
        tracing::warn!(report.abandoned, "stopped before everything was answered");
    }
    Ok(())
}
