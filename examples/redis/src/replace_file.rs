//! A new file in the place of an old one.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Puts `text` in the place of what the file has. Whoever reads it meanwhile, or after a crash, finds the old text or the
/// new one.
///
/// # Errors
/// Those of the file system. The file is as it was, unless it is the folder that the disk does not take.
pub(crate) fn replace_file(path: &Path, text: &[u8]) -> io::Result<()> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
    let mut temporary_name = name.to_os_string();
    temporary_name.push(format!(".tmp-{:016x}", rand::random::<u64>()));
    let temporary = path.with_file_name(temporary_name);
    let written = write(&temporary, path, text).and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written?;
    match path.parent() {
        Some(folder) if folder != Path::new("") => sync_folder(folder),
        _ => sync_folder(Path::new(".")),
    }
}

/// Has the disk know the names in a folder.
///
/// # Errors
/// Those of the file system.
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Writes a new file with the permissions of the file at `like`. If there is none, only the owner may read the new one.
fn write(path: &Path, like: &Path, text: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(path)?;
    if let Ok(known) = fs::metadata(like) {
        file.set_permissions(known.permissions())?;
    }
    file.write_all(text)?;
    file.sync_all()
}
