//! The server as a program.

use clap::Parser;
use psp_server::reload::on_hangup;
use psp_synthetic::config::Flags;
use psp_synthetic::{admin, reload, startup};
use tracing_subscriber::prelude::*;

fn main() -> anyhow::Result<()> {
    let flags = Flags::parse();
    let config = flags.clone().resolve()?;
    if flags.print_config {
        print!("{}", toml::to_string(&config)?);
        return Ok(());
    }
    let (level, log_level) = tracing_subscriber::reload::Layer::new(config.log_level()?);
    tracing_subscriber::registry()
        .with(level)
        .with(tracing_subscriber::fmt::layer().with_writer(std::io::stderr))
        .init();
    let server = startup::build(config.clone())?;
    let handle = server.handle();
    if let Some(address) = config.admin {
        let address = admin::listen(address, handle.clone())?;
        tracing::info!(%address, "ready for admin commands");
    }
    let running = handle.clone();
    on_hangup(move || {
        let set_log_level = |level| {
            // It fails only when the subscriber is gone.
            let _ = log_level.reload(level);
        };
        if let Err(error) = reload::reload(&config, &flags, &running, set_log_level) {
            tracing::error!("configuration not reloaded: {error:#}");
        }
    })?;
    for address in server.local_addrs() {
        tracing::info!(%address, policy = handle.policy().spelled(), "ready for requests");
    }
    let report = server.run()?;
    for ty in handle.snapshot().types {
        tracing::info!(
            ty.name,
            ty.completions,
            ty.rejections,
            ty.turns.turns,
            ty.turns.preemptions_asked,
            ty.turns.preemptions_honoured,
            ty.turns.preemptions_late,
            "served"
        );
    }
    if report.abandoned > 0 {
        tracing::warn!(report.abandoned, "stopped before everything was answered");
    }
    Ok(())
}
