//! The page that the arbiter shares with a server: how many cores the server may hold, at the cost of one load.
//!
//! ```text
//!   arbiter: PageWriter ── memfd, sealed: neither longer, shorter nor writable from here on ──► server: Page
//! ```
//!
//! The arbiter never reads the page, so a server could harm only itself with it. The server maps only a file whose
//! size is sealed, so the mapping stays readable whatever the arbiter does.

mod mapping;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create};

use mapping::Mapping;

/// The bytes of the page.
const PAGE_BYTES: usize = 4096;

/// The number of a server that has not been told how many cores it may hold.
const NOT_TOLD: u32 = u32::MAX;

/// Why a descriptor cannot be the arbiter's page.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// The file could change its size under the mapping.
    #[error("the arbiter's page has no fixed size of {PAGE_BYTES} bytes")]
    Size,
    /// A system call failed.
    #[error("cannot map the arbiter's page: {0}")]
    System(#[from] io::Error),
}

impl From<rustix::io::Errno> for PageError {
    fn from(errno: rustix::io::Errno) -> Self {
        Self::System(errno.into())
    }
}

/// The arbiter's side of a page.
#[derive(Debug)]
pub(crate) struct PageWriter {
    file: OwnedFd,
    mapping: Mapping<true>,
}

impl PageWriter {
    pub(crate) fn new() -> io::Result<Self> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = memfd_create("psp-arbiter", flags)?;
        ftruncate(&file, PAGE_BYTES as u64)?;
        let mapping = Mapping::<true>::new(file.as_fd(), PAGE_BYTES)?;
        mapping.store(NOT_TOLD);
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::FUTURE_WRITE | SealFlags::SEAL;
        fcntl_add_seals(&file, seals)?;
        Ok(Self { file, mapping })
    }

    /// Tells the server how many cores it may hold.
    pub(crate) fn allow(&self, cores: usize) {
        let cores = u32::try_from(cores).unwrap_or(NOT_TOLD);
        self.mapping.store(cores);
    }

    pub(crate) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// A server's side of the page.
#[derive(Debug)]
pub struct Page {
    mapping: Mapping<false>,
}

impl Page {
    /// Maps the file that came with [`Welcome`](crate::protocol::ToServer::Welcome).
    ///
    /// # Errors
    /// The file is not a page of the arbiter, or cannot be mapped.
    pub fn map(file: impl AsFd) -> Result<Self, PageError> {
        let size = fstat(&file)?.st_size;
        let seals = fcntl_get_seals(&file)?;
        if size != PAGE_BYTES as i64 || !seals.contains(SealFlags::SHRINK) {
            return Err(PageError::Size);
        }
        let mapping = Mapping::new(file.as_fd(), PAGE_BYTES)?;
        Ok(Self { mapping })
    }

    /// How many of `held` cores the server must give back: one load.
    #[must_use]
    #[inline]
    pub fn must_release(&self, held: usize) -> usize {
        held.saturating_sub(self.mapping.load() as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_sees_what_the_arbiter_writes() {
        let writer = PageWriter::new().unwrap();
        let page = Page::map(writer.file()).unwrap();
        assert_eq!(page.must_release(5), 0, "nothing has been said yet");
        writer.allow(2);
        assert_eq!(page.must_release(5), 3);
        assert_eq!(page.must_release(2), 0);
        assert_eq!(page.must_release(1), 0);
    }

    #[test]
    fn a_server_cannot_write_or_cut_the_page() {
        let writer = PageWriter::new().unwrap();
        assert!(Mapping::<true>::new(writer.file(), PAGE_BYTES).is_err());
        assert!(rustix::io::pwrite(writer.file(), b"1", 0).is_err());
        assert!(ftruncate(writer.file(), 0).is_err());
    }

    #[test]
    fn a_file_that_could_be_cut_is_no_page() {
        let file = memfd_create("other", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&file, PAGE_BYTES as u64).unwrap();
        assert!(matches!(Page::map(&file), Err(PageError::Size)));
        assert!(Page::map(std::fs::File::open("/dev/null").unwrap()).is_err());
    }
}
