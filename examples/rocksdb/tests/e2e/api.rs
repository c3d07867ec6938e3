//! The effects of the methods, with each engine.

use crate::common::{Connection, ENGINES, Refusal, start};
use psp_protocols::kv::{GET, ScanResponse};
use psp_protocols::rpc::Status;

/// Runs `test` once per engine with a client of a server.
fn with_each_engine(flags: &[&str], config: &str, test: impl Fn(&mut Connection)) {
    for engine in ENGINES {
        eprintln!("engine {engine}");
        let server = start(engine, flags, config);
        test(&mut Connection::open(server.address()));
    }
}

fn keys(response: &ScanResponse) -> Vec<&[u8]> {
    response.pairs.iter().map(|pair| &pair.key[..]).collect()
}

fn status<T>(result: Result<T, Refusal>) -> Status {
    result.err().map_or(Status::Ok, |(status, _)| status)
}

#[test]
fn values_are_set_replaced_and_deleted() {
    with_each_engine(&[], "", |client| {
        assert_eq!(status(client.get(b"k")), Status::NotFound);
        for value in [&b"one"[..], b"", b"\0\xff", &[b'x'; 100_000]] {
            client.put(b"k", value).unwrap();
            assert_eq!(client.get(b"k").unwrap(), value);
        }
        client.delete(b"k").unwrap();
        assert_eq!(status(client.get(b"k")), Status::NotFound);
        // As with RocksDB, a deletion does not check that the key exists.
        client.delete(b"k").unwrap();
    });
}

#[test]
fn scans_return_the_keys_in_order() {
    with_each_engine(&[], "", |client| {
        for key in [&b"b"[..], b"\xff", b"a", b"a\0", b"ab", b"\0"] {
            client.put(key, &[key, b"!"].concat()).unwrap();
        }
        client.delete(b"ab").unwrap();
        let all = client.scan(b"", 100).unwrap();
        assert_eq!(keys(&all), [&b"\0"[..], b"a", b"a\0", b"b", b"\xff"]);
        assert_eq!((all.count, all.truncated), (5, false));
        assert_eq!(all.pairs[1].value, b"a!");
        // From an existing key, from a missing key, up to a count, and beyond the last key.
        assert_eq!(keys(&client.scan(b"a", 2).unwrap()), [&b"a"[..], b"a\0"]);
        assert_eq!(keys(&client.scan(b"ab", 1).unwrap()), [b"b"]);
        assert_eq!(client.scan(b"\xff\xff", 5).unwrap().count, 0);

        let bytes = all.pairs.iter().flat_map(|pair| [&pair.key[..], &pair.value]);
        let checksum = crc32fast::hash(&bytes.collect::<Vec<_>>().concat());
        let summary = ScanResponse { count: 5, checksum, ..ScanResponse::default() };
        assert_eq!(client.summary(b"", 100).unwrap(), summary);
        assert_eq!(all.checksum, checksum);
    });
}

#[test]
fn a_scan_omits_entries_beyond_the_limit_of_bytes() {
    let config = "[limits]\nscan_bytes_max = 1000";
    with_each_engine(&["--preload", "50"], config, |client| {
        // Each entry takes 84 bytes.
        let first = client.scan(b"", 50).unwrap();
        assert_eq!((first.count, first.truncated), (11, true));
        let mut next = first.pairs.last().unwrap().key.clone();
        next.push(0);
        let second = client.scan(&next, 5).unwrap();
        assert_eq!((second.count, second.truncated), (5, false));
        assert_eq!(second.pairs[0].key, b"key:000000000011");
        assert_eq!(client.summary(b"", 50).unwrap().count, 50);
        // The first entry always fits, so that a client makes progress.
        client.put(b"a", &[b'x'; 5_000]).unwrap();
        let large = client.scan(b"", 2).unwrap();
        assert_eq!((keys(&large), large.truncated), (vec![&b"a"[..]], true));
    });
}

#[test]
fn requests_beyond_the_limits_are_refused_and_the_connection_stays_open() {
    let config = "[limits]\nkey_len_max = 10\nvalue_len_max = 100\nscan_count_max = 1000\n";
    let config = format!("preload_value_len = 100\n{config}");
    with_each_engine(&[], &config, |client| {
        let longest = client.put(&[b'k'; 10], &[b'v'; 100]);
        assert_eq!(status(longest), Status::Ok);
        assert_eq!(client.summary(&[b'k'; 10], 1_000).unwrap().count, 1);
        let refused = [
            client.get(b"").map(drop),
            client.get(&[b'k'; 11]).map(drop),
            client.delete(b"").map(drop),
            client.delete(&[b'k'; 11]).map(drop),
            client.put(b"", b"v").map(drop),
            client.put(&[b'k'; 11], b"v").map(drop),
            client.put(b"k", &[b'v'; 101]).map(drop),
            client.scan(&[b'k'; 11], 1).map(drop),
            client.scan(b"", 0).map(drop),
            client.scan(b"", 1_001).map(drop),
        ];
        for (index, refused) in refused.into_iter().enumerate() {
            assert_eq!(status(refused), Status::InvalidArgument, "request {index}");
        }
        let malformed = client.exchange(GET, b"\x0a\x05k").unwrap();
        assert_eq!(malformed.status(), Status::InvalidArgument);
        let unknown = client.exchange("Get", b"").unwrap();
        assert_eq!(unknown.status(), Status::Unimplemented);
        assert_eq!(client.get(&[b'k'; 10]).unwrap(), [b'v'; 100]);
    });
}

#[test]
fn preloaded_keys_exist_from_the_start() {
    with_each_engine(&["--preload", "5000"], "", |client| {
        let summary = client.summary(b"", 6_000).unwrap();
        assert_eq!(summary.count, 5_000);
        assert_eq!(client.get(b"key:000000004999").unwrap().len(), 64);
        assert_eq!(status(client.get(b"key:000000005000")), Status::NotFound);
    });
}
