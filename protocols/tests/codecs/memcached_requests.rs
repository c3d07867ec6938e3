//! Properties of memcached requests: framing and parsing.

use proptest::prelude::*;
use psp_protocols::Framing;
use psp_protocols::memcached::binary::{self, BinaryFraming, HEADER_LEN, Header, RequestParts, encode_request};
use psp_protocols::memcached::text::{self, Request, Store, StoreMode, TextFraming};
use psp_protocols::memcached::{MemcachedFraming, is_binary};

use crate::stream;

fn key() -> impl Strategy<Value = String> {
    "[!-~]{1,20}"
}

fn data() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![prop::collection::vec(any::<u8>(), 0..40), Just(b"\r\nget k\r\n".to_vec()),]
}

fn line_end() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["\r\n", "\n", " \r\n"])
}

/// A line that announces `data`, and the data.
fn with_block(line: &str, end: &str, data: &[u8]) -> Vec<u8> {
    [line.as_bytes(), end.as_bytes(), data, b"\r\n"].concat()
}

fn text_request() -> impl Strategy<Value = Vec<u8>> {
    let store = (
        prop::sample::select(vec!["set", "add", "replace", "append", "prepend"]),
        key(),
        data(),
        prop::sample::select(vec!["", " noreply"]),
        line_end(),
    )
        .prop_map(|(name, key, data, last, end)| {
            let len = data.len();
            with_block(&format!("{name} {key} 1 0 {len}{last}"), end, &data)
        });
    let meta_set = (key(), data(), line_end())
        .prop_map(|(key, data, end)| with_block(&format!("ms {key} {} T0 c", data.len()), end, &data));
    let get = (prop::collection::vec(key(), 1..40), line_end())
        .prop_map(|(keys, end)| format!("get {}{end}", keys.join(" ")).into_bytes());
    let other = (
        prop::sample::select(vec![
            "delete k",
            "incr k 1",
            "touch k 0",
            "version",
            "mn",
            "mg k v O1",
            "md k q",
            "stats",
            "verbosity 1",
            "set k",
            "",
            "nonsense",
        ]),
        line_end(),
    )
        .prop_map(|(line, end)| format!("{line}{end}").into_bytes());
    prop_oneof![store, meta_set, get, other]
}

/// Words that a command may take in their places, or refuse.
fn word() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<i64>().prop_map(|number| number.to_string()),
        prop::sample::select(vec!["0", "4294967296", "99999999999999999999", "x", "T0", "c", "noreply"])
            .prop_map(str::to_owned),
        key(),
    ]
}

/// The line of a storage command that announces `data_len` bytes, whatever its other words are.
fn storage_line(data_len: usize) -> impl Strategy<Value = String> {
    let words = |count| prop::collection::vec(word(), count);
    let key = prop_oneof![key(), Just("k".repeat(300))];
    let text = (
        prop::sample::select(vec!["set", "add", "replace", "append", "prepend", "cas"]),
        key.clone(),
        words(2..=2),
        words(0..=4),
    )
        .prop_map(move |(name, key, before, after)| {
            format!("{name} {key} {} {data_len} {}\r\n", before.join(" "), after.join(" "))
        });
    let meta =
        (key, words(0..=24)).prop_map(move |(key, flags)| format!("ms {key} {data_len} {}\r\n", flags.join(" ")));
    prop_oneof![text, meta]
}

fn binary_request() -> impl Strategy<Value = Vec<u8>> {
    let part = |len_max| prop::collection::vec(any::<u8>(), 0..len_max);
    (0_u8..0x28, part(24), part(20), part(60), any::<u32>()).prop_map(|(opcode, extras, key, value, opaque)| {
        let parts = RequestParts {
            opcode,
            opaque,
            cas: 0,
            extras: &extras,
            key: &key,
            value: &value,
        };
        let mut frame = Vec::new();
        encode_request(&parts, &mut frame);
        frame
    })
}

/// Random bytes with many parts of requests among them.
fn garbage() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        6 => prop::sample::select(vec![
            &b"set k 0 0 "[..], b"ms k ", b"get ", b"mg k v", b"cas k 0 0 3 1", b"\r\n", b"\n",
            b"\r", b" ", b"0", b"1", b"5", b"-1", b"99", b"4294967297", b"noreply", b"abc",
            b"\x80", b"\x80\x01\x00\x01\x08\x00\x00\x00\x00\x00\x00", b"\0", b"\x01",
        ]).prop_map(<[u8]>::to_vec),
        1 => prop::collection::vec(any::<u8>(), 0..4),
        1 => text_request(),
        1 => binary_request(),
    ];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

fn small_limits() -> MemcachedFraming {
    MemcachedFraming::default()
        .text(
            TextFraming::default()
                .line_len_max(30)
                .get_line_len_max(50)
                .get_words_max(8)
                .item_len_max(80),
        )
        .binary(BinaryFraming::default().item_len_max(80))
}

/// Parses a frame and checks that the result lies within the frame.
fn parse(frame: &[u8]) {
    if is_binary(frame) {
        if let Some(Ok(request)) = binary::Request::parse(frame) {
            assert!(request.key.len() + request.value.len() + HEADER_LEN <= frame.len());
        }
        return;
    }
    if let Ok(Request::Get(get)) = Request::parse(frame) {
        assert!(get.keys.map(<[u8]>::len).sum::<usize>() < frame.len());
    }
}

proptest! {
    #[test]
    fn any_split_of_requests_gives_the_same_frames(
        (requests, splits) in prop::collection::vec(
            prop_oneof![text_request(), binary_request()], 1..8,
        ).prop_flat_map(|requests| {
            let len = requests.concat().len();
            (Just(requests), stream::cuts(len))
        })
    ) {
        let bytes = requests.concat();
        let framing = MemcachedFraming::default();
        let expected = (requests, None);
        prop_assert_eq!(&stream::feed(&framing, &bytes, &splits), &expected);
        prop_assert_eq!(&stream::feed(&framing, &bytes, &stream::every_byte(&bytes)), &expected);
    }

    #[test]
    fn any_split_of_garbage_gives_the_same_error((bytes, splits) in stream::with_cuts(garbage())) {
        for framing in [MemcachedFraming::default(), small_limits()] {
            let whole = stream::feed(&framing, &bytes, &[]);
            prop_assert_eq!(&stream::feed(&framing, &bytes, &splits), &whole);
            prop_assert_eq!(&stream::feed(&framing, &bytes, &stream::every_byte(&bytes)), &whole);
            for frame in &whole.0 {
                parse(frame);
            }
        }
    }

    #[test]
    fn arbitrary_bytes_are_parsed_without_panic(bytes in garbage()) {
        parse(&bytes);
        let framing = MemcachedFraming::default();
        let mut out = Vec::new();
        framing.encode_rejection(&psp_protocols::Rejection::HandlerFailed, &bytes, &mut out);
        prop_assert!(framing.discard_after(&bytes, &()) <= u64::from(u32::MAX));
    }

    #[test]
    fn data_that_is_too_large_is_discarded(data in prop::collection::vec(any::<u8>(), 81..200)) {
        let len = data.len();
        let lines = [format!("set k 0 0 {len}\r\n"), format!("ms k {len} c\r\n")];
        let mut bytes = Vec::new();
        let mut expected = Vec::new();
        for line in &lines {
            bytes.extend_from_slice(line.as_bytes());
            bytes.extend_from_slice(&data);
            bytes.extend_from_slice(b"\r\nmn\r\n");
            let error = Request::parse(line.as_bytes()).expect_err("there is no data");
            prop_assert_eq!(error.text, "SERVER_ERROR object too large for cache");
            expected.extend([line.as_bytes().to_vec(), b"mn\r\n".to_vec()]);
        }
        let found = stream::feed(&small_limits(), &bytes, &stream::every_byte(&bytes));
        prop_assert_eq!(found, (expected, None));
    }

    #[test]
    fn data_of_a_storage_line_never_run_as_commands(
        (line, data) in prop::collection::vec(
            prop::sample::select(vec!["flush_all\r\n", "set k 0 0 1\r\n", "a\r\n", "\n", "xyz"]), 0..30,
        ).prop_flat_map(|pieces| {
            let data = pieces.concat();
            (storage_line(data.len()), Just(data))
        })
    ) {
        let bytes = format!("{line}{data}\r\nmn\r\n").into_bytes();
        for framing in [MemcachedFraming::default(), small_limits()] {
            let (frames, error) = stream::feed(&framing, &bytes, &stream::every_byte(&bytes));
            if let [first, rest @ ..] = &frames[..] {
                let whole = format!("{line}{data}\r\n");
                prop_assert!(*first == whole.as_bytes() || *first == line.as_bytes());
                prop_assert_eq!((rest, error), (&[b"mn\r\n".to_vec()][..], None));
            } else {
                // The line is too long for the limits.
                prop_assert!(error.is_some());
            }
        }
    }

    #[test]
    fn arguments_survive_encoding_and_parsing(
        key in key(),
        flags in any::<u32>(),
        exptime in any::<i64>(),
        cas in any::<u64>(),
        data in data(),
    ) {
        let len = data.len();
        let frame = with_block(&format!("cas {key} {flags} {exptime} {len} {cas}"), "\r\n", &data);
        let store = Store {
            mode: StoreMode::Set,
            key: key.as_bytes(),
            flags,
            exptime,
            cas: Some(cas),
            data: &data,
            noreply: false,
        };
        prop_assert_eq!(Request::parse(&frame), Ok(Request::Store(store)));
    }

    #[test]
    fn headers_survive_encoding(bytes in prop::array::uniform24(any::<u8>())) {
        let header = Header::decode(&bytes).expect("24 bytes");
        let mut expected = bytes;
        // Encoding always writes the data type of raw bytes.
        expected[5] = 0;
        prop_assert_eq!(header.encode(), expected);
    }
}

#[test]
fn a_frame_byte_by_byte_is_read_in_linear_time() {
    let framing = TextFraming::default();
    let get = format!("get {}\r\n", "key:0000012345 ".repeat(20_000)).into_bytes();
    let set = with_block("set k 0 0 500000", "\r\n", &[b'a'; 500_000]);
    for frame in [get, set] {
        let found = stream::feed(&framing, &frame, &stream::every_byte(&frame));
        assert_eq!(found, (vec![frame], None));
    }
}

#[test]
fn limits_are_those_of_memcached() {
    use psp_protocols::memcached::binary::{Command, Opcode};
    use psp_protocols::memcached::{KEY_LEN_MAX, data_len_max};
    assert_eq!((data_len_max(1 << 20, 1), data_len_max(10, 1)), (1_048_516, 0));
    for (number, command) in [(0x20, Command::SaslList), (0x21, Command::SaslAuth), (0x22, Command::SaslStep)] {
        assert_eq!(Opcode::from_number(number).map(|opcode| opcode.command), Some(command));
    }
    let (mut frame, key) = (Vec::new(), [b'k'; KEY_LEN_MAX]);
    let parts = RequestParts {
        opcode: 0,
        opaque: 0,
        cas: 0,
        extras: &[],
        key: &key,
        value: &[],
    };
    encode_request(&parts, &mut frame);
    assert!(matches!(binary::Request::parse(&frame), Some(Ok(_))));
    let refusal = |line: &[u8]| Request::parse(line).expect_err("a refusal");
    assert!(refusal(b"set k 0 0 1\r\n").is_too_large() && !refusal(b"nonsense\r\n").is_too_large());
    // The name, the key and 17 flags; the last flag is none.
    let most = "mg k a b c d e f g h i j k l m n o p !\r\n";
    assert!(!refusal(most.as_bytes()).text.ends_with("too long"));
    assert!(refusal(most.replace('!', "! !").as_bytes()).text.ends_with("too long"));
    let Ok(Request::Meta(psp_protocols::memcached::meta::Request::Get(keyed))) = Request::parse(b"mg k v\r\n") else {
        panic!("mg");
    };
    assert!(!keyed.flags.quiet());
}

#[test]
fn a_multiget_has_all_its_keys() {
    let frame = format!("get {}\r\n", "key:0000012345 ".repeat(1000));
    let Ok(Request::Get(text::Get { keys, .. })) = Request::parse(frame.as_bytes()) else {
        panic!("a get");
    };
    assert_eq!(keys.count(), 1000);
}
