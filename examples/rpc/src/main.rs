//! The server as a program.

use std::process::ExitCode;

use mimalloc::MiMalloc;
use psp_rpc::config::Flags;
use psp_rpc::startup;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    psp_program::main::<Flags>(|program| {
        let server = startup::build(program.config.clone())?;
        program.serve(server)
    })
}
