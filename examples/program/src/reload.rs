//! Reading the configuration again when the operator asks for it.

use psp_server::RunError;
use psp_server::reload::on_hangup;

/// Calls `reload` for every SIGHUP, and logs what became of it: the settings that it returns need a
/// restart to change.
///
/// # Errors
/// When the signal handler or its thread cannot be installed.
pub fn reload_on_hangup(
    mut reload: impl FnMut() -> anyhow::Result<Vec<String>> + Send + 'static,
) -> Result<(), RunError> {
    on_hangup(move || match reload() {
        Ok(restart) if restart.is_empty() => tracing::info!("configuration reloaded"),
        Ok(restart) => {
            let settings = restart.join(", ");
            tracing::warn!("configuration reloaded; a restart is needed to change {settings}");
        }
        Err(error) => tracing::error!("configuration not reloaded: {error:#}"),
    })
}
