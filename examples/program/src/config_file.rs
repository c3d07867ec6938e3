//! Configuration files, and flags that take precedence over them.

use std::path::Path;

use psp_server::internal::server_over;
use psp_server::settings;
use toml::Table;

use crate::configuration::ProgramConfig;

/// The configuration in `file`, or the default without one.
///
/// # Errors
/// When the file cannot be read, or is not a valid configuration. The error names the file and the line.
pub(crate) fn read<C: ProgramConfig>(file: Option<&Path>) -> anyhow::Result<C> {
    let Some(file) = file else {
        return Ok(C::default());
    };
    parse(&settings::read(file)?, Some(file))
}

fn parse<C: ProgramConfig>(text: &str, file: Option<&Path>) -> anyhow::Result<C> {
    let mut config: C = settings::parse(text, file)?;
    let named: Table = settings::parse(text, file)?;
    // serde has filled in psp-server's defaults for settings that `[server]` does not name. The program may
    // have others.
    let server = config.common().server;
    *server = server_over(C::default().common().server, &named, server);
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
        let config: Config = parse("[server]\nworkers = 3\nspin_us = 7", None).unwrap();
        let expected = Config::default().server.workers(3).spin_us(7);
        assert_ne!(expected.connections_max, psp_server::Config::default().connections_max);
        assert_eq!(config.server, expected);
        assert_eq!(parse::<Config>("", None).unwrap(), Config::default());
    }

    #[test]
    fn errors_name_the_line_of_an_unknown_setting() {
        for (text, line) in [("port = 1\nprot = 2", "line 2"), ("\n[server]\nworker = 2", "line 3")] {
            let error = format!("{:#}", parse::<Config>(text, None).unwrap_err());
            assert!(error.contains(line), "{error}");
        }
    }
}
