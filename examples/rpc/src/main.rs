//! The server as a program.

use clap::Parser;
use mimalloc::MiMalloc;
use psp_program::reload_on_hangup;
use psp_rpc::config::Flags;
use psp_rpc::reload::reload;
use psp_rpc::startup;

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
    reload_on_hangup(move || reload(&config, &flags, &handle, &log))?;
    psp_program::run(server)
}
