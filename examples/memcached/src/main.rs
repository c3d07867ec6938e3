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
        let tls = memcached.tls;
        program.serve_and_reload(memcached.server, move |started, config| {
            if let Some(tls) = &tls {
                startup::reload_certificates(tls, started, config);
            }
        })
    })
}
