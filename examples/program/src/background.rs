//! A server in the background, and the file with its process id.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{self, Command, Stdio};

use anyhow::Context as _;

/// Tells the process that it is the one in the background.
const IN_BACKGROUND: &str = "PSP_IN_BACKGROUND";

/// Starts this program again in the background, with the same command line. Returns whether it has: this process is then
/// done. The process in the background has no terminal. `quiet` is whether its log goes nowhere, or `None` if the command
/// line does not ask for the background; what is wrong with it is said later.
///
/// # Errors
/// The process cannot be started.
pub fn detach(quiet: impl FnOnce() -> Option<bool>) -> anyhow::Result<bool> {
    if env::var_os(IN_BACKGROUND).is_some() {
        // It fails where the process leads a session already.
        let _leads = rustix::process::setsid();
        return Ok(false);
    }
    let Some(is_quiet) = quiet() else {
        return Ok(false);
    };
    let mut command = Command::new(env::current_exe().context("where is this program?")?);
    command.args(env::args_os().skip(1)).env(IN_BACKGROUND, "1");
    command.stdin(Stdio::null());
    if is_quiet {
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
