//! The server program.

use std::env;
use std::process::ExitCode;

use psp_memcached::config::Config;
use psp_memcached::startup;
use psp_program::{CommandLine, LogLevel, detach};
use tikv_jemallocator::Jemalloc;

#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

/// What jemalloc reads before its first allocation: text that ends in a zero. A large value takes no page more than it
/// has bytes for, by which its start could vary.
// SAFETY: jemalloc has this name for a pointer to such a text, as a reference to an array is, and no other code has it.
#[allow(unsafe_code)]
#[unsafe(export_name = "_rjem_malloc_conf")]
static SETTINGS: &[u8; 22] = b"cache_oblivious:false\0";

fn main() -> ExitCode {
    match detach(in_background) {
        Ok(true) => return ExitCode::SUCCESS,
        Ok(false) => {}
        Err(error) => return psp_program::end(|| Err(error)),
    }
    psp_program::main::<Config>(|program| {
        let memcached = startup::build(program.config.clone())?;
        let state = memcached.state;
        program.serve_and_reload(memcached.server, move |started, config| {
            startup::reload_passwords(&state, config);
            startup::reload_certificates(&state, started, config);
        })
    })
}

/// Whether the log of a server in the background goes nowhere, as in memcached without `-v`; `None` if none is asked for.
fn in_background() -> Option<bool> {
    let config = CommandLine::<Config>::try_parse_from(env::args_os()).ok()?.resolve().ok()?;
    config.daemon.then_some(!matches!(config.log_level, LogLevel::Debug | LogLevel::Trace))
}
