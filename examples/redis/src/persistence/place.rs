//! Where the file is, and how a new one takes the place of the old one.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::replace_file::sync_folder;

/// A folder, and the name of the file in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) dir: PathBuf,
    pub(super) name: String,
}

/// Why there is no new file. The old one is as it was.
#[derive(Debug, thiserror::Error)]
pub enum SaveError {
    /// Another save was asked for, or the server ends.
    #[error("the save was given up")]
    GivenUp,
    /// What changes meanwhile takes more memory than there is.
    #[error("what clients change takes more memory than there is while the save goes on")]
    Memory,
    /// The system refuses something.
    #[error("cannot {what} {path}: {error}")]
    System {
        /// What it refuses.
        what: &'static str,
        /// Of which file or folder.
        path: String,
        /// Why.
        error: io::Error,
    },
}

/// An error of the system about `path`.
fn about(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> SaveError {
    let path = path.display().to_string();
    move |error| SaveError::System { what, path, error }
}

/// Whether a file can have this name in the folder.
pub(crate) fn check_name(name: &str) -> Result<(), &'static str> {
    match name {
        "" | "." | ".." => Err("dbfilename can't be empty or a folder"),
        name if name.contains('/') => Err("dbfilename can't be a path, just a filename"),
        _ => Ok(()),
    }
}

impl Place {
    pub(super) fn path(&self) -> PathBuf {
        self.dir.join(&self.name)
    }

    /// Has `write` fill a file beside the one that is there, which takes its place once the disk has it.
    ///
    /// # Errors
    /// The system refuses something, or `write` gives up.
    pub(super) fn replace(&self, write: impl FnOnce(File) -> io::Result<Option<File>>) -> Result<(), SaveError> {
        let temporary = self.dir.join(format!("temp-{}.rdb", std::process::id()));
        let replaced = self.replace_by(&temporary, write);
        if replaced.is_err() {
            // It may not be there at all.
            let _removed = fs::remove_file(&temporary);
        }
        replaced
    }

    fn replace_by(
        &self,
        temporary: &Path,
        write: impl FnOnce(File) -> io::Result<Option<File>>,
    ) -> Result<(), SaveError> {
        let file = File::create(temporary).map_err(about("make the file", temporary))?;
        let written = write(file).map_err(about("write to", temporary))?;
        let file = written.ok_or(SaveError::GivenUp)?;
        file.sync_all().map_err(about("sync", temporary))?;
        drop(file);
        let path = self.path();
        fs::rename(temporary, &path).map_err(about("put the new file in the place of", &path))?;
        sync_folder(&self.dir).map_err(about("sync the folder", &self.dir))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn a_file_is_replaced_as_a_whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let place = Place { dir: dir.path().to_owned(), name: "dump.rdb".to_owned() };
        let files = || fs::read_dir(dir.path()).unwrap().count();
        let write = |text: &'static str| {
            move |mut file: File| {
                file.write_all(text.as_bytes())?;
                Ok(Some(file))
            }
        };
        place.replace(write("first")).unwrap();
        place.replace(write("second")).unwrap();
        let fails = place.replace(|mut file| {
            file.write_all(b"half")?;
            Err(io::Error::other("the disk is full"))
        });
        assert!(fails.unwrap_err().to_string().ends_with(".rdb: the disk is full"));
        assert!(matches!(place.replace(|_| Ok(None)), Err(SaveError::GivenUp)));
        assert_eq!(fs::read(place.path()).unwrap(), b"second");
        assert_eq!(files(), 1);
        let nowhere = Place { dir: dir.path().join("gone"), ..place };
        let fails = nowhere.replace(write("third")).unwrap_err().to_string();
        assert!(fails.starts_with("cannot make the file /"), "{fails}");
    }

    #[test]
    fn a_name_is_no_path() {
        assert_eq!(check_name("a.rdb"), Ok(()));
        for wrong in ["", ".", "..", "a/b", "/a"] {
            assert!(check_name(wrong).is_err(), "{wrong}");
        }
    }
}
