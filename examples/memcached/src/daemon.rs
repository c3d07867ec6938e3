//! `-d`, a server in the background, and `-P`, the file with its process id.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{self, Command, Stdio};

use anyhow::Context as _;
use psp_program::{CommandLine, LogLevel};

use crate::config::Config;

/// Tells the process that it is the one in the background.
const IN_BACKGROUND: &str = "PSP_MEMCACHED_IN_BACKGROUND";

/// Starts the server in the background, if the command line asks for that. Returns whether it has: this process is then
/// done. The one in the background has no terminal, and its log goes nowhere unless it has `-v`, as in memcached.
///
/// # Errors
/// The process cannot be started.
pub fn detach() -> anyhow::Result<bool> {
    if env::var_os(IN_BACKGROUND).is_some() {
        // It fails where the process leads a session already.
        let _leads = rustix::process::setsid();
        return Ok(false);
    }
    // What is wrong with the command line is said later.
    let config = CommandLine::<Config>::try_parse_from(env::args_os()).map(CommandLine::resolve);
    let Ok(Ok(config)) = config else {
        return Ok(false);
    };
    if !config.daemon {
        return Ok(false);
    }
    let mut command = Command::new(env::current_exe().context("where is this program?")?);
    command.args(env::args_os().skip(1)).env(IN_BACKGROUND, "1");
    command.stdin(Stdio::null());
    if !matches!(config.log_level, LogLevel::Debug | LogLevel::Trace) {
        command.stdout(Stdio::null()).stderr(Stdio::null());
    }
    command.spawn().context("cannot start in the background")?;
    Ok(true)
}

/// A file with this process's id. It goes when this value is dropped.
#[derive(Debug)]
pub struct PidFile {
    path: PathBuf,
}

impl PidFile {
    /// Writes the file.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(path: &Path) -> anyhow::Result<Self> {
        fs::write(path, format!("{}\n", process::id()))
            .with_context(|| format!("cannot write the file of the process id {}", path.display()))?;
        Ok(Self { path: path.to_owned() })
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        let _gone = fs::remove_file(&self.path);
    }
}
