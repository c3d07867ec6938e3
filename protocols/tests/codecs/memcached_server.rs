//! Compares refusals with those of memcached itself, and reads memcached's replies. Ignored by default:
//! the test needs the program `memcached`, version 1.6.18 or close.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use psp_protocols::memcached::text::Request;
use psp_protocols::memcached::{MemcachedFraming, MemcachedSkipper};
use psp_protocols::skip::{Outcome, ReplySkipper, Skipped};
use psp_protocols::{Framing, Step};

/// Longest wait for a reply. It is long enough for any machine, so that only failing tests reach it.
const PATIENCE: Duration = Duration::from_secs(30);

struct Memcached {
    process: Child,
    socket: PathBuf,
}

impl Memcached {
    fn start() -> Self {
        let name = format!("psp-memcached-{}.sock", std::process::id());
        let socket = std::env::temp_dir().join(name);
        let process = Command::new("memcached")
            .args(["-u", "root", "-a", "700", "-s"])
            .arg(&socket)
            .stdin(Stdio::null())
            .spawn()
            .expect("memcached starts");
        Self { process, socket }
    }

    fn connect(&self) -> UnixStream {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match UnixStream::connect(&self.socket) {
                Ok(stream) => {
                    stream.set_read_timeout(Some(PATIENCE)).unwrap();
                    return stream;
                }
                Err(error) => assert!(Instant::now() < deadline, "{error}"),
            }
            std::thread::yield_now();
        }
    }
}

impl Drop for Memcached {
    fn drop(&mut self) {
        self.process.kill().expect("it runs");
        self.process.wait().expect("it is our child");
        // memcached may have ended before it created its socket.
        let _ = std::fs::remove_file(&self.socket);
    }
}

/// Sends `request` and `mn`, and returns the replies to `request` and their outcomes.
fn ask(stream: &mut UnixStream, request: &[u8]) -> (Vec<u8>, Vec<Outcome>) {
    stream.write_all(request).unwrap();
    stream.write_all(b"mn\r\n").unwrap();
    let mut skipper = MemcachedSkipper::default();
    let mut bytes = Vec::new();
    let mut outcomes = Vec::new();
    let (mut skipped, mut reply_start) = (0, 0);
    loop {
        let mut buffer = [0; 4096];
        let count = stream.read(&mut buffer).expect("a reply");
        assert!(count > 0, "closed after {}", request.escape_ascii());
        bytes.extend_from_slice(&buffer[..count]);
        while skipped < bytes.len() {
            match skipper.skip(&bytes[skipped..]) {
                Ok(Skipped::Reply { len, outcome }) => {
                    skipped += len;
                    if bytes[reply_start..skipped] == *b"MN\r\n" {
                        bytes.truncate(reply_start);
                        return (bytes, outcomes);
                    }
                    outcomes.push(outcome);
                    reply_start = skipped;
                }
                Ok(Skipped::NeedMore) => skipped = bytes.len(),
                Err(error) => panic!("{error}: {}", bytes.escape_ascii()),
            }
        }
    }
}

/// The reply with which this crate refuses `request`; `None` for a valid request.
fn refusal(request: &[u8]) -> Option<Vec<u8>> {
    let framing = MemcachedFraming::default();
    let Ok(Step::Frame { len, head }) = framing.next_frame(&mut Default::default(), request) else {
        panic!("{} is no frame", request.escape_ascii());
    };
    let frame = &request[..len];
    let frame_end = len + usize::try_from(framing.discard_after(frame, &head)).unwrap();
    assert_eq!(frame_end, request.len(), "{}", request.escape_ascii());
    let error = Request::parse(frame).err()?;
    let mut out = Vec::new();
    error.encode(&mut out);
    Some(out)
}

/// Requests, valid ones and others. `{long}` is a key that is too long, `{too_large}` a length and data of that length.
const REQUESTS: &[&str] = &[
    "set k 0 0 1\r\na\r\n",
    "set k 0 0 1 noreply\na\r\n",
    "set k 0 0 1 \r\nab\n",
    "set k 0 0 1 noreply\r\nabc",
    "set k 0 0 -1\r\n",
    "set k 0 0 1x\r\n",
    // memcached runs these data as a command, which has no reply.
    "set k -1 0 19\r\nverbosity 0 noreply\r\n",
    "set k 0 0\r\n",
    "set k 0 0 x noreply\r\n",
    "set k 0 0 {too_large}",
    "ms k {too_large}",
    "set {long} 0 0 19\r\nverbosity 0 noreply\r\n",
    "cas k 0 0 1 0\r\na\r\n",
    "cas k 0 0 19 x\r\nverbosity 0 noreply\r\n",
    "add k 0 0 1\r\na\r\n",
    "append k 0 0 1\r\nb\r\n",
    "get k\r\n",
    "gets k k nosuch \r\n",
    "gat 0 k\n",
    "gat x k\r\n",
    "gat 0\r\n",
    "get\r\n",
    "get k {long}\r\n",
    "incr k 1\r\n",
    "incr nosuch 1\r\n",
    "incr k -1\r\n",
    "incr k 18446744073709551616\r\n",
    "incr k 1 noreply\r\n",
    "touch k 0\r\n",
    "touch k x\r\n",
    "delete k 1\r\n",
    "delete k 0 noreply x\r\n",
    "delete nosuch 0\r\n",
    "verbosity 0\r\n",
    "verbosity x\r\n",
    "version\r\n",
    "stats\r\n",
    "stats items\r\n",
    "stats reset\r\n",
    "flush_all 0 x y\r\n",
    "flush_all x\r\n",
    "nonsense\r\n",
    "\r\n",
    "ms m 2 T0 F5 c\r\nab\r\n",
    "ms m 2 q\r\nabc\r",
    "ms m 2 !\r\nab\r\n",
    "ms m 2 MX\r\nab\r\n",
    "ms m 2 MSS\r\nab\r\n",
    "ms m x\r\n",
    "ms bm9zdWNo 1 b k\r\na\r\n",
    "ms !!! 1 b\r\na\r\n",
    "mg m v t f k O12 c s h l\r\n",
    "mg nosuch v\r\n",
    "mg m v v\r\n",
    "mg m !\r\n",
    "mg m Tx\r\n",
    "mg bm9zdWNo b k v\r\n",
    "mg m Oxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\r\n",
    "ma n N0 J5 v\r\n",
    "ma n v D2\r\n",
    "ma n MX\r\n",
    "ma m\r\n",
    "md m q\r\n",
    "md m v v\r\n",
    "me n\r\n",
    "me nosuch\r\n",
    "me\r\n",
    "flush_all\r\n",
];

#[test]
#[ignore = "needs memcached"]
fn memcached_refuses_alike_and_its_replies_are_understood() {
    let server = Memcached::start();
    let mut stream = server.connect();
    let long = "k".repeat(251);
    let too_large = format!("2000000\r\n{}\r\n", "a".repeat(2_000_000));
    for request in REQUESTS {
        let request = request.replace("{long}", &long).replace("{too_large}", &too_large);
        let (replies, outcomes) = ask(&mut stream, request.as_bytes());
        assert!(outcomes.len() <= 1, "{request:?}: {outcomes:?}");
        match refusal(request.as_bytes()) {
            Some(expected) => {
                let (expected, replies) = (expected.escape_ascii(), replies.escape_ascii());
                assert_eq!(replies.to_string(), expected.to_string(), "{request:?}");
            }
            // memcached may refuse a well-formed request because of the item.
            None if outcomes == [Outcome::Error] => {
                let number = b"CLIENT_ERROR cannot increment or decrement non-numeric value";
                assert_eq!(replies.trim_ascii_end(), number, "{request:?}");
            }
            None => {}
        }
    }
}
