//! The server as a program.

use mimalloc::MiMalloc;
use psp_memcached::config::Flags;
use psp_memcached::startup;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> anyhow::Result<()> {
    psp_program::main::<Flags>(|program| {
        let memcached = startup::build(program.config.clone())?;
        program.serve(memcached.server)
    })
}
