//! The server program.

#[cfg(not(feature = "system-allocator"))]
mod allocator;

use std::env;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use psp_program::{CommandLine, detach};
use psp_redis::config::Config;
use psp_redis::redis_conf;
use psp_redis::startup;

fn main() -> ExitCode {
    #[cfg(not(feature = "system-allocator"))]
    allocator::begin();
    let words = redis_conf::as_flags(env::args_os().collect());
    match detach(|| in_background(words.as_ref().ok()?)) {
        Ok(true) => return ExitCode::SUCCESS,
        Ok(false) => {}
        Err(error) => return psp_program::end(|| Err(error)),
    }
    psp_program::main_of::<Config>(
        |_given| words,
        |program| {
            let redis = startup::build(program.config.clone())?;
            let state = Arc::clone(&redis.state);
            let log = program.log.clone();
            state.settings.on_log_level(move |level| log.set_level(level));
            let tls = redis.tls;
            let served = program.serve_and_reload(redis.server, move |started, config| {
                state.take_over(started, config);
                if let Some(tls) = &tls {
                    startup::reload_certificates(tls, started, config);
                }
            });
            // No client is left whose writes could be missing.
            redis.saver.end().and(served)
        },
    )
}

/// That the log of a server in the background goes nowhere but to its file; `None` if none is asked for.
fn in_background(words: &[OsString]) -> Option<bool> {
    let config = CommandLine::<Config>::try_parse_from(words).ok()?.resolve().ok()?;
    // It could not read standard input once more.
    let can_start_again = config.redis_conf.is_none_or(|path| path != Path::new("-"));
    (config.daemonize && can_start_again).then_some(true)
}
