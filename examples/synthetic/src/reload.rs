//! Reading the configuration again while the server runs.

use psp_server::ServerHandle;
use psp_server::reload::differences;
use tracing::level_filters::LevelFilter;

use crate::config::{Config, Flags};

/// Takes over what may change, and logs what would need a restart. `started` is what the server was
/// started with, `flags` say where the file is.
///
/// # Errors
/// When the file cannot be read, or what it says does not fit; nothing has changed then.
pub fn reload(
    started: &Config,
    flags: &Flags,
    server: &ServerHandle,
    set_log_level: impl FnOnce(LevelFilter),
) -> anyhow::Result<()> {
    let config = flags.clone().resolve()?;
    server.reload(&config.policy, &config.server)?;
    set_log_level(config.log_level()?);
    let unchanged = Config {
        policy: config.policy.clone(),
        log_level: config.log_level.clone(),
        server: started.server.reloaded(&config.server),
        ..started.clone()
    };
    tracing::info!(policy = config.policy.spelled(), "configuration reloaded");
    let restart = differences(&unchanged, &config);
    if !restart.is_empty() {
        tracing::warn!("needs a restart to change: {}", restart.join(", "));
    }
    Ok(())
}
