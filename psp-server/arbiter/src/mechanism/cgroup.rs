//! Files of cgroups.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::error::MechanismError;
use crate::cores::CoreSet;
use crate::thread::ThreadId;

/// The name of the arbiter's own group.
pub(super) const OWN_GROUP: &str = "psp-arbiter";

/// The group of everything that has no granted core.
pub(super) const UNMANAGED_GROUP: &str = "unmanaged";

/// The name of a core's group before its number.
pub(super) const CORE_GROUP: &str = "core";

/// How often the arbiter looks for tasks again that were made while it moved others.
const ROUNDS_MAX: usize = 16;

fn error(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> MechanismError {
    let path = path.to_owned();
    move |source| MechanismError::File { doing, path, source }
}

/// Makes a group, unless it is there.
pub(super) fn make(path: &Path) -> Result<(), MechanismError> {
    match fs::create_dir(path) {
        Err(source) if source.kind() != io::ErrorKind::AlreadyExists => Err(error("make the group", path)(source)),
        _ => Ok(()),
    }
}

pub(super) fn read(path: &Path) -> Result<String, MechanismError> {
    fs::read_to_string(path).map_err(error("read", path))
}

pub(super) fn read_cores(path: &Path) -> Result<CoreSet, MechanismError> {
    let text = read(path)?;
    text.parse()
        .map_err(|_| MechanismError::Text { path: path.to_owned(), text: text.trim().to_owned() })
}

pub(super) fn write(path: &Path, text: &str) -> Result<(), MechanismError> {
    let written = open(path).and_then(|file| put(&file, text));
    written.map_err(error("write", path))
}

/// Opens a file to which [`put`] writes.
pub(super) fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).truncate(true).open(path)
}

/// Writes in one system call, as these files want it.
pub(super) fn put(mut file: &File, text: &str) -> io::Result<()> {
    file.write_all(text.as_bytes())
}

/// The numbers in a file such as `tasks`.
pub(super) fn numbers(path: &Path) -> io::Result<Vec<i32>> {
    let text = fs::read_to_string(path)?;
    Ok(text.lines().filter_map(|line| line.parse().ok()).collect())
}

pub(super) fn threads(path: &Path) -> io::Result<Vec<ThreadId>> {
    Ok(numbers(path)?.into_iter().filter_map(ThreadId::new).collect())
}

/// Whether the task has ended.
pub(super) fn has_ended(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::SRCH.raw_os_error())
}

/// Moves all that the file `from` lists into the group whose file is `to`, and what these tasks make meanwhile.
/// Returns how many the kernel does not let go, such as its own threads of a single core.
pub(super) fn move_all(from: &Path, to: &Path) -> io::Result<usize> {
    let to = open(to)?;
    let mut stuck = Vec::new();
    for _ in 0..ROUNDS_MAX {
        let mut numbers = numbers(from)?;
        numbers.retain(|number| !stuck.contains(number));
        if numbers.is_empty() {
            break;
        }
        for number in numbers {
            match put(&to, &number.to_string()) {
                Err(error) if !has_ended(&error) => stuck.push(number),
                _ => {}
            }
        }
    }
    Ok(stuck.len())
}

/// The groups of cores below `group`, by the numbers in their names.
pub(super) fn core_groups(group: &Path) -> io::Result<Vec<(usize, PathBuf)>> {
    let mut groups = Vec::new();
    for entry in fs::read_dir(group)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        let number = name.and_then(|name| name.strip_prefix(CORE_GROUP)?.parse().ok());
        groups.extend(number.map(|number| (number, path.clone())));
    }
    Ok(groups)
}

/// The threads of this process.
pub(super) fn numbers_of_own_threads() -> Vec<i32> {
    let Ok(entries) = fs::read_dir("/proc/self/task") else {
        return Vec::new();
    };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter_map(|name| name.parse().ok()).collect()
}

/// Removes a group that has no tasks. The kernel needs a moment for those that have just left.
pub(super) fn remove(group: &Path) -> io::Result<()> {
    for _ in 0..ROUNDS_MAX {
        match fs::remove_dir(group) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            removed => return removed,
        }
    }
    fs::remove_dir(group)
}
