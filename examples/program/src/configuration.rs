//! The configuration of a program: built-in defaults, then a TOML file, then flags.

use std::ffi::OsString;

use clap::{Args as _, FromArgMatches as _};
use psp_server::Policy;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::LogLevel;
use crate::as_written::as_written;
use crate::config_file;
use crate::flags::FileFlags;

/// The whole configuration of a program. A file may set any part of it. Other settings keep their defaults.
pub trait ProgramConfig: Clone + Default + Serialize + DeserializeOwned + Send + 'static {
    /// The settings that all programs have.
    fn common(&mut self) -> CommonSettings<'_>;

    /// Bytes that the program's data may take, apart from the buffers of connections; 0 if there is no limit, or no
    /// data.
    fn data_bytes(&self) -> u64 {
        0
    }

    /// Checks that settings are within their ranges and do not contradict each other.
    ///
    /// # Errors
    /// Names the wrong setting.
    fn validate(&self) -> anyhow::Result<()> {
        Ok(())
    }
}

/// The settings that all programs have, under the same names.
#[derive(Debug)]
pub struct CommonSettings<'a> {
    pub(crate) log_level: &'a mut LogLevel,
    pub(crate) policy: &'a mut Policy,
    pub(crate) server: &'a mut psp_server::Config,
}

impl<'a> CommonSettings<'a> {
    /// Settings of a program:
    ///
    /// - `log_level`: the least severe messages that are logged
    /// - `policy`: how requests are scheduled
    /// - `server`: workers, topology, connections and buffers
    ///
    /// The file has them under these names.
    pub fn new(log_level: &'a mut LogLevel, policy: &'a mut Policy, server: &'a mut psp_server::Config) -> Self {
        Self { log_level, policy, server }
    }
}

/// The flags of a program. [`CommandLine`] adds the flags about the configuration file.
pub trait ProgramFlags: clap::Parser + Clone + Send + 'static {
    /// The configuration that the flags change.
    type Config: ProgramConfig;

    /// Replaces settings by the flags that were given.
    ///
    /// # Errors
    /// When the program does not support what a flag asks for.
    fn apply_to(self, config: &mut Self::Config) -> anyhow::Result<()>;
}

/// The command line of a program.
#[derive(Debug, Clone)]
pub struct CommandLine<F> {
    pub(crate) file: FileFlags,
    pub(crate) own: F,
}

impl<F: ProgramFlags> CommandLine<F> {
    /// Parses the command line of this process. Ends the process if there are unknown flags, and after it has
    /// [described](psp_manual::described) the program, if that is asked.
    #[must_use]
    pub fn parse() -> Self {
        Self::parse_by(psp_manual::described(Self::command()), std::env::args_os()).unwrap_or_else(|error| error.exit())
    }

    /// Parses `words`, the first of which is the program's name.
    ///
    /// # Errors
    /// When there are unknown flags, or flags that ask for help or the version.
    pub fn try_parse_from(words: impl IntoIterator<Item = impl Into<OsString> + Clone>) -> clap::error::Result<Self> {
        Self::parse_by(Self::command(), words)
    }

    fn command() -> clap::Command {
        // Only the arguments are copied: `augment_args` on the program's command would replace its description.
        let file = FileFlags::augment_args(clap::Command::default());
        psp_manual::take_negative_numbers(F::command().args(file.get_arguments().cloned()))
    }

    fn parse_by(
        mut command: clap::Command,
        words: impl IntoIterator<Item = impl Into<OsString> + Clone>,
    ) -> clap::error::Result<Self> {
        let matches = command.try_get_matches_from_mut(words);
        let matches = matches.map_err(|error| psp_manual::in_words(error, &mut command))?;
        let parsed = FileFlags::from_arg_matches(&matches)
            .and_then(|file| F::from_arg_matches(&matches).map(|own| Self { file, own }));
        parsed.map_err(|error| error.format(&mut command))
    }

    /// The configuration: the file, if there is one, and the flags.
    ///
    /// # Errors
    /// When the file cannot be read, or is not a valid configuration: the error then names the file and the
    /// line. When flags or settings are refused: nothing is allocated before they are checked.
    pub fn resolve(self) -> anyhow::Result<F::Config> {
        let mut config = config_file::read(self.file.config.as_deref())?;
        self.own.apply_to(&mut config)?;
        let checked = config.common().server.validate();
        checked.map_err(|error| as_written::<F>(error.into()))?;
        config.validate()?;
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;
    use crate::testing::Flags;

    #[test]
    fn help_has_the_programs_description_and_the_flags_about_the_file() {
        let help = CommandLine::<Flags>::try_parse_from(["program", "--help"]).unwrap_err();
        let help = help.to_string();
        assert!(help.starts_with("What the program is for"), "{help}");
        assert!(help.contains("--config") && help.contains("--print-config"), "{help}");
        let error = CommandLine::<Flags>::try_parse_from(["program", "--bogus"]).unwrap_err();
        assert!(error.to_string().contains("'--bogus'"));
    }

    #[test]
    fn errors_name_the_flag_or_the_setting_that_was_written() {
        let refused = |file: &str, flags: &[&str]| {
            let mut on_disk = tempfile::NamedTempFile::new().unwrap();
            on_disk.write_all(file.as_bytes()).unwrap();
            let path = on_disk.path().to_str().unwrap().to_owned();
            let words = ["program", "--config", &path];
            let words = words.iter().chain(flags);
            let command_line = CommandLine::<Flags>::try_parse_from(words);
            let resolved = command_line.map_err(Into::into).and_then(CommandLine::resolve);
            format!("{:#}", resolved.unwrap_err())
        };
        for (file, flags, expected) in [
            ("", &["--maxclients", "0"][..], "(--maxclients) is 0, it must be between 1 and"),
            ("server.connections-max = 0", &[], "server.connections-max (--maxclients) is 0"),
            ("[server]\nqueue-capacity = 0", &[], "server.queue-capacity is 0"),
            ("", &["--maxclients", "-5"], "'-5' is out of range for '--maxclients <MAXCLIENTS>'"),
            ("", &["--maxclients=-5"], "'-5' is out of range for '--maxclients <MAXCLIENTS>'"),
            ("", &["--maxclients", "x"], "invalid value 'x' for '--maxclients <MAXCLIENTS>'"),
            ("", &["-5"], "unexpected argument '-5'"),
        ] {
            let message = refused(file, flags);
            assert!(message.contains(expected), "{file} {flags:?}: {message}");
        }
    }
}
