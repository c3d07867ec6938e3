//! The configuration of a program: built-in defaults, then a TOML file, then flags.

use std::ffi::OsString;
use std::marker::PhantomData;
use std::path::Path;

use clap::builder::Resettable;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args as _, FromArgMatches as _};
use psp_server::Policy;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::LogLevel;
use crate::as_written::as_written;
use crate::config_file;
use crate::flags::{FileFlags, ServerFlags};

/// The whole configuration of a program: each setting is the key of a file and, where it has an `arg`, a flag. A file
/// and flags may set any part of it. Other settings keep their defaults.
///
/// Settings without a flag are `#[arg(skip)]`, flags that no file has `#[serde(skip)]`.
pub trait ProgramConfig: clap::Parser + Clone + Default + Serialize + DeserializeOwned + Send + 'static {
    /// The settings that all programs have.
    fn common(&mut self) -> CommonSettings<'_>;

    /// Changes the flags that all programs have, where this one names or explains them otherwise.
    #[must_use]
    fn adapt(command: clap::Command) -> clap::Command {
        command
    }

    /// Derives settings from others, after file and flags are read: those that a flag without a key stands for.
    ///
    /// # Errors
    /// When the program does not support what a flag asks for.
    fn settle(&mut self) -> anyhow::Result<()> {
        Ok(())
    }

    /// Bytes that the program's data may take, apart from the buffers of connections; 0 if there is no limit, or no
    /// data.
    fn data_bytes(&self) -> u64 {
        0
    }

    /// The file that has the log in the place of standard error.
    fn log_file(&self) -> Option<&Path> {
        None
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

/// Replaces settings by the flags that were given.
///
/// # Errors
/// When `given` is not of the configuration's command.
pub fn replace_by_flags<C: clap::FromArgMatches>(config: &mut C, mut given: ArgMatches) -> clap::error::Result<()> {
    // A switch that was not given has a value, too.
    let defaults = given
        .ids()
        .filter(|id| given.value_source(id.as_str()) == Some(ValueSource::DefaultValue));
    for id in defaults.cloned().collect::<Vec<_>>() {
        given.try_clear_id(id.as_str()).expect("an id of these matches");
    }
    config.update_from_arg_matches(&given)
}

/// The command line of a program: the flags of its configuration, those that all programs have, and those about the
/// file.
#[derive(Debug, Clone)]
pub struct CommandLine<C> {
    pub(crate) file: FileFlags,
    server: ServerFlags,
    given: ArgMatches,
    config: PhantomData<C>,
}

impl<C: ProgramConfig> CommandLine<C> {
    /// Parses `words`, the first of which is the program's name. Ends the process if there are unknown flags, and after
    /// it has [described](psp_manual::described) the program, if that is asked.
    #[must_use]
    pub fn parse(words: Vec<OsString>) -> Self {
        Self::parse_by(psp_manual::described(Self::command()), words).unwrap_or_else(|error| error.exit())
    }

    /// Parses `words`, the first of which is the program's name.
    ///
    /// # Errors
    /// When there are unknown flags, or flags that ask for help or the version.
    pub fn try_parse_from(words: impl IntoIterator<Item = impl Into<OsString> + Clone>) -> clap::error::Result<Self> {
        Self::parse_by(Self::command(), words)
    }

    /// The command with all flags.
    #[must_use]
    pub fn command() -> clap::Command {
        let command = C::command_for_update().next_help_heading(Resettable::Reset);
        // The flags' description would replace the program's.
        let about = Resettable::from(command.get_about().cloned());
        let long_about = Resettable::from(command.get_long_about().cloned());
        let command = ServerFlags::augment_args(command).about(about).long_about(long_about);
        // Only the arguments are copied, which stand among the first then.
        let file = FileFlags::augment_args(clap::Command::default());
        psp_manual::take_negative_numbers(C::adapt(command).args(file.get_arguments().cloned()))
    }

    fn parse_by(
        mut command: clap::Command,
        words: impl IntoIterator<Item = impl Into<OsString> + Clone>,
    ) -> clap::error::Result<Self> {
        let matches = command.try_get_matches_from_mut(words);
        let given = matches.map_err(|error| psp_manual::in_words(error, &mut command))?;
        let parsed = FileFlags::from_arg_matches(&given)
            .and_then(|file| ServerFlags::from_arg_matches(&given).map(|server| (file, server)));
        let (file, server) = parsed.map_err(|error| error.format(&mut command))?;
        Ok(Self { file, server, given, config: PhantomData })
    }

    /// The configuration: the file, if there is one, and the flags.
    ///
    /// # Errors
    /// When the file cannot be read, or is not a valid configuration: the error then names the file and the
    /// line. When flags or settings are refused: nothing is allocated before they are checked.
    pub fn resolve(self) -> anyhow::Result<C> {
        let mut config: C = config_file::read(self.file.config.as_deref())?;
        replace_by_flags(&mut config, self.given)?;
        self.server.apply_to(config.common());
        config.settle()?;
        let checked = config.common().server.validate();
        checked.map_err(|error| as_written::<C>(error.into()))?;
        config.validate()?;
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;
    use crate::testing::Config;

    #[test]
    fn help_has_the_programs_description_and_the_flags_about_the_file() {
        let help = CommandLine::<Config>::try_parse_from(["program", "--help"]).unwrap_err();
        let help = help.to_string();
        assert!(help.starts_with("What the program is for"), "{help}");
        assert!(help.contains("--config") && help.contains("--print-config"), "{help}");
        let error = CommandLine::<Config>::try_parse_from(["program", "--bogus"]).unwrap_err();
        assert!(error.to_string().contains("'--bogus'"));
    }

    fn resolve(file: &str, flags: &[&str]) -> anyhow::Result<Config> {
        let mut on_disk = tempfile::NamedTempFile::new().unwrap();
        on_disk.write_all(file.as_bytes()).unwrap();
        let words = ["program", "--config", on_disk.path().to_str().unwrap()];
        CommandLine::<Config>::try_parse_from(words.iter().chain(flags))?.resolve()
    }

    #[test]
    fn flags_win_over_the_file_and_those_that_were_not_given_leave_it() {
        for (file, flags, expected) in [
            ("", &[][..], (1, false)),
            ("port = 2\nquiet = true", &[], (2, true)),
            ("port = 2\nquiet = true", &["--port", "3"], (3, true)),
            ("port = 2", &["--quiet"], (2, true)),
        ] {
            let config = resolve(file, flags).unwrap();
            assert_eq!((config.port, config.quiet), expected, "{file} {flags:?}");
        }
    }

    #[test]
    fn errors_name_the_flag_or_the_setting_that_was_written() {
        for (file, flags, expected) in [
            ("", &["--maxclients", "0"][..], "(--maxclients) is 0, it must be between 1 and"),
            ("server.connections-max = 0", &[], "server.connections-max (--maxclients) is 0"),
            ("[server]\nqueue-capacity = 0", &[], "server.queue-capacity is 0"),
            ("", &["--maxclients", "-5"], "'-5' is out of range for '--maxclients <MAXCLIENTS>'"),
            ("", &["--maxclients=-5"], "'-5' is out of range for '--maxclients <MAXCLIENTS>'"),
            ("", &["--maxclients", "x"], "invalid value 'x' for '--maxclients <MAXCLIENTS>'"),
            ("", &["-5"], "unexpected argument '-5'"),
        ] {
            let message = format!("{:#}", resolve(file, flags).unwrap_err());
            assert!(message.contains(expected), "{file} {flags:?}: {message}");
        }
    }
}
