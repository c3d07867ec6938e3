//! The file of a Unix socket: made when a server listens, removed when it listens no more.

use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use mio::net::{UnixListener, UnixStream};
use socket2::{Domain, SockAddr, Socket, Type};

use super::listener::BACKLOG;

/// Removes the file when it is dropped, unless another file has its place meanwhile. The listener has to live until
/// then: without it, the other file may get the same inode.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    device: u64,
    inode: u64,
}

/// Listens on `path`. The file gets `mode`, or what the process's umask leaves. A file on which no process listens
/// any more is replaced.
///
/// # Errors
/// The system's, and `AddrInUse` if a process listens on `path` or the file is not a socket.
pub(crate) fn listen_unix(path: &Path, mode: Option<u32>) -> io::Result<(SocketFile, UnixListener)> {
    let socket = match bound(path) {
        Err(error) if error.kind() == ErrorKind::AddrInUse => {
            remove_stale(path)?;
            bound(path)
        }
        bound => bound,
    }?;
    let file = SocketFile::at(path)?;
    if let Some(mode) = mode {
        // No client can connect before the socket listens.
        fs::set_permissions(path, Permissions::from_mode(mode))?;
    }
    socket.listen(BACKLOG)?;
    Ok((file, UnixListener::from_std(socket.into())))
}

fn bound(path: &Path) -> io::Result<Socket> {
    if path.as_os_str().is_empty() {
        let reason = "the path is empty";
        return Err(io::Error::new(ErrorKind::InvalidInput, reason));
    }
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    socket.bind(&SockAddr::unix(path)?)?;
    Ok(socket)
}

/// Removes the file of a server that has ended.
fn remove_stale(path: &Path) -> io::Result<()> {
    let in_use = |reason: &str| Err(io::Error::new(ErrorKind::AddrInUse, reason));
    if !fs::symlink_metadata(path)?.file_type().is_socket() {
        return in_use("the file is not a socket");
    }
    // This does not block: `WouldBlock` says that the queue of a listening process is full.
    match UnixStream::connect(path) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => fs::remove_file(path),
        Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
        Ok(_) | Err(_) => in_use("another process listens on it"),
    }
}

impl SocketFile {
    fn at(path: &Path) -> io::Result<Self> {
        let metadata = fs::symlink_metadata(path)?;
        Ok(Self {
            path: std::path::absolute(path)?,
            device: metadata.dev(),
            inode: metadata.ino(),
        })
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let is_same = |found: fs::Metadata| (found.dev(), found.ino()) == (self.device, self.inode);
        if fs::symlink_metadata(&self.path).is_ok_and(is_same) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(path: &Path) -> String {
        listen_unix(path, None).unwrap_err().to_string()
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_file_lives_as_long_as_its_listener() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let (file, _listener) = listen_unix(&path, Some(0o640)).unwrap();
        assert_eq!(mode(&path), 0o640);
        assert_eq!(refusal(&path), "another process listens on it");
        drop(file);
        assert!(!path.exists());
    }

    #[test]
    fn a_stale_file_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists(), "the standard library leaves the file");
        let (_file, _listener) = listen_unix(&path, None).unwrap();
        UnixStream::connect(&path).unwrap();
    }

    #[test]
    fn a_file_that_took_the_place_stays() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let (file, _listener) = listen_unix(&path, None).unwrap();
        fs::remove_file(&path).unwrap();
        fs::write(&path, "of another program").unwrap();
        assert_eq!(refusal(&path), "the file is not a socket");
        drop(file);
        assert!(path.exists());
    }

    #[test]
    fn a_path_that_no_socket_can_have_is_refused() {
        assert_eq!(refusal(Path::new("")), "the path is empty");
        let long = "/tmp/".to_owned() + &"x".repeat(200);
        assert!(listen_unix(Path::new(&long), None).is_err());
        assert!(listen_unix(Path::new("/nowhere/socket"), None).is_err());
    }
}
