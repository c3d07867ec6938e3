//! Reading the configuration again while the server runs.

use anyhow::Context as _;
use psp_server::reload::differences;

use crate::config::{Config, Flags};
use crate::state::ServerState;

/// Takes over what may change, and returns the settings that would need a restart. `flags` say where
/// the file is.
///
/// # Errors
/// When the file cannot be read, or what it says does not fit; nothing has changed then.
pub fn reload(state: &ServerState, flags: &Flags) -> anyhow::Result<Vec<String>> {
    let config = flags.clone().resolve()?;
    let runtime = state
        .runtime
        .get()
        .context("the server is not running yet")?;
    runtime.reload(&config.policy, &config.server)?;
    state.settings.set_log_level(config.log_level);
    let password = config.requirepass.as_deref().unwrap_or_default();
    state.settings.set_password(password.as_bytes());
    let unchanged = Config {
        policy: config.policy.clone(),
        log_level: config.log_level,
        requirepass: config.requirepass.clone(),
        server: state.settings.config.server.reloaded(&config.server),
        ..state.settings.config.clone()
    };
    Ok(differences(&unchanged, &config))
}
