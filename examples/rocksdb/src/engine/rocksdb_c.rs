//! RocksDB by the C interface of its library, `rocksdb/c.h`: the functions that an [`Engine`] needs.
//!
//! The interface only ever grows, so any librocksdb of recent years fits; Debian 12 has 7.8. The
//! library reports errors as strings that the caller frees. It returns the results of lookups as
//! slices that stay pinned until the caller releases them. No C types leave this file.

use std::ffi::{CStr, CString, c_char, c_int, c_uchar, c_void};
use std::marker::{PhantomData, PhantomPinned};
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::ptr::{self, NonNull};
use std::slice;

use super::{Engine, EngineError, Visit};

/// `InfoLogLevel` of RocksDB. Its own log contains warnings and errors.
const INFO_LOG_LEVEL_WARN: c_int = 2;
/// Number of logs of earlier runs that RocksDB keeps.
const LOG_FILES_KEPT: usize = 4;

/// Types of the library that are used only by address.
macro_rules! opaque {
    ($($name:ident),+) => {$(
        #[repr(C)]
        struct $name {
            _bytes: [u8; 0],
            _neither_moved_nor_shared: PhantomData<(*mut u8, PhantomPinned)>,
        }
    )+};
}

opaque!(BlockOptions, Cache, Database, Iterator, Options, PinnedSlice, ReadOptions, WriteOptions);

#[link(name = "rocksdb")]
unsafe extern "C" {
    fn rocksdb_free(memory: *mut c_void);

    fn rocksdb_options_create() -> *mut Options;
    fn rocksdb_options_destroy(options: *mut Options);
    fn rocksdb_options_set_create_if_missing(options: *mut Options, on: c_uchar);
    fn rocksdb_options_set_info_log_level(options: *mut Options, level: c_int);
    fn rocksdb_options_set_keep_log_file_num(options: *mut Options, count: usize);

    fn rocksdb_options_set_block_based_table_factory(options: *mut Options, blocks: *mut BlockOptions);

    fn rocksdb_block_based_options_create() -> *mut BlockOptions;
    fn rocksdb_block_based_options_destroy(blocks: *mut BlockOptions);
    fn rocksdb_block_based_options_set_block_cache(blocks: *mut BlockOptions, cache: *mut Cache);
    fn rocksdb_cache_create_lru(capacity: usize) -> *mut Cache;
    fn rocksdb_cache_destroy(cache: *mut Cache);

    fn rocksdb_open(options: *const Options, directory: *const c_char, error: *mut *mut c_char) -> *mut Database;
    fn rocksdb_close(database: *mut Database);

    fn rocksdb_readoptions_create() -> *mut ReadOptions;
    fn rocksdb_readoptions_destroy(options: *mut ReadOptions);
    fn rocksdb_writeoptions_create() -> *mut WriteOptions;
    fn rocksdb_writeoptions_destroy(options: *mut WriteOptions);
    fn rocksdb_writeoptions_set_sync(options: *mut WriteOptions, on: c_uchar);

    fn rocksdb_get_pinned(
        database: *mut Database,
        options: *const ReadOptions,
        key: *const c_char,
        key_len: usize,
        error: *mut *mut c_char,
    ) -> *mut PinnedSlice;
    fn rocksdb_pinnableslice_value(slice: *const PinnedSlice, len: *mut usize) -> *const c_char;
    fn rocksdb_pinnableslice_destroy(slice: *mut PinnedSlice);

    fn rocksdb_put(
        database: *mut Database,
        options: *const WriteOptions,
        key: *const c_char,
        key_len: usize,
        value: *const c_char,
        value_len: usize,
        error: *mut *mut c_char,
    );
    fn rocksdb_delete(
        database: *mut Database,
        options: *const WriteOptions,
        key: *const c_char,
        key_len: usize,
        error: *mut *mut c_char,
    );
    fn rocksdb_flush_wal(database: *mut Database, sync: c_uchar, error: *mut *mut c_char);

    fn rocksdb_create_iterator(database: *mut Database, options: *const ReadOptions) -> *mut Iterator;
    fn rocksdb_iter_destroy(iterator: *mut Iterator);
    fn rocksdb_iter_valid(iterator: *const Iterator) -> c_uchar;
    fn rocksdb_iter_seek(iterator: *mut Iterator, key: *const c_char, key_len: usize);
    fn rocksdb_iter_next(iterator: *mut Iterator);
    fn rocksdb_iter_key(iterator: *const Iterator, len: *mut usize) -> *const c_char;
    fn rocksdb_iter_value(iterator: *const Iterator, len: *mut usize) -> *const c_char;
    fn rocksdb_iter_get_error(iterator: *const Iterator, error: *mut *mut c_char);
}

/// An object of the library, and the function that destroys it.
struct Owned<T> {
    object: NonNull<T>,
    destroy: unsafe extern "C" fn(*mut T),
}

impl<T> Owned<T> {
    /// Returns `None` if `object` is null: the library has not created an object.
    ///
    /// # Safety
    /// `object` is null, or `destroy` may be called with it once, when the value is dropped.
    unsafe fn new(object: *mut T, destroy: unsafe extern "C" fn(*mut T)) -> Option<Self> {
        NonNull::new(object).map(|object| Self { object, destroy })
    }

    fn as_ptr(&self) -> *mut T {
        self.object.as_ptr()
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        // SAFETY: the caller of `new` promised that this call may happen once. No borrow of the object
        // outlives it: all borrows in this file end within the method of the owner.
        unsafe { (self.destroy)(self.as_ptr()) }
    }
}

/// An open database.
///
/// Closing the database while another thread is in one of its methods would be undefined behaviour.
/// Rust's borrows rule that out.
pub struct RocksDb {
    // Fields are dropped in this order: the database first.
    database: Owned<Database>,
    read: Owned<ReadOptions>,
    write: Owned<WriteOptions>,
    fill: Owned<WriteOptions>,
    /// Whether `write` syncs.
    syncs: bool,
}

// SAFETY: any thread may use and close a `rocksdb::DB`, as its documentation says ("Concurrency").
// Options are only read after `open`. Code that changes an option later would break this.
unsafe impl Send for RocksDb {}
// SAFETY: as above. All methods of `rocksdb::DB` that this file calls may run at the same time.
unsafe impl Sync for RocksDb {}

impl RocksDb {
    /// Opens the database in `directory`, which is created if it does not exist. With `sync`, `put` and
    /// `delete` return when their writes are on the medium. The block cache holds `block_cache_mb` MiB,
    /// or RocksDB's own default.
    ///
    /// # Errors
    /// The directory is not a database, is open elsewhere, is damaged, or cannot be read and written.
    pub fn open(directory: &Path, sync: bool, block_cache_mb: Option<u32>) -> Result<Self, EngineError> {
        let name = CString::new(directory.as_os_str().as_bytes())
            .map_err(|_| EngineError("the name of the directory contains a zero byte".to_owned()))?;
        // SAFETY: the functions take no arguments, and each result is destroyed by its own function.
        let (options, read) = unsafe {
            (
                Owned::new(rocksdb_options_create(), rocksdb_options_destroy),
                Owned::new(rocksdb_readoptions_create(), rocksdb_readoptions_destroy),
            )
        };
        let (options, read) = options.zip(read).ok_or_else(out_of_memory)?;
        // SAFETY: the options are alive, and no other thread has them yet.
        unsafe {
            rocksdb_options_set_create_if_missing(options.as_ptr(), 1);
            rocksdb_options_set_info_log_level(options.as_ptr(), INFO_LOG_LEVEL_WARN);
            rocksdb_options_set_keep_log_file_num(options.as_ptr(), LOG_FILES_KEPT);
        }
        if let Some(mib) = block_cache_mb {
            set_block_cache(&options, mib)?;
        }
        let (write, fill) = (write_options(sync)?, write_options(false)?);
        let database = checked(|error| {
            // SAFETY: the options, the name and the error slot live until the call returns. The library copies
            // the parts that it keeps. It returns null or an open database, which is closed once.
            unsafe { Owned::new(rocksdb_open(options.as_ptr(), name.as_ptr(), error), rocksdb_close) }
        })?;
        Ok(Self {
            database: database.ok_or_else(out_of_memory)?,
            read,
            write,
            fill,
            syncs: sync,
        })
    }

    fn put_with(&self, options: &Owned<WriteOptions>, key: &[u8], value: &[u8]) -> Result<(), EngineError> {
        checked(|error| {
            // SAFETY: database and options are alive while `self` is borrowed. Key and value are borrowed; the
            // library reads the given numbers of bytes and keeps none of the addresses.
            unsafe {
                rocksdb_put(
                    self.database.as_ptr(),
                    options.as_ptr(),
                    key.as_ptr().cast(),
                    key.len(),
                    value.as_ptr().cast(),
                    value.len(),
                    error,
                );
            }
        })
    }
}

impl Engine for RocksDb {
    fn get(&self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool, EngineError> {
        let pinned = checked(|error| {
            // SAFETY: as in `put_with`. The result is null or a slice that is released once.
            unsafe {
                let pinned = rocksdb_get_pinned(
                    self.database.as_ptr(),
                    self.read.as_ptr(),
                    key.as_ptr().cast(),
                    key.len(),
                    error,
                );
                Owned::new(pinned, rocksdb_pinnableslice_destroy)
            }
        })?;
        if let Some(pinned) = &pinned {
            // SAFETY: the slice stays pinned until `pinned` is dropped, after `found` has returned.
            found(unsafe { borrowed(|len| rocksdb_pinnableslice_value(pinned.as_ptr(), len)) });
        }
        Ok(pinned.is_some())
    }

    fn scan(&self, start: &[u8], visit: &mut Visit<'_>) -> Result<(), EngineError> {
        // SAFETY: database and options outlive the iterator, which is dropped when this method returns.
        // The iterator belongs to this call: it stays on this thread, and no other thread has its address.
        let iterator = unsafe {
            let iterator = rocksdb_create_iterator(self.database.as_ptr(), self.read.as_ptr());
            Owned::new(iterator, rocksdb_iter_destroy)
        };
        let iterator = iterator.ok_or_else(out_of_memory)?;
        let at = iterator.as_ptr();
        // SAFETY: the iterator is alive; the library copies the key.
        unsafe { rocksdb_iter_seek(at, start.as_ptr().cast(), start.len()) };
        // SAFETY: the iterator is alive.
        while unsafe { rocksdb_iter_valid(at) } != 0 {
            // SAFETY: a valid iterator is at an entry. The entry's key and value stay in place until the
            // iterator moves, after `visit` has returned.
            let (key, value) =
                unsafe { (borrowed(|len| rocksdb_iter_key(at, len)), borrowed(|len| rocksdb_iter_value(at, len))) };
            if let ControlFlow::Break(()) = visit(key, value) {
                break;
            }
            // SAFETY: only a valid iterator may move. This one is valid: it has not moved since the check.
            unsafe { rocksdb_iter_next(at) };
        }
        // SAFETY: the iterator is alive. An invalid iterator has reached the end or has failed.
        checked(|error| unsafe { rocksdb_iter_get_error(at, error) })
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), EngineError> {
        self.put_with(&self.write, key, value)
    }

    fn delete(&self, key: &[u8]) -> Result<(), EngineError> {
        checked(|error| {
            // SAFETY: as in `put_with`.
            unsafe {
                rocksdb_delete(self.database.as_ptr(), self.write.as_ptr(), key.as_ptr().cast(), key.len(), error);
            }
        })
    }

    fn fill(&self, key: &[u8], value: &[u8]) -> Result<(), EngineError> {
        self.put_with(&self.fill, key, value)
    }

    fn sync(&self) -> Result<(), EngineError> {
        // SAFETY: the database is alive while `self` is borrowed.
        checked(|error| unsafe { rocksdb_flush_wal(self.database.as_ptr(), 1, error) })
    }

    fn waits_for_medium(&self) -> bool {
        self.syncs
    }
}

/// Limits the block cache to `mib` MiB. The cache evicts the least recently used blocks first.
fn set_block_cache(options: &Owned<Options>, mib: u32) -> Result<(), EngineError> {
    let bytes = usize::try_from(u64::from(mib) << 20).unwrap_or(usize::MAX);
    // SAFETY: the functions take a number or nothing, and each result is destroyed by its own function.
    let (cache, blocks) = unsafe {
        (
            Owned::new(rocksdb_cache_create_lru(bytes), rocksdb_cache_destroy),
            Owned::new(rocksdb_block_based_options_create(), rocksdb_block_based_options_destroy),
        )
    };
    let (cache, blocks) = cache.zip(blocks).ok_or_else(out_of_memory)?;
    // SAFETY: all three objects are alive, and no other thread has them yet. The block options share the
    // cache, and the database options copy the block options, so both may be dropped on return.
    unsafe {
        rocksdb_block_based_options_set_block_cache(blocks.as_ptr(), cache.as_ptr());
        rocksdb_options_set_block_based_table_factory(options.as_ptr(), blocks.as_ptr());
    }
    Ok(())
}

fn write_options(sync: bool) -> Result<Owned<WriteOptions>, EngineError> {
    // SAFETY: the function takes no arguments, and its result is destroyed by its own function.
    let options = unsafe { Owned::new(rocksdb_writeoptions_create(), rocksdb_writeoptions_destroy) };
    let options = options.ok_or_else(out_of_memory)?;
    // SAFETY: the options are alive, and no other thread has them yet.
    unsafe { rocksdb_writeoptions_set_sync(options.as_ptr(), c_uchar::from(sync)) };
    Ok(options)
}

fn out_of_memory() -> EngineError {
    EngineError("out of memory".to_owned())
}

/// Runs `call` with a slot for an error. Returns that error if `call` has set it.
fn checked<T>(call: impl FnOnce(*mut *mut c_char) -> T) -> Result<T, EngineError> {
    let mut message: *mut c_char = ptr::null_mut();
    let result = call(&raw mut message);
    if message.is_null() {
        return Ok(result);
    }
    // SAFETY: an error is a zero-terminated string that this function must free by the library's own
    // function. The text is copied first and not used afterwards.
    let text = unsafe {
        let text = CStr::from_ptr(message).to_string_lossy().into_owned();
        rocksdb_free(message.cast());
        text
    };
    Err(EngineError(text))
}

/// The bytes at the address that `parts` returns. `parts` writes their number to its argument.
///
/// # Safety
/// The bytes stay unchanged while the slice is used. The caller chooses that lifetime.
unsafe fn borrowed<'a>(parts: impl FnOnce(*mut usize) -> *const c_char) -> &'a [u8] {
    let mut len = 0;
    let bytes = parts(&raw mut len);
    if bytes.is_null() || len == 0 {
        return &[];
    }
    // SAFETY: the library says that there are `len` bytes, and the caller promises that they stay.
    unsafe { slice::from_raw_parts(bytes.cast(), len) }
}

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C" {
        fn rocksdb_writeoptions_get_sync(options: *mut WriteOptions) -> c_uchar;
        fn rocksdb_property_int(database: *mut Database, name: *const c_char, value: *mut u64) -> c_int;
        fn rocksdb_compact_range(
            database: *mut Database,
            start: *const c_char,
            start_len: usize,
            end: *const c_char,
            end_len: usize,
        );
    }

    fn property(database: &RocksDb, name: &CStr) -> u64 {
        let mut value = 0;
        // SAFETY: the database is alive, the name ends with zero, and there is room for the value.
        let status = unsafe { rocksdb_property_int(database.database.as_ptr(), name.as_ptr(), &raw mut value) };
        assert_eq!(status, 0, "RocksDB has no property {name:?}");
        value
    }

    /// Bytes of blocks in the cache after reading from a file, and the cache's capacity.
    fn cached(block_cache_mb: Option<u32>) -> (u64, u64) {
        let directory = tempfile::tempdir().unwrap();
        let database = RocksDb::open(directory.path(), false, block_cache_mb).unwrap();
        for number in 0..2000_u32 {
            database.put(&number.to_be_bytes(), &[b'v'; 1000]).unwrap();
        }
        // SAFETY: the database is alive. Without a start and an end, the call compacts all of it.
        unsafe {
            rocksdb_compact_range(database.database.as_ptr(), ptr::null(), 0, ptr::null(), 0);
        }
        assert_eq!(keys(&database).len(), 2000);
        (
            property(&database, c"rocksdb.block-cache-usage"),
            property(&database, c"rocksdb.block-cache-capacity"),
        )
    }

    #[test]
    fn the_block_cache_has_the_requested_size() {
        let (used, capacity) = cached(Some(96));
        assert_eq!(capacity, 96 << 20);
        assert!((2_000_000..4_000_000).contains(&used), "{used} bytes");
        let (used_of_one, capacity) = cached(Some(1));
        assert_eq!(capacity, 1 << 20);
        assert!(used_of_one < used, "a cache of 1 MiB holds {used_of_one} bytes, one of 96 MiB {used}");
        assert_eq!(cached(Some(0)).1, 0);
        assert!(cached(None).1 > 0, "RocksDB's default cache has no capacity");
    }

    #[test]
    fn only_acknowledged_writes_are_synced() {
        for sync in [true, false] {
            let directory = tempfile::tempdir().unwrap();
            let database = RocksDb::open(directory.path(), sync, None).unwrap();
            // SAFETY: the options are alive as long as the database.
            let told = |options: &Owned<WriteOptions>| unsafe { rocksdb_writeoptions_get_sync(options.as_ptr()) != 0 };
            assert_eq!((told(&database.write), told(&database.fill)), (sync, false));
            assert_eq!(database.waits_for_medium(), sync);
        }
    }

    fn keys(database: &RocksDb) -> Vec<Vec<u8>> {
        let mut keys = Vec::new();
        let visit = &mut |key: &[u8], _: &[u8]| {
            keys.push(key.to_vec());
            ControlFlow::Continue(())
        };
        database.scan(b"", visit).unwrap();
        keys
    }

    #[test]
    fn entries_survive_closing_the_database() {
        let directory = tempfile::tempdir().unwrap();
        for round in 0_u8..3 {
            let database = RocksDb::open(directory.path(), round > 0, None).unwrap();
            assert_eq!(keys(&database).len(), usize::from(round));
            database.put(&[round], b"value").unwrap();
            database.fill(b"gone", b"").unwrap();
            database.sync().unwrap();
            database.delete(b"gone").unwrap();
        }
    }

    #[test]
    fn empty_values_are_values() {
        let directory = tempfile::tempdir().unwrap();
        let database = RocksDb::open(directory.path(), false, None).unwrap();
        database.put(b"a", b"").unwrap();
        let mut seen = Vec::new();
        assert_eq!(database.get(b"a", &mut |value| seen.push(value.len())), Ok(true));
        assert_eq!(database.get(b"b", &mut |_| unreachable!()), Ok(false));
        assert_eq!(seen, [0]);
    }

    #[test]
    fn scans_see_the_entries_as_of_their_start() {
        let directory = tempfile::tempdir().unwrap();
        let database = RocksDb::open(directory.path(), false, None).unwrap();
        for key in [b"a", b"b", b"c"] {
            database.put(key, b"1").unwrap();
        }
        let mut seen = Vec::new();
        let visit = &mut |key: &[u8], _: &[u8]| {
            // The scan holds no lock, and the change does not affect the iterator.
            database.delete(b"c").unwrap();
            seen.push(key.to_vec());
            ControlFlow::Continue(())
        };
        database.scan(b"b", visit).unwrap();
        assert_eq!(seen, [b"b", b"c"]);
        assert_eq!(keys(&database), [b"a", b"b"]);
    }

    #[test]
    fn open_reports_errors_in_the_words_of_the_library() {
        let directory = tempfile::tempdir().unwrap();
        let _open = RocksDb::open(directory.path(), true, None).unwrap();
        let error = RocksDb::open(directory.path(), true, None).err().unwrap();
        assert!(error.to_string().contains("lock"), "{error}");
        let file = directory.path().join("file");
        std::fs::write(&file, b"no database").unwrap();
        assert!(RocksDb::open(&file, true, None).is_err());
        assert!(RocksDb::open(Path::new("a\0b"), true, None).is_err());
    }
}
