//! Reading the configuration again while the server runs.

use anyhow::Context as _;
use psp_program::LogLevel;
use psp_server::reload::differences;

use crate::config::{Config, Flags};
use crate::state::ServerState;

/// Takes over what may change, and returns the settings that would need a restart. `flags` say where
/// the file is.
///
/// # Errors
/// When the file cannot be read, or what it says does not fit; nothing has changed then.
pub fn reload(
    state: &ServerState,
    flags: &Flags,
    set_log_level: impl FnOnce(LogLevel),
) -> anyhow::Result<Vec<String>> {
    let config = flags.clone().resolve()?;
    let runtime = state
        .runtime
        .get()
        .context("the server is not running yet")?;
    runtime.reload(&config.policy, &config.server)?;
    set_log_level(config.log_level);
    let unchanged = Config {
        policy: config.policy.clone(),
        log_level: config.log_level,
        server: state.config.server.reloaded(&config.server),
        ..state.config.clone()
    };
    Ok(differences(&unchanged, &config))
}
