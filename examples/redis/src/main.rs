//! The server as a program.

use std::sync::Arc;

use clap::Parser;
use mimalloc::MiMalloc;
use psp_redis::config::Flags;
use psp_redis::reload::reload;
use psp_redis::startup;

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
    psp_program::reload_on_hangup(move || reload(&state, &flags))?;
    psp_program::run(redis.server)
}
