//! The server program.

use std::process::ExitCode;

use psp_memcached::config::Flags;
use psp_memcached::startup;
use tikv_jemallocator::Jemalloc;

#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> ExitCode {
    psp_program::main::<Flags>(|program| {
        let memcached = startup::build(program.config.clone())?;
        program.serve(memcached.server)
    })
}
