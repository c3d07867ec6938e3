//! Properties of RESP requests: framing and arguments.

use proptest::prelude::*;
use psp_protocols::Framing;
use psp_protocols::resp::{Args, CommandId, Resp, encode_command};

use crate::stream;
use crate::stream::resp_oracle as oracle;

type Command = Vec<Vec<u8>>;

fn command() -> impl Strategy<Value = Command> {
    prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 1..12)
}

fn encoded(command: &Command) -> Vec<u8> {
    let args: Vec<&[u8]> = command.iter().map(Vec::as_slice).collect();
    let mut out = Vec::new();
    encode_command(&args, &mut out);
    out
}

/// An inline command in which every special byte is an escape.
fn quoted(command: &Command) -> Vec<u8> {
    let words = command.iter().map(|arg| {
        let text: String = arg
            .iter()
            .map(|byte| match byte {
                b'a'..=b'z' | b' ' | b'\'' => char::from(*byte).to_string(),
                _ => format!("\\x{byte:02x}"),
            })
            .collect();
        format!("\"{text}\"")
    });
    (words.collect::<Vec<_>>().join(" ") + "\r\n").into_bytes()
}

fn parsed(frame: &[u8]) -> Command {
    let head = Resp::default().head_of(frame).expect("a whole frame");
    let mut unescaped = Vec::new();
    let args = Args::new(frame, &head, &mut unescaped);
    args.iter().map(|arg| arg.to_vec()).collect()
}

/// Random bytes with many parts of RESP among them.
fn resp_like() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => prop::sample::select(vec![
            &b"*"[..], b"$", b"\r\n", b"\n", b"\r", b"-", b"0", b"1", b"2", b"3", b"10", b"99999",
            b"\"", b"'", b"\\x4", b" ", b"ab", b"*1\r\n$1\r\na\r\n", b"*2\r\n", b"$0\r\n\r\n",
            b"$3\r\nGET\r\n", b"9223372036854775807",
        ]).prop_map(<[u8]>::to_vec),
        1 => prop::collection::vec(any::<u8>(), 0..4),
    ];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

fn small_limits() -> Resp {
    Resp::default().bulk_len_max(20).elements_max(4).inline_len_max(24).frame_len_max(40)
}

proptest! {
    #[test]
    fn any_split_of_commands_gives_the_same_frames(
        (commands, splits) in prop::collection::vec((command(), any::<bool>()), 1..6)
            .prop_flat_map(|commands| {
                let len = commands.iter().map(|(command, as_line)| {
                    if *as_line { quoted(command).len() } else { encoded(command).len() }
                }).sum();
                (Just(commands), stream::cuts(len))
            })
    ) {
        let frames: Vec<Vec<u8>> = commands
            .iter()
            .map(|(command, as_line)| if *as_line { quoted(command) } else { encoded(command) })
            .collect();
        let bytes = frames.concat();
        let resp = Resp::default();
        let expected = (frames, None);
        prop_assert_eq!(&stream::feed(&resp, &bytes, &splits), &expected);
        prop_assert_eq!(&stream::feed(&resp, &bytes, &stream::every_byte(&bytes)), &expected);
    }

    #[test]
    fn any_split_of_garbage_gives_the_same_error(
        (bytes, splits) in stream::with_cuts(resp_like())
    ) {
        for resp in [Resp::default(), small_limits()] {
            let whole = stream::feed(&resp, &bytes, &[]);
            prop_assert_eq!(&stream::feed(&resp, &bytes, &splits), &whole);
            prop_assert_eq!(&stream::feed(&resp, &bytes, &stream::every_byte(&bytes)), &whole);
        }
    }

    #[test]
    fn arguments_survive_encoding_and_parsing(command in command()) {
        for frame in [encoded(&command), quoted(&command)] {
            prop_assert_eq!(parsed(&frame), command.clone());
        }
    }

    #[test]
    fn heads_say_what_the_frame_holds(
        command in command(),
        name in prop::sample::select(vec!["get", "SET", "ZRangeByScore", "nosuch"]),
    ) {
        let named: Command = std::iter::once(name.into()).chain(command.clone()).collect();
        for command in [command, named] {
            oracle::check_head(&encoded(&command));
            oracle::check_head(&quoted(&command));
        }
    }

    #[test]
    fn heads_of_whatever_is_a_frame(bytes in resp_like()) {
        let (frames, _) = stream::feed(&Resp::default(), &bytes, &[]);
        for frame in frames {
            oracle::check_head(&frame);
        }
    }

    #[test]
    fn heads_of_words_with_quotes(
        words in prop::collection::vec(
            prop::sample::select(vec![
                "get", "a", "\"\"", "''", "'a b'", "\"a\"", "x\"y z\"", "\"\\x41\"", "'it\\'s'", "\"\\\"\"",
            ]),
            0..9,
        ),
        spaces in prop::sample::select(vec![" ", "\t", "  "]),
        line_end in prop::sample::select(vec!["\n", "\r\n", " \r\n"]),
    ) {
        oracle::check_head((words.join(spaces) + line_end).as_bytes());
    }

    #[test]
    fn the_head_of_one_frame_bounds_the_arguments_of_another(
        frame in prop_oneof![
            command().prop_map(|command| encoded(&command)),
            command().prop_map(|command| quoted(&command)),
        ],
        other in resp_like(),
    ) {
        let head = Resp::default().head_of(&frame).expect("a whole frame");
        let mut unescaped = Vec::new();
        let args = Args::new(&other, &head, &mut unescaped);
        prop_assert!(args.len() <= head.arg_count());
        prop_assert!(args.iter().all(|arg| arg.len() <= other.len()));
    }
}

#[test]
fn arguments_beyond_those_with_known_places_are_found() {
    let sizes = [3, 0, 65_000, 600, 70_000, 5, 1, 2, 3, 4];
    for first in 0..sizes.len() {
        let command: Command = sizes[first..].iter().map(|len| vec![b'x'; *len]).collect();
        oracle::check_head(&encoded(&command));
    }
    let get = Resp::default().head_of(b"*2\r\n$3\r\nget\r\n$1\r\nk\r\n");
    assert_eq!(get.map(|head| head.command()), Some(CommandId::of(b"GET")));
}

#[test]
fn quotes_in_an_array_are_part_of_the_name() {
    let head = Resp::default().head_of(b"*1\r\n$5\r\n\"get\"\r\n").expect("a frame");
    assert_eq!(head.command(), CommandId::UNKNOWN);
}

#[test]
fn a_frame_byte_by_byte_is_read_in_linear_time() {
    // Each call may read the header of one element and the new bytes, but not bytes that it has read
    // before: a megabyte in single bytes would otherwise take some 10^11 steps.
    let command: Command = (0..50_000).map(|_| b"0123456789".to_vec()).collect();
    let bytes = encoded(&command);
    let (frames, error) = stream::feed(&Resp::default(), &bytes, &stream::every_byte(&bytes));
    assert_eq!((frames.len(), error), (1, None));
    let line = [&b"echo "[..], &vec![b'a'; 65_000], b"\r\n"].concat();
    let (frames, error) = stream::feed(&Resp::default(), &line, &stream::every_byte(&line));
    assert_eq!((frames, error), (vec![line], None));
}
