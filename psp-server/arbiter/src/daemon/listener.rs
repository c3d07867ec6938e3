//! The socket on which the arbiter listens.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen, socket_with};

/// Connections that wait to be accepted.
const BACKLOG: i32 = 64;

/// Why the arbiter cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Another arbiter has the socket.
    #[error("another arbiter listens at {0}")]
    Taken(PathBuf),
    /// A file or the socket cannot be made.
    #[error("cannot listen at {path}: {source}")]
    System {
        /// The socket's path.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
}

/// A listening socket. Its file goes when this does.
#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
    path: PathBuf,
    /// Open as long as the arbiter lives. The kernel lets go of it when the process dies.
    _lock: File,
}

impl Listener {
    /// Listens at `path`, whose file gets the permissions `mode`. A file that a dead arbiter left is replaced.
    ///
    /// # Errors
    /// Another arbiter listens there, or a file cannot be made.
    pub fn bind(path: &Path, mode: u32) -> Result<Self, ListenError> {
        let system = |source: io::Error| ListenError::System { path: path.to_owned(), source };
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(system)?;
        }
        let mut lock_path = path.as_os_str().to_owned();
        lock_path.push(".lock");
        let lock = File::create(lock_path).map_err(system)?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::AGAIN) => return Err(ListenError::Taken(path.to_owned())),
            locked => locked.map_err(|errno| system(errno.into()))?,
        }
        let _ = fs::remove_file(path);
        let socket = open(path, mode).map_err(system)?;
        Ok(Self { socket, path: path.to_owned(), _lock: lock })
    }

    /// The next connection, if one waits.
    pub(super) fn accept(&self) -> io::Result<Option<OwnedFd>> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        match accept_with(&self.socket, flags) {
            Ok(socket) => Ok(Some(socket)),
            Err(Errno::AGAIN | Errno::CONNABORTED | Errno::INTR) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }
}

fn open(path: &Path, mode: u32) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    fs::set_permissions(path, Permissions::from_mode(mode))?;
    listen(&socket, BACKLOG)?;
    Ok(socket)
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}
