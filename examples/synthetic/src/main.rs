//! The server as a program.

use clap::Parser;
use psp_synthetic::config::Flags;
use psp_synthetic::startup;

fn main() -> anyhow::Result<()> {
    let flags = Flags::parse();
    let print_config = flags.print_config;
    let config = flags.resolve()?;
    if print_config {
        print!("{}", toml::to_string(&config)?);
        return Ok(());
    }
    tracing_subscriber::fmt()
        .with_max_level(config.log_level()?)
        .with_writer(std::io::stderr)
        .init();
    let server = startup::build(config)?;
    for address in server.local_addrs() {
        tracing::info!(%address, policy = server.handle().policy().spelled(), "ready for requests");
    }
    let report = server.run()?;
    if report.abandoned > 0 {
        tracing::warn!(report.abandoned, "stopped before everything was answered");
    }
    Ok(())
}
