//! Configuration files, and flags that take precedence over them.

use std::path::Path;

use anyhow::Context as _;
use toml::{Table, Value};

use crate::configuration::ProgramConfig;

/// The configuration in `file`, or the default without one.
///
/// # Errors
/// When the file cannot be read, or is not a valid configuration. The error names the file and the line.
pub(crate) fn read<C: ProgramConfig>(file: Option<&Path>) -> anyhow::Result<C> {
    let Some(file) = file else {
        return Ok(C::default());
    };
    let name = file.display();
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("cannot read the configuration file {name}"))?;
    parse(&text).with_context(|| format!("in the configuration file {name}"))
}

fn parse<C: ProgramConfig>(text: &str) -> anyhow::Result<C> {
    // The parser's error shows line and column.
    let mut config: C = toml::from_str(text)?;
    // serde has filled in psp-server's defaults for settings that `[server]` does not name. The program may
    // have others.
    if let Some(Value::Table(named)) = text.parse::<Table>()?.remove("server") {
        let mut server = Table::try_from(C::default().common().server)?;
        server.extend(named);
        *config.common().server = server.try_into()?;
    }
    Ok(config)
}

/// Replaces a setting by the value of a flag, if the flag was given.
pub fn replace<T>(setting: &mut T, flag: Option<T>) {
    if let Some(value) = flag {
        *setting = value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Config;

    #[test]
    fn settings_that_a_file_does_not_name_keep_the_programs_defaults() {
        let config: Config = parse("[server]\nworkers = 3\nspin_us = 7").unwrap();
        let expected = Config::default().server.workers(3).spin_us(7);
        assert_ne!(
            expected.connections_max,
            psp_server::Config::default().connections_max
        );
        assert_eq!(config.server, expected);
        assert_eq!(parse::<Config>("").unwrap(), Config::default());
    }

    #[test]
    fn errors_name_the_line_of_an_unknown_setting() {
        for (text, line) in [
            ("port = 1\nprot = 2", "line 2"),
            ("\n[server]\nworker = 2", "line 3"),
        ] {
            let error = format!("{:#}", parse::<Config>(text).unwrap_err());
            assert!(error.contains(line), "{error}");
        }
    }
}
