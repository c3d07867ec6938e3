//! The server as a program.

use clap::Parser;
use mimalloc::MiMalloc;
use psp_memcached::config::Flags;
use psp_memcached::startup;

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
    let _log = config.log_level.start_log();
    let memcached = startup::build(config)?;
    psp_program::run(memcached.server)
}
