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
    let mut unchanged = Config {
        policy: config.policy.clone(),
        log_level: config.log_level,
        ..started.clone()
    };
    unchanged.server.connections_max = config.server.connections_max;
    unchanged.server.idle_timeout_s = config.server.idle_timeout_s;
    Ok(differences(&unchanged, &config))
}
