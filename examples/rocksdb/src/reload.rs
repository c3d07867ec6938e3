//! Reading the configuration again while the server runs.

use psp_program::Log;
use psp_server::ServerHandle;
use psp_server::reload::differences;

use crate::config::{Config, Flags};

/// Takes over what may change, and returns the settings that would need a restart. `started` is what the
/// server was started with, `flags` say where the file is.
///
/// # Errors
/// When the file cannot be read, or what it says does not fit; nothing has changed then.
pub fn reload(
    started: &Config,
    flags: &Flags,
    server: &ServerHandle,
    log: &Log,
) -> anyhow::Result<Vec<String>> {
    let config = flags.clone().resolve()?;
    server.reload(&config.policy, &config.server)?;
    log.set_level(config.log_level);
    let unchanged = Config {
        policy: config.policy.clone(),
        log_level: config.log_level,
        server: started.server.reloaded(&config.server),
        ..started.clone()
    };
    Ok(differences(&unchanged, &config))
}
