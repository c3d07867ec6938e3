//! The server program.

use std::process::ExitCode;

use mimalloc::MiMalloc;
use psp_memcached::config::Flags;
use psp_memcached::startup;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    psp_program::main::<Flags>(|program| {
        let memcached = startup::build(program.config.clone())?;
        program.serve(memcached.server)
    })
}
