//! Reading the configuration again on SIGHUP.

use psp_server::reload::on_hangup;

/// Calls `reload` for every SIGHUP and logs how it went. It takes over what may change, and returns the
/// settings that would need a restart.
///
/// # Errors
/// When the signal handler or its thread cannot be installed.
pub fn reload_on_hangup(
    mut reload: impl FnMut() -> anyhow::Result<Vec<String>> + Send + 'static,
) -> anyhow::Result<()> {
    on_hangup(move || match reload() {
        Ok(restart) if restart.is_empty() => tracing::info!("configuration reloaded"),
        Ok(restart) => {
            let settings = restart.join(", ");
            tracing::warn!("configuration reloaded; a restart is needed to change {settings}");
        }
        Err(error) => tracing::error!("configuration not reloaded: {error:#}"),
    })?;
    Ok(())
}
