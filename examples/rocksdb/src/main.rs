//! The server as a program.

use clap::Parser;
use mimalloc::MiMalloc;
use psp_rocksdb::config::Flags;
use psp_rocksdb::reload::reload;
use psp_rocksdb::startup;
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
    let server = startup::build(config.clone())?;
    let handle = server.handle();
    on_hangup(move || match reload(&config, &flags, &handle, &log) {
        Ok(restart) if restart.is_empty() => tracing::info!("configuration reloaded"),
        Ok(restart) => {
            let settings = restart.join(", ");
            tracing::warn!("configuration reloaded; a restart is needed to change {settings}");
        }
        Err(error) => tracing::error!("configuration not reloaded: {error:#}"),
    })?;
    psp_program::run(server)
}
