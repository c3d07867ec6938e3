//! The server as a program.

use std::sync::Arc;

use clap::Parser;
use mimalloc::MiMalloc;
use psp_memcached::config::Flags;
use psp_memcached::reload::reload;
use psp_memcached::startup;

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
    let memcached = startup::build(config)?;
    let state = Arc::clone(&memcached.state);
    psp_program::reload_on_hangup(move || reload(&state, &flags, |level| log.set_level(level)))?;
    psp_program::run(memcached.server)
}
