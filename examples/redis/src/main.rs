//! The server as a program.

use clap::Parser;
use mimalloc::MiMalloc;
use psp_redis::config::Flags;
use psp_redis::startup;

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
    config.log_level.start_log();
    let redis = startup::build(config)?;
    psp_program::run(redis.server)
}
