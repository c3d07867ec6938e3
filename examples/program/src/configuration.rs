//! What programs are started with: built-in defaults, then a TOML file, then flags.

use std::ffi::OsString;

use clap::{Args as _, FromArgMatches as _};
use psp_server::Policy;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::LogLevel;
use crate::config_file;
use crate::flags::FileFlags;

/// The whole configuration of a program. A file sets any part of it; what it does not name keeps its
/// default.
pub trait ProgramConfig: Clone + Default + Serialize + DeserializeOwned + Send + 'static {
    /// The settings that every program has.
    fn common(&mut self) -> CommonSettings<'_>;

    /// Refuses settings that are out of their range or contradict each other.
    ///
    /// # Errors
    /// Names the setting.
    fn validate(&self) -> anyhow::Result<()> {
        Ok(())
    }
}

/// Settings of a program that every other has, too, under the same names.
#[derive(Debug)]
pub struct CommonSettings<'a> {
    pub(crate) log_level: &'a mut LogLevel,
    pub(crate) policy: &'a mut Policy,
    pub(crate) server: &'a mut psp_server::Config,
}

impl<'a> CommonSettings<'a> {
    /// The least severe messages that are logged; how requests are scheduled; workers, topology,
    /// connections and buffers: `log_level`, `policy` and `server` of the file.
    pub fn new(
        log_level: &'a mut LogLevel,
        policy: &'a mut Policy,
        server: &'a mut psp_server::Config,
    ) -> Self {
        Self {
            log_level,
            policy,
            server,
        }
    }
}

/// The flags of a program that are its own. Its [`CommandLine`] has those about the file besides.
pub trait ProgramFlags: clap::Parser + Clone + Send + 'static {
    /// What they are flags for.
    type Config: ProgramConfig;

    /// Puts what was given in place of the settings.
    ///
    /// # Errors
    /// When something is asked for that the program does not do.
    fn apply_to(self, config: &mut Self::Config) -> anyhow::Result<()>;
}

/// What a program is called with.
#[derive(Debug, Clone)]
pub struct CommandLine<F> {
    pub(crate) file: FileFlags,
    pub(crate) own: F,
}

impl<F: ProgramFlags> CommandLine<F> {
    /// That of this process. Flags that nobody understands end it.
    #[must_use]
    pub fn parse() -> Self {
        Self::try_parse_from(std::env::args_os()).unwrap_or_else(|error| error.exit())
    }

    /// That of `words`, the first of which is the program's name.
    ///
    /// # Errors
    /// When there are flags that nobody understands, or that ask for help or the version.
    pub fn try_parse_from(
        words: impl IntoIterator<Item = impl Into<OsString> + Clone>,
    ) -> clap::error::Result<Self> {
        // The arguments alone: `augment_args` on the program's own command would replace what it says of itself.
        let file = FileFlags::augment_args(clap::Command::default());
        let mut command = F::command().args(file.get_arguments().cloned());
        let matches = command.try_get_matches_from_mut(words)?;
        let parsed = FileFlags::from_arg_matches(&matches)
            .and_then(|file| F::from_arg_matches(&matches).map(|own| Self { file, own }));
        parsed.map_err(|error| error.format(&mut command))
    }

    /// The configuration that the file, if there is one, and the flags make.
    ///
    /// # Errors
    /// When the file cannot be read or says what the program does not understand, which names the file
    /// and the line; when flags or settings are refused.
    pub fn resolve(self) -> anyhow::Result<F::Config> {
        let mut config = config_file::read(self.file.config.as_deref())?;
        self.own.apply_to(&mut config)?;
        config.validate()?;
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Flags;

    #[test]
    fn help_says_what_the_program_is_for_and_has_the_flags_about_the_file() {
        let help = CommandLine::<Flags>::try_parse_from(["program", "--help"]).unwrap_err();
        let help = help.to_string();
        assert!(help.starts_with("What the program is for"), "{help}");
        assert!(
            help.contains("--config") && help.contains("--print-config"),
            "{help}"
        );
        let error = CommandLine::<Flags>::try_parse_from(["program", "--bogus"]).unwrap_err();
        assert!(error.to_string().contains("'--bogus'"));
    }
}
