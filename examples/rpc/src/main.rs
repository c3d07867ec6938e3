//! The server as a program.

use std::process::ExitCode;

use psp_rpc::config::Config;
use psp_rpc::startup;
use tikv_jemallocator::Jemalloc;

#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> ExitCode {
    psp_program::main::<Config>(|program| {
        let server = startup::build(program.config.clone())?;
        program.serve(server)
    })
}
