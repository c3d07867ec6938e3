//! Requests of the text protocol, including meta commands.

use crate::memcached::item::KEY_LEN_MAX;
use crate::memcached::meta;

use super::error::{
    BAD_DELETE, BAD_DELTA, BAD_EXPTIME, BAD_FORMAT, BAD_SHUTDOWN, ERROR, MEMORY_LIMIT_NOT_IN_MIB,
    MEMORY_LIMIT_TOO_SMALL, RequestError,
};
use super::line::{FewWords, Words, split_line};
use super::number::parse_number;
use super::storage::{StorageVerb, Store};

/// Least and most memory of all items that a client can ask for, in MiB.
const MEMORY_MIB_MIN: u32 = 8;
const MEMORY_MIB_MAX: u32 = 1_000_000_000;

/// One request of the text or the meta protocol, borrowed from its frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request<'a> {
    /// `get`, `gets`, `gat`, `gats`
    Get(Get<'a>),
    /// `set`, `add`, `replace`, `append`, `prepend`, `cas`
    Store(Store<'a>),
    /// `delete <key> [0] [noreply]`
    Delete {
        /// The key.
        key: &'a [u8],
        /// Whether the client asked for no reply.
        noreply: bool,
    },
    /// `incr`, `decr <key> <value> [noreply]`
    Arithmetic {
        /// The key.
        key: &'a [u8],
        /// The number to add or subtract.
        delta: u64,
        /// Whether the command is `decr`, which stops at 0; `incr` wraps.
        decrement: bool,
        /// Whether the client asked for no reply.
        noreply: bool,
    },
    /// `touch <key> <exptime> [noreply]`
    Touch {
        /// The key.
        key: &'a [u8],
        /// See [`Store::exptime`].
        exptime: i64,
        /// Whether the client asked for no reply.
        noreply: bool,
    },
    /// `flush_all [delay] [noreply]`
    FlushAll {
        /// Seconds from now; 0 or negative for at once.
        delay_s: i64,
        /// Whether the client asked for no reply.
        noreply: bool,
    },
    /// `verbosity <level> [noreply]`
    Verbosity {
        /// Whether the client asked for no reply.
        noreply: bool,
    },
    /// `version`
    Version,
    /// `stats [<args>]`
    Stats {
        /// The words after `stats`.
        args: Words<'a>,
    },
    /// `quit`: no reply, the connection is closed.
    Quit,
    /// `shutdown [graceful]`
    Shutdown {
        /// Whether connections may finish first.
        graceful: bool,
    },
    /// `lru_crawler metadump <classes>`
    Metadump {
        /// Class ids separated by commas, `all` or `hash`.
        classes: &'a [u8],
    },
    /// `lru_crawler` with a setting, or without a dump.
    Crawler,
    /// `cache_memlimit <MiB> [noreply]`
    MemoryLimit {
        /// Memory of all items in MiB.
        mib: u32,
        /// Whether the client asked for no reply.
        noreply: bool,
    },
    /// `watch [<kinds>]`
    Watch,
    /// `refresh_certs`: read the files of certificates again.
    RefreshCertificates,
    /// A meta command.
    Meta(meta::Request<'a>),
}

/// A request for the data of one or more keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Get<'a> {
    /// The keys, each 1 to 250 bytes. Only `gat` and `gats` may have none.
    pub keys: Words<'a>,
    /// Whether the reply has CAS values: `gets`, `gats`.
    pub with_cas: bool,
    /// For `gat` and `gats`: the new expiration time, see [`Store::exptime`].
    pub touch: Option<i64>,
}

impl<'a> Request<'a> {
    /// Parses `frame`, one whole request.
    ///
    /// ```
    /// use psp_protocols::memcached::text::Request;
    ///
    /// let request = Request::parse(b"delete key noreply\r\n");
    /// assert_eq!(request, Ok(Request::Delete { key: b"key", noreply: true }));
    /// ```
    ///
    /// # Errors
    /// [`RequestError`], which is the reply to the request. If the frame has no data block, the block
    /// was too long for the framing.
    #[inline]
    pub fn parse(frame: &'a [u8]) -> Result<Self, RequestError> {
        let (line, block) = split_line(frame);
        let mut words = Words::new(line);
        let name = words.next().unwrap_or_default();
        match name {
            b"get" | b"bget" => get(words, false).map(Self::Get),
            b"gets" => get(words, true).map(Self::Get),
            b"gat" => get_and_touch(words, false).map(Self::Get),
            b"gats" => get_and_touch(words, true).map(Self::Get),
            b"delete" => delete(words),
            b"incr" => arithmetic(words, false),
            b"decr" => arithmetic(words, true),
            b"touch" => touch(words),
            b"flush_all" => flush_all(words),
            b"verbosity" => verbosity(words),
            b"version" => Ok(Self::Version),
            b"stats" => Ok(Self::Stats { args: words }),
            b"quit" => Ok(Self::Quit),
            b"shutdown" => shutdown(words),
            b"lru_crawler" => match FewWords::new(words).as_slice() {
                [b"metadump", classes] => Ok(Self::Metadump { classes }),
                [b"enable" | b"disable"] | [b"crawl", _] => Ok(Self::Crawler),
                [b"sleep" | b"tocrawl", number] => match parse_number::<u32>(number) {
                    Some(_) => Ok(Self::Crawler),
                    None => Err(BAD_FORMAT),
                },
                _ => Err(ERROR),
            },
            b"cache_memlimit" => memory_limit(words),
            b"refresh_certs" => Ok(Self::RefreshCertificates),
            b"watch" if words.all(is_watched) => Ok(Self::Watch),
            _ => match StorageVerb::from_name(name) {
                Some(StorageVerb::Text { mode, with_cas }) => {
                    Store::parse(mode, with_cas, words, block).map(Self::Store)
                }
                _ => meta::Request::parse(name, words, block).map(Self::Meta),
            },
        }
    }

    /// Whether the client asked for no reply (`noreply`, `quit`). False for meta commands with the flag
    /// `q`, which get some replies.
    #[must_use]
    pub fn noreply(&self) -> bool {
        match self {
            Self::Store(Store { noreply, .. })
            | Self::Delete { noreply, .. }
            | Self::Arithmetic { noreply, .. }
            | Self::Touch { noreply, .. }
            | Self::FlushAll { noreply, .. }
            | Self::MemoryLimit { noreply, .. }
            | Self::Verbosity { noreply } => *noreply,
            Self::Quit => true,
            Self::Get(_)
            | Self::Version
            | Self::Stats { .. }
            | Self::Shutdown { .. }
            | Self::Metadump { .. }
            | Self::Crawler
            | Self::Watch
            | Self::RefreshCertificates
            | Self::Meta(_) => false,
        }
    }
}

fn get(keys: Words<'_>, with_cas: bool) -> Result<Get<'_>, RequestError> {
    if keys.is_empty() {
        return Err(ERROR);
    }
    keyed(Get { keys, with_cas, touch: None })
}

fn get_and_touch(mut words: Words<'_>, with_cas: bool) -> Result<Get<'_>, RequestError> {
    let exptime = words.next().ok_or(ERROR)?;
    keyed(Get {
        touch: Some(parse_number(exptime).ok_or(BAD_EXPTIME)?),
        keys: words,
        with_cas,
    })
}

/// Checks all keys of `get` beforehand, so that no values are sent before an error.
fn keyed(get: Get<'_>) -> Result<Get<'_>, RequestError> {
    let mut keys = get.keys;
    if keys.all(|key| key.len() <= KEY_LEN_MAX) {
        Ok(get)
    } else {
        Err(BAD_FORMAT)
    }
}

fn is_noreply(words: Words<'_>) -> bool {
    words.last_word() == Some(b"noreply")
}

/// The key and the argument of a command. One more word may follow.
fn key_and_argument(words: Words<'_>) -> Result<(&[u8], &[u8]), RequestError> {
    match *FewWords::new(words).as_slice() {
        [key, argument] | [key, argument, _] => {
            if key.len() > KEY_LEN_MAX {
                return Err(BAD_FORMAT.unless(is_noreply(words)));
            }
            Ok((key, argument))
        }
        _ => Err(ERROR),
    }
}

fn delete(words: Words<'_>) -> Result<Request<'_>, RequestError> {
    let (key, noreply) = match *FewWords::new(words).as_slice() {
        [key] | [key, b"0"] => (key, false),
        [key, b"noreply"] | [key, b"0", b"noreply"] => (key, true),
        [_, _] | [_, _, _] => return Err(BAD_DELETE.unless(is_noreply(words))),
        _ => return Err(ERROR),
    };
    if key.len() > KEY_LEN_MAX {
        return Err(BAD_FORMAT.unless(noreply));
    }
    Ok(Request::Delete { key, noreply })
}

fn arithmetic(words: Words<'_>, decrement: bool) -> Result<Request<'_>, RequestError> {
    let (key, delta) = key_and_argument(words)?;
    let noreply = is_noreply(words);
    Ok(Request::Arithmetic {
        key,
        delta: parse_number(delta).ok_or(BAD_DELTA.unless(noreply))?,
        decrement,
        noreply,
    })
}

fn touch(words: Words<'_>) -> Result<Request<'_>, RequestError> {
    let (key, exptime) = key_and_argument(words)?;
    let noreply = is_noreply(words);
    Ok(Request::Touch {
        key,
        exptime: parse_number(exptime).ok_or(BAD_EXPTIME.unless(noreply))?,
        noreply,
    })
}

fn flush_all(words: Words<'_>) -> Result<Request<'_>, RequestError> {
    let noreply = is_noreply(words);
    let delay_s = match *FewWords::new(words).as_slice() {
        [] | [b"noreply"] => 0,
        [delay] | [delay, _] => parse_number(delay).ok_or(BAD_EXPTIME.unless(noreply))?,
        _ => return Err(ERROR),
    };
    Ok(Request::FlushAll { delay_s, noreply })
}

fn verbosity(words: Words<'_>) -> Result<Request<'_>, RequestError> {
    let noreply = is_noreply(words);
    match *FewWords::new(words).as_slice() {
        [level] | [level, _] => match parse_number::<u32>(level) {
            Some(_) => Ok(Request::Verbosity { noreply }),
            None => Err(BAD_FORMAT.unless(noreply)),
        },
        _ => Err(ERROR),
    }
}

fn memory_limit(words: Words<'_>) -> Result<Request<'_>, RequestError> {
    let noreply = is_noreply(words);
    let mib = match *FewWords::new(words).as_slice() {
        [mib] | [mib, _] => parse_number(mib).ok_or(ERROR.unless(noreply))?,
        _ => return Err(ERROR),
    };
    match mib {
        ..MEMORY_MIB_MIN => Err(MEMORY_LIMIT_TOO_SMALL.unless(noreply)),
        MEMORY_MIB_MIN..=MEMORY_MIB_MAX => Ok(Request::MemoryLimit { mib, noreply }),
        _ => Err(MEMORY_LIMIT_NOT_IN_MIB.unless(noreply)),
    }
}

/// Whether a word names what `watch` shows.
fn is_watched(word: &[u8]) -> bool {
    matches!(
        word,
        b"rawcmds" | b"evictions" | b"fetchers" | b"mutations" | b"sysevents" | b"connevents"
    )
}

fn shutdown(words: Words<'_>) -> Result<Request<'_>, RequestError> {
    match *FewWords::new(words).as_slice() {
        [] => Ok(Request::Shutdown { graceful: false }),
        [b"graceful"] => Ok(Request::Shutdown { graceful: true }),
        _ => Err(BAD_SHUTDOWN),
    }
}

#[cfg(test)]
mod tests {
    use crate::memcached::text::StoreMode;

    use super::*;

    /// The reply to a request that is refused; `None` for a valid one.
    fn refusal(frame: &[u8]) -> Option<&'static str> {
        Request::parse(frame).err().map(|error| if error.noreply { "" } else { error.text })
    }

    const FORMAT: &str = "CLIENT_ERROR bad command line format";
    const EXPTIME: &str = "CLIENT_ERROR invalid exptime argument";
    const DELTA: &str = "CLIENT_ERROR invalid numeric delta argument";
    const DELETE: &str = "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]";

    /// Lines, and the errors of memcached 1.6.18, except for numbers beyond 32 bits. `{long}` is a key that is too
    /// long.
    const REFUSALS: &[(&str, &str)] = &[
        ("", "ERROR"),
        ("a", "ERROR"),
        ("GET k", "ERROR"),
        ("get\tk", "ERROR"),
        ("get", "ERROR"),
        ("get ", "ERROR"),
        ("gat", "ERROR"),
        ("gat abc k", EXPTIME),
        ("gat k", EXPTIME),
        ("get {long}", FORMAT),
        ("get a {long}", FORMAT),
        ("set k 0 0", "ERROR"),
        ("set k 0 0 1 2 3", "ERROR"),
        ("set k 0 0 abc", FORMAT),
        ("set k 0 0 -1", FORMAT),
        ("set k -1 0 1", FORMAT),
        ("set k 0 0 1x", FORMAT),
        ("set k 0 0 2147483647", FORMAT),
        ("set k 0 0 4294967297", FORMAT),
        ("set k 0 99999999999999999999 1", FORMAT),
        ("set k 0 0 noreply", ""),
        ("set k 0 0 abc noreply", ""),
        ("set {long} 0 0 1", FORMAT),
        ("set k 0 0 1", "SERVER_ERROR object too large for cache"),
        ("set k 0 0 1 noreply", ""),
        ("cas k 0 0 1", "ERROR"),
        ("cas k 0 0 1 x", FORMAT),
        ("cas k 0 0 1 -5", FORMAT),
        ("incr k", "ERROR"),
        ("incr k 1 2 3", "ERROR"),
        ("incr k -1", DELTA),
        ("decr k abc", DELTA),
        ("incr k 18446744073709551616", DELTA),
        ("incr k x noreply", ""),
        ("incr {long} 1", FORMAT),
        ("touch k", "ERROR"),
        ("touch k abc", EXPTIME),
        ("delete", "ERROR"),
        ("delete k 1", DELETE),
        ("delete k foo", DELETE),
        ("delete k 0 noreply x", "ERROR"),
        ("delete {long}", FORMAT),
        ("flush_all abc", EXPTIME),
        ("flush_all 0 x y", "ERROR"),
        ("verbosity", "ERROR"),
        ("verbosity abc", FORMAT),
        ("verbosity noreply", ""),
        ("verbosity 0 1 2", "ERROR"),
        ("shutdown now", "CLIENT_ERROR invalid shutdown mode"),
        ("lru_crawler", "ERROR"),
        ("lru_crawler metadump", "ERROR"),
        ("cache_memlimit 7", "MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m"),
        ("cache_memlimit 8000000000", "ERROR"),
        ("cache_memlimit 1000000001", "MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes"),
        ("watch fetchers nonsense", "ERROR"),
        ("mx", "ERROR"),
    ];

    #[test]
    fn refusals_are_those_of_memcached() {
        let long = "k".repeat(KEY_LEN_MAX + 1);
        for (line, text) in REFUSALS {
            for end in ["\r\n", "\n", " \r\n"] {
                let frame = line.replace("{long}", &long) + end;
                assert_eq!(refusal(frame.as_bytes()), Some(*text), "{frame:?}");
            }
        }
        for block in ["ab\r\n", "ab\n", "abc"] {
            let frame = format!("set k 0 0 {}\r\n{block}", block.len() - 2);
            let expected = (block != "ab\r\n").then_some("CLIENT_ERROR bad data chunk");
            assert_eq!(refusal(frame.as_bytes()), expected, "{frame:?}");
        }
    }

    fn parse(frame: &str) -> Request<'_> {
        Request::parse(frame.as_bytes()).expect(frame)
    }

    #[test]
    fn storage_commands() {
        let store = Store {
            mode: StoreMode::Set,
            key: b"k",
            flags: 7,
            exptime: -1,
            cas: None,
            data: b"a\r\nb",
            noreply: false,
        };
        for (name, mode) in [
            ("set", StoreMode::Set),
            ("add", StoreMode::Add),
            ("replace", StoreMode::Replace),
            ("append", StoreMode::Append),
            ("prepend", StoreMode::Prepend),
        ] {
            let store = Store { mode, ..store };
            let frame = format!("{name} k 7 -1 4\r\na\r\nb\r\n");
            assert_eq!(parse(&frame), Request::Store(store));
            let frame = format!("{name} k 7 -1 4  noreply \na\r\nb\r\n");
            let noreply = Store { noreply: true, ..store };
            assert_eq!(parse(&frame), Request::Store(noreply));
        }
        let cas = Store { cas: Some(u64::MAX), ..store };
        let frame = "cas k 7 -1 4 18446744073709551615\r\na\r\nb\r\n";
        assert_eq!(parse(frame), Request::Store(cas));
        let empty = Store { data: b"", ..store };
        assert_eq!(parse("set k 7 -1 0\r\n\r\n"), Request::Store(empty));
        let cas = Store { cas: Some(5), noreply: true, ..empty };
        assert_eq!(parse("cas k 7 -1 0 5 noreply\r\n\r\n"), Request::Store(cas));
        // As in memcached, an unknown last word is ignored.
        assert_eq!(parse("set k 7 -1 0 foo\r\n\r\n"), Request::Store(empty));
    }

    #[test]
    fn retrieval_commands() {
        for (line, keys, with_cas, touch) in [
            ("get k", &["k"][..], false, None),
            ("bget k", &["k"], false, None),
            ("  gets  a b  c ", &["a", "b", "c"], true, None),
            ("gat 10 a b", &["a", "b"], false, Some(10)),
            ("gats -1 a", &["a"], true, Some(-1)),
            ("gat 0", &[], false, Some(0)),
            ("get noreply", &["noreply"], false, None),
        ] {
            let frame = format!("{line}\r\n");
            let Request::Get(get) = parse(&frame) else {
                panic!("{line} is a get");
            };
            assert!(get.keys.eq(keys.iter().map(|key| key.as_bytes())), "{line}");
            assert_eq!((get.with_cas, get.touch), (with_cas, touch), "{line}");
            assert!(!parse(&frame).noreply());
        }
    }

    #[test]
    fn keys_may_be_as_long_as_the_limit() {
        let key = "k".repeat(KEY_LEN_MAX);
        for line in ["incr {} 1", "touch {} 0", "delete {}", "mg {} v", "md {}"] {
            let frame = format!("{}\r\n", line.replace("{}", &key));
            assert!(Request::parse(frame.as_bytes()).is_ok(), "{frame}");
        }
    }

    #[test]
    fn other_commands() {
        let delete = |key, noreply| Request::Delete { key, noreply };
        let arithmetic = |delta, decrement, noreply| Request::Arithmetic { key: b"k", delta, decrement, noreply };
        let touch = |exptime, noreply| Request::Touch { key: b"k", exptime, noreply };
        let flush = |delay_s, noreply| Request::FlushAll { delay_s, noreply };
        let memory_limit = |mib, noreply| Request::MemoryLimit { mib, noreply };
        for (line, request) in [
            ("delete k", delete(b"k", false)),
            ("delete k 0", delete(b"k", false)),
            ("delete k noreply", delete(b"k", true)),
            ("delete k 0 noreply", delete(b"k", true)),
            ("delete noreply", delete(b"noreply", false)),
            ("incr k 5", arithmetic(5, false, false)),
            ("incr k 5 foo", arithmetic(5, false, false)),
            ("decr k 18446744073709551615 noreply", arithmetic(u64::MAX, true, true)),
            ("touch k 0", touch(0, false)),
            ("touch k -5 noreply", touch(-5, true)),
            ("flush_all", flush(0, false)),
            ("flush_all -1", flush(-1, false)),
            ("flush_all noreply", flush(0, true)),
            ("flush_all 10 noreply", flush(10, true)),
            ("verbosity 1", Request::Verbosity { noreply: false }),
            ("verbosity 1 noreply", Request::Verbosity { noreply: true }),
            ("version", Request::Version),
            ("version x", Request::Version),
            ("quit", Request::Quit),
            ("shutdown", Request::Shutdown { graceful: false }),
            ("shutdown graceful", Request::Shutdown { graceful: true }),
            ("lru_crawler metadump all", Request::Metadump { classes: b"all" }),
            ("lru_crawler enable", Request::Crawler),
            ("lru_crawler sleep 100", Request::Crawler),
            ("cache_memlimit 8", memory_limit(8, false)),
            ("cache_memlimit 100 noreply", memory_limit(100, true)),
            ("watch", Request::Watch),
            ("refresh_certs", Request::RefreshCertificates),
            ("watch fetchers mutations", Request::Watch),
        ] {
            assert_eq!(parse(&format!("{line} \r\n")), request);
        }
        let Request::Stats { args } = parse("stats detail on\r\n") else {
            panic!("stats");
        };
        assert!(args.eq([&b"detail"[..], b"on"]));
    }
}
