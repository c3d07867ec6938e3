//! Manual pages and completions of programs, from their command lines.
//!
//! Each program has two flags more, which it obeys instead of doing its work:
//!
//! ```sh
//! psp-redis --manual /usr/local/share/man/man1
//! psp-redis --completions bash > /etc/bash_completion.d/psp-redis
//! ```
//!
//! Packages run them when they are built. What they write is of the same build as the program.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::exit;

use clap::{ArgMatches, Args as _, Command, FromArgMatches as _, Parser};
use clap_complete::Shell;

mod numbers;

pub use numbers::{in_words, take_negative_numbers};

const HEADING: &str = "Installation";

/// Flags for packages.
#[derive(Debug, Clone, Default, PartialEq, Eq, clap::Args)]
#[command(next_help_heading = HEADING)]
struct Flags {
    /// Write the manual pages into this folder and exit.
    #[arg(long, value_name = "FOLDER", exclusive = true)]
    manual: Option<PathBuf>,
    /// Print the completions of a shell and exit.
    #[arg(long, value_name = "SHELL", exclusive = true)]
    completions: Option<Shell>,
}

/// Adds the flags to the command line of a program. Obeys them and ends the process if its command line has one.
#[must_use]
pub fn described(command: Command) -> Command {
    let mut command = take_negative_numbers(with_flags(command));
    match asked(&command, std::env::args_os()).and_then(|flags| flags.obey(&mut command)) {
        None => command,
        Some(Ok(())) => exit(0),
        Some(Err(error)) => {
            eprintln!("Error: {error}");
            exit(1)
        }
    }
}

/// Parses the command line of this process, which has the [flags](described), too. Ends the process where it is wrong.
#[must_use]
pub fn parse<P: Parser>() -> P {
    P::from_arg_matches(&matches(P::command())).unwrap_or_else(|error| error.format(&mut P::command()).exit())
}

/// As [`parse`], for a program that looks at the matches itself.
#[must_use]
pub fn matches(command: Command) -> ArgMatches {
    let mut command = described(command);
    let matches = command.try_get_matches_from_mut(std::env::args_os());
    matches.unwrap_or_else(|error| in_words(error, &mut command).exit())
}

fn with_flags(command: Command) -> Command {
    // Only the arguments are copied: `augment_args` on the program's command would replace its description.
    let flags = Flags::augment_args(Command::default());
    command.args(flags.get_arguments().cloned())
}

/// What a command line asks for. `None` if it is wrong, which the program says itself.
fn asked(command: &Command, words: impl IntoIterator<Item = OsString>) -> Option<Flags> {
    // A program that needs a subcommand needs none to describe itself.
    let command = command.clone().subcommand_required(false);
    let matches = command.arg_required_else_help(false);
    let matches = matches.try_get_matches_from(words).ok()?;
    Flags::from_arg_matches(&matches).ok()
}

impl Flags {
    /// `None` if there is nothing to do.
    fn obey(self, command: &mut Command) -> Option<io::Result<()>> {
        match (self.manual, self.completions) {
            (Some(folder), _) => Some(write_manual(command, &folder)),
            (None, Some(shell)) => Some(io::stdout().write_all(&completions(command, shell))),
            (None, None) => None,
        }
    }
}

/// Writes the page of the command, and one for each subcommand.
fn write_manual(command: &Command, folder: &Path) -> io::Result<()> {
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", folder.display()));
    std::fs::create_dir_all(folder).map_err(named)?;
    clap_mangen::generate_to(command.clone(), folder).map_err(named)
}

fn completions(command: &mut Command, shell: Shell) -> Vec<u8> {
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(shell, command, name, &mut script);
    script
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    /// Serves nothing.
    #[derive(Debug, Parser)]
    #[command(name = "program")]
    struct Program {
        #[command(subcommand)]
        _work: Work,
    }

    #[derive(Debug, clap::Subcommand)]
    enum Work {
        /// Count something
        Count {
            /// How often
            #[arg(long)]
            times: u32,
        },
    }

    fn command() -> Command {
        with_flags(Program::command())
    }

    fn asks(words: &[&str]) -> Option<Flags> {
        let words = ["program"].iter().chain(words);
        asked(&command(), words.map(OsString::from))
    }

    #[test]
    fn the_command_line_is_consistent_and_still_needs_its_subcommand() {
        command().debug_assert();
        let refused = command().try_get_matches_from(["program"]).unwrap_err();
        assert!(refused.to_string().contains("count"), "{refused}");
        assert_eq!(asks(&["count", "--times", "1"]), Some(Flags::default()), "nothing for packages");
    }

    #[test]
    fn the_flags_stand_alone_and_need_no_subcommand() {
        let flags = asks(&["--completions", "bash"]).expect("a right command line");
        assert_eq!(flags.completions, Some(Shell::Bash));
        let flags = asks(&["--manual", "pages"]).expect("a right command line");
        assert_eq!(flags.manual.as_deref(), Some(Path::new("pages")));
        assert_eq!(asks(&["--manual", "pages", "--completions", "bash"]), None);
        assert_eq!(asks(&["--completions", "dos"]), None);
    }

    #[test]
    fn there_is_a_page_for_the_program_and_for_each_subcommand() {
        let folder = tempfile::tempdir().unwrap();
        let pages = folder.path().join("man1");
        let flags = Flags { manual: Some(pages.clone()), ..Flags::default() };
        flags.obey(&mut command()).expect("it is asked").unwrap();
        let page = |name: &str| std::fs::read_to_string(pages.join(name)).unwrap();
        let (program, count) = (page("program.1"), page("program-count.1"));
        assert!(program.contains("Serves nothing") && program.contains("completions"));
        assert!(count.contains("How often"), "{count}");
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = write_manual(&command(), file.path()).unwrap_err();
        let name = file.path().display().to_string();
        assert!(error.to_string().starts_with(&name), "{error}");
    }

    #[test]
    fn completions_know_the_flags_of_subcommands() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let script = String::from_utf8(completions(&mut command(), shell)).unwrap();
            assert!(script.contains("times"), "{shell}: {script}");
        }
    }
}
