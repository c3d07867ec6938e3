//! Configuration files, and flags that take precedence over them.

use std::path::Path;

use anyhow::Context as _;
use serde::de::DeserializeOwned;

/// The configuration in `file`, or the default without one.
///
/// # Errors
/// When the file cannot be read or says what the program does not understand; names the file and the
/// line.
pub fn read<C: DeserializeOwned + Default>(file: Option<&Path>) -> anyhow::Result<C> {
    let Some(file) = file else {
        return Ok(C::default());
    };
    let name = file.display();
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("cannot read the configuration file {name}"))?;
    // The error of the parser shows line and column.
    toml::from_str(&text).with_context(|| format!("in the configuration file {name}"))
}

/// Puts the value of a flag, if it was given, in place of a setting.
pub fn replace<T>(setting: &mut T, flag: Option<T>) {
    if let Some(value) = flag {
        *setting = value;
    }
}
