//! Errors of psp-server in a program's words: its users write flags and files, and call no builder.

use std::io;

use anyhow::anyhow;
use psp_server::BuildError;
use rustix::io::Errno;

use crate::configuration::{CommandLine, ProgramConfig};
use crate::descriptors;

/// The flags of settings whose flags are called something else.
const RENAMED: [(&str, &[&str]); 2] =
    [("connections_max", &["maxclients", "conn_limit"]), ("idle_timeout_s", &["timeout"])];

/// What programs call the addresses on which they listen.
const ADDRESSES: [&str; 2] = ["bind", "listen"];

/// `error`, where it names a setting as the program's users do: the key in the file, and the flag if there is one.
pub(crate) fn as_written<C: ProgramConfig>(error: anyhow::Error) -> anyhow::Error {
    let command = CommandLine::<C>::command();
    match error.downcast_ref() {
        Some(BuildError::NoAddress) => {
            let is_known = |name: &&str| flag(&command, name).is_some();
            let key = ADDRESSES.into_iter().find(is_known).unwrap_or(ADDRESSES[0]);
            let name = with_flag(&command, key, &[key]);
            anyhow!("{name} is empty: there is no address to listen on")
        }
        Some(BuildError::Setting { setting, value, expected }) => {
            let table = match *setting {
                "unix_mode" => "sockets",
                _ => "server",
            };
            let key = format!("{table}.{}", setting.replace('_', "-"));
            let renamed = RENAMED.iter().find(|(name, _)| name == setting);
            let ids = renamed.map_or(std::slice::from_ref(setting), |(_, ids)| ids);
            let name = with_flag(&command, &key, ids);
            anyhow!("{name} is {value}, it must be {expected}")
        }
        _ if is_out_of_files(&error) => error.context(format!("{}, too low for this server", descriptors::limit())),
        _ => error,
    }
}

/// Whether the process may not open another file.
fn is_out_of_files(error: &anyhow::Error) -> bool {
    let mut causes = error.chain();
    causes.any(|cause| {
        let cause: Option<&io::Error> = cause.downcast_ref();
        cause.and_then(io::Error::raw_os_error) == Some(Errno::MFILE.raw_os_error())
    })
}

/// The flag of a program with this id, as it is written.
fn flag(command: &clap::Command, id: &str) -> Option<String> {
    let mut flags = command.get_arguments();
    let flag = flags.find(|flag| flag.get_id() == id)?;
    Some(format!("--{}", flag.get_long()?))
}

/// `key`, and behind it the first flag that the program has with one of these ids.
fn with_flag(command: &clap::Command, key: &str, ids: &[&str]) -> String {
    match ids.iter().find_map(|id| flag(command, id)) {
        Some(flag) => format!("{key} ({flag})"),
        None => key.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Config;

    #[test]
    fn settings_are_named_as_in_a_file_and_as_flags() {
        let setting = |setting| BuildError::Setting {
            setting,
            value: "0".to_owned(),
            expected: "at least 1".to_owned(),
        };
        for (error, expected) in [
            (BuildError::NoAddress, "bind is empty: "),
            (
                setting("connections_max"),
                "server.connections-max (--maxclients) is 0, it must be at least 1",
            ),
            (setting("queue_capacity"), "server.queue-capacity is 0, it must be at least 1"),
            (setting("workers"), "server.workers (--workers) is 0"),
            (setting("unix_mode"), "sockets.unix-mode is 0"),
        ] {
            let error = anyhow::Error::from(error).context("cannot start");
            let named = as_written::<Config>(error).to_string();
            assert!(named.starts_with(expected), "{named}");
        }
        let no_files = io::Error::from_raw_os_error(Errno::MFILE.raw_os_error());
        let no_files = as_written::<Config>(BuildError::EventQueue(no_files).into());
        let expected = "the limit of open files (ulimit -n) is ";
        assert!(no_files.to_string().starts_with(expected), "{no_files}");
        let other = as_written::<Config>(anyhow!("no memory"));
        assert_eq!(other.to_string(), "no memory");
    }
}
