//! RocksDB by the C interface of its library, `rocksdb/c.h`: the functions that an [`Engine`] needs.
//!
//! The interface only ever grows, so that any librocksdb of the last years fits; Debian 12 has 7.8.
//! The library reports errors as strings that the caller frees, and answers lookups with slices that
//! it pins until the caller gives them back. Nothing else of C gets out of this file.

use std::ffi::{CStr, CString, c_char, c_int, c_uchar, c_void};
use std::marker::{PhantomData, PhantomPinned};
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::ptr::{self, NonNull};
use std::slice;

use super::{Engine, EngineError, Visit};

/// `InfoLogLevel` of RocksDB: its own log has what goes wrong.
const INFO_LOG_LEVEL_WARN: c_int = 2;
/// Logs of earlier runs that it keeps.
const LOG_FILES_KEPT: usize = 4;

/// Types of the library that are known by address alone.
macro_rules! opaque {
    ($($name:ident),+) => {$(
        #[repr(C)]
        struct $name {
            _bytes: [u8; 0],
            _neither_moved_nor_shared: PhantomData<(*mut u8, PhantomPinned)>,
        }
    )+};
}

opaque!(
    BlockOptions,
    Cache,
    Database,
    Iterator,
    Options,
    PinnedSlice,
    ReadOptions,
    WriteOptions
);

#[link(name = "rocksdb")]
unsafe extern "C" {
    fn rocksdb_free(memory: *mut c_void);

    fn rocksdb_options_create() -> *mut Options;
    fn rocksdb_options_destroy(options: *mut Options);
    fn rocksdb_options_set_create_if_missing(options: *mut Options, on: c_uchar);
    fn rocksdb_options_set_info_log_level(options: *mut Options, level: c_int);
    fn rocksdb_options_set_keep_log_file_num(options: *mut Options, count: usize);

    fn rocksdb_options_set_block_based_table_factory(
        options: *mut Options,
        blocks: *mut BlockOptions,
    );

    fn rocksdb_block_based_options_create() -> *mut BlockOptions;
    fn rocksdb_block_based_options_destroy(blocks: *mut BlockOptions);
    fn rocksdb_block_based_options_set_block_cache(blocks: *mut BlockOptions, cache: *mut Cache);
    fn rocksdb_cache_create_lru(capacity: usize) -> *mut Cache;
    fn rocksdb_cache_destroy(cache: *mut Cache);

    fn rocksdb_open(
        options: *const Options,
        directory: *const c_char,
        error: *mut *mut c_char,
    ) -> *mut Database;
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

    fn rocksdb_create_iterator(
        database: *mut Database,
        options: *const ReadOptions,
    ) -> *mut Iterator;
    fn rocksdb_iter_destroy(iterator: *mut Iterator);
    fn rocksdb_iter_valid(iterator: *const Iterator) -> c_uchar;
    fn rocksdb_iter_seek(iterator: *mut Iterator, key: *const c_char, key_len: usize);
    fn rocksdb_iter_next(iterator: *mut Iterator);
    fn rocksdb_iter_key(iterator: *const Iterator, len: *mut usize) -> *const c_char;
    fn rocksdb_iter_value(iterator: *const Iterator, len: *mut usize) -> *const c_char;
    fn rocksdb_iter_get_error(iterator: *const Iterator, error: *mut *mut c_char);
}

/// An object of the library, and the function that takes it back.
struct Owned<T> {
    object: NonNull<T>,
    destroy: unsafe extern "C" fn(*mut T),
}

impl<T> Owned<T> {
    /// `None` when `object` is null, which is how the library says that there is none.
    ///
    /// # Safety
    /// `object` is null, or `destroy` may be called with it, once, when the value is dropped.
    unsafe fn new(object: *mut T, destroy: unsafe extern "C" fn(*mut T)) -> Option<Self> {
        NonNull::new(object).map(|object| Self { object, destroy })
    }

    fn as_ptr(&self) -> *mut T {
        self.object.as_ptr()
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        // SAFETY: `new` was promised that this may be done once. What was borrowed from the object
        // does not outlive it, because all borrows in this file end within the method that owns it.
        unsafe { (self.destroy)(self.as_ptr()) }
    }
}

/// An open database.
///
/// Closing it while another thread is in one of its methods would be undefined; Rust's borrows rule
/// that out.
pub struct RocksDb {
    // Fields are dropped in this order: the database first.
    database: Owned<Database>,
    read: Owned<ReadOptions>,
    write: Owned<WriteOptions>,
    fill: Owned<WriteOptions>,
}

// SAFETY: `rocksdb::DB` may be used and closed by any thread, as its documentation says ("Concurrency"),
// and options are only read after `open`. An option that is changed later would break this.
unsafe impl Send for RocksDb {}
// SAFETY: as above: all methods of `rocksdb::DB` that are called here may run at the same time.
unsafe impl Sync for RocksDb {}

impl RocksDb {
    /// Opens the database in `directory`, which is made if it is not there. With `sync`, `put` and
    /// `delete` return when what they wrote is on the medium. Blocks of files are kept in
    /// `block_cache_mb` MiB, or in as many as RocksDB chooses.
    ///
    /// # Errors
    /// When it is no database, is open elsewhere, is damaged, or cannot be read and written.
    pub fn open(
        directory: &Path,
        sync: bool,
        block_cache_mb: Option<u32>,
    ) -> Result<Self, EngineError> {
        let name = CString::new(directory.as_os_str().as_bytes())
            .map_err(|_| EngineError("the directory's name has a zero byte".to_owned()))?;
        // SAFETY: the functions take nothing, and what they return is destroyed by its own function.
        let (options, read) = unsafe {
            (
                Owned::new(rocksdb_options_create(), rocksdb_options_destroy),
                Owned::new(rocksdb_readoptions_create(), rocksdb_readoptions_destroy),
            )
        };
        let (options, read) = options.zip(read).ok_or_else(out_of_memory)?;
        // SAFETY: the options are alive, and nobody else has them yet.
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
            // SAFETY: options, name and the place for the error live until the call returns; the library
            // copies what it keeps. What it returns is null or an open database, which is closed once.
            unsafe {
                Owned::new(
                    rocksdb_open(options.as_ptr(), name.as_ptr(), error),
                    rocksdb_close,
                )
            }
        })?;
        Ok(Self {
            database: database.ok_or_else(out_of_memory)?,
            read,
            write,
            fill,
        })
    }

    fn put_with(
        &self,
        options: &Owned<WriteOptions>,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), EngineError> {
        checked(|error| {
            // SAFETY: database and options are alive while `self` is borrowed; the library reads so many
            // bytes of key and value, which are borrowed, and keeps none of the addresses.
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
            // SAFETY: as in `put_with`. What is returned is null or a slice that is given back once.
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
            // SAFETY: the slice is pinned until `pinned` is dropped, which is after `found` returns.
            found(unsafe { borrowed(|len| rocksdb_pinnableslice_value(pinned.as_ptr(), len)) });
        }
        Ok(pinned.is_some())
    }

    fn scan(&self, start: &[u8], visit: &mut Visit<'_>) -> Result<(), EngineError> {
        // SAFETY: database and options outlive the iterator, which is dropped when this returns. It
        // belongs to this call: it stays on its thread, and no other has its address.
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
            // SAFETY: a valid iterator stands at an entry, whose key and value stay where they are until
            // it moves, which is after `visit` returns.
            let (key, value) = unsafe {
                (
                    borrowed(|len| rocksdb_iter_key(at, len)),
                    borrowed(|len| rocksdb_iter_value(at, len)),
                )
            };
            if let ControlFlow::Break(()) = visit(key, value) {
                break;
            }
            // SAFETY: only a valid iterator may move, and this one is: nothing has moved it since.
            unsafe { rocksdb_iter_next(at) };
        }
        // SAFETY: the iterator is alive. One that is not valid has come to the end, or has failed.
        checked(|error| unsafe { rocksdb_iter_get_error(at, error) })
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), EngineError> {
        self.put_with(&self.write, key, value)
    }

    fn delete(&self, key: &[u8]) -> Result<(), EngineError> {
        checked(|error| {
            // SAFETY: as in `put_with`.
            unsafe {
                rocksdb_delete(
                    self.database.as_ptr(),
                    self.write.as_ptr(),
                    key.as_ptr().cast(),
                    key.len(),
                    error,
                );
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
}

/// Keeps blocks of files in `mib` MiB, the least recently used given up first.
fn set_block_cache(options: &Owned<Options>, mib: u32) -> Result<(), EngineError> {
    let bytes = usize::try_from(u64::from(mib) << 20).unwrap_or(usize::MAX);
    // SAFETY: they take a number or nothing, and what they return is destroyed by its own function.
    let (cache, blocks) = unsafe {
        (
            Owned::new(rocksdb_cache_create_lru(bytes), rocksdb_cache_destroy),
            Owned::new(
                rocksdb_block_based_options_create(),
                rocksdb_block_based_options_destroy,
            ),
        )
    };
    let (cache, blocks) = cache.zip(blocks).ok_or_else(out_of_memory)?;
    // SAFETY: all three are alive, and nobody else has them yet. The options of blocks come to share the
    // cache, and the database's options get a copy of those, so that both may go when this returns.
    unsafe {
        rocksdb_block_based_options_set_block_cache(blocks.as_ptr(), cache.as_ptr());
        rocksdb_options_set_block_based_table_factory(options.as_ptr(), blocks.as_ptr());
    }
    Ok(())
}

fn write_options(sync: bool) -> Result<Owned<WriteOptions>, EngineError> {
    // SAFETY: it takes nothing, and what it returns is destroyed by its own function.
    let options =
        unsafe { Owned::new(rocksdb_writeoptions_create(), rocksdb_writeoptions_destroy) };
    let options = options.ok_or_else(out_of_memory)?;
    // SAFETY: the options are alive, and nobody else has them yet.
    unsafe { rocksdb_writeoptions_set_sync(options.as_ptr(), c_uchar::from(sync)) };
    Ok(options)
}

fn out_of_memory() -> EngineError {
    EngineError("out of memory".to_owned())
}

/// Calls `call` with a place for an error, and returns that if there is one afterwards.
fn checked<T>(call: impl FnOnce(*mut *mut c_char) -> T) -> Result<T, EngineError> {
    let mut message: *mut c_char = ptr::null_mut();
    let result = call(&raw mut message);
    if message.is_null() {
        return Ok(result);
    }
    // SAFETY: an error is a string that ends with zero, which is ours to free, by the library's own
    // function. It is copied before that and not used after it.
    let text = unsafe {
        let text = CStr::from_ptr(message).to_string_lossy().into_owned();
        rocksdb_free(message.cast());
        text
    };
    Err(EngineError(text))
}

/// The bytes that `parts` returns the address of, having written their number where it was told.
///
/// # Safety
/// They stay as they are for as long as the slice is used: the caller chooses how long that is.
unsafe fn borrowed<'a>(parts: impl FnOnce(*mut usize) -> *const c_char) -> &'a [u8] {
    let mut len = 0;
    let bytes = parts(&raw mut len);
    if bytes.is_null() || len == 0 {
        return &[];
    }
    // SAFETY: the library says that there are `len` bytes, and the caller that they stay.
    unsafe { slice::from_raw_parts(bytes.cast(), len) }
}

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C" {
        fn rocksdb_writeoptions_get_sync(options: *mut WriteOptions) -> c_uchar;
        fn rocksdb_property_int(
            database: *mut Database,
            name: *const c_char,
            value: *mut u64,
        ) -> c_int;
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
        let status = unsafe {
            rocksdb_property_int(database.database.as_ptr(), name.as_ptr(), &raw mut value)
        };
        assert_eq!(status, 0, "there is no {name:?}");
        value
    }

    /// Bytes that blocks read from a file take in the cache, and its capacity.
    fn cached(block_cache_mb: Option<u32>) -> (u64, u64) {
        let directory = tempfile::tempdir().unwrap();
        let database = RocksDb::open(directory.path(), false, block_cache_mb).unwrap();
        for number in 0..2000_u32 {
            database.put(&number.to_be_bytes(), &[b'v'; 1000]).unwrap();
        }
        // SAFETY: the database is alive; without a start and an end it is compacted as a whole.
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
    fn blocks_are_kept_in_a_cache_of_the_size_that_was_asked_for() {
        let (used, capacity) = cached(Some(96));
        assert_eq!(capacity, 96 << 20);
        assert!((2_000_000..4_000_000).contains(&used), "{used} bytes");
        let (used_of_one, capacity) = cached(Some(1));
        assert_eq!(capacity, 1 << 20);
        assert!(used_of_one < used, "{used_of_one} of {used} bytes");
        assert_eq!(cached(Some(0)).1, 0);
        assert!(cached(None).1 > 0, "RocksDB has a default");
    }

    #[test]
    fn the_library_is_told_to_sync_what_is_acknowledged_and_nothing_else() {
        for sync in [true, false] {
            let directory = tempfile::tempdir().unwrap();
            let database = RocksDb::open(directory.path(), sync, None).unwrap();
            // SAFETY: the options are alive as long as the database.
            let told = |options: &Owned<WriteOptions>| unsafe {
                rocksdb_writeoptions_get_sync(options.as_ptr()) != 0
            };
            assert_eq!((told(&database.write), told(&database.fill)), (sync, false));
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
    fn entries_outlast_the_database_that_wrote_them() {
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
        assert_eq!(
            database.get(b"a", &mut |value| seen.push(value.len())),
            Ok(true)
        );
        assert_eq!(database.get(b"b", &mut |_| unreachable!()), Ok(false));
        assert_eq!(seen, [0]);
    }

    #[test]
    fn scans_see_the_moment_at_which_they_began() {
        let directory = tempfile::tempdir().unwrap();
        let database = RocksDb::open(directory.path(), false, None).unwrap();
        for key in [b"a", b"b", b"c"] {
            database.put(key, b"1").unwrap();
        }
        let mut seen = Vec::new();
        let visit = &mut |key: &[u8], _: &[u8]| {
            // The store is not locked, and the iterator is not disturbed.
            database.delete(b"c").unwrap();
            seen.push(key.to_vec());
            ControlFlow::Continue(())
        };
        database.scan(b"b", visit).unwrap();
        assert_eq!(seen, [b"b", b"c"]);
        assert_eq!(keys(&database), [b"a", b"b"]);
    }

    #[test]
    fn what_cannot_be_opened_is_said_in_the_words_of_the_library() {
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
