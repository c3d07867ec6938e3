//! Files that are small.

use std::io;
use std::path::Path;

/// Largest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The text of a file that may have a megabyte at most.
pub(crate) fn read(path: &Path) -> io::Result<String> {
    let bytes = std::fs::metadata(path)?.len();
    if bytes > FILE_BYTES_MAX {
        return Err(io::Error::other(format!("it has {bytes} bytes, at most {FILE_BYTES_MAX} are read")));
    }
    std::fs::read_to_string(path)
}
