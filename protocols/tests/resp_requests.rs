//! Properties of RESP requests: framing and arguments.

mod stream;

use proptest::prelude::*;
use psp_protocols::resp::{Args, ArgsIter, Resp, command_name, encode_command};

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

/// An inline command with every byte that could mean something written as an escape.
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
    let mut unescaped = Vec::new();
    let args = Args::parse(frame, &mut unescaped).expect("a whole frame");
    args.iter().map(|arg| arg.to_vec()).collect()
}

/// Bytes that look like RESP more often than chance allows.
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
    Resp {
        bulk_len_max: 20,
        elements_max: 4,
        inline_len_max: 24,
        frame_len_max: 40,
    }
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
    fn any_split_of_garbage_ends_the_same(
        (bytes, splits) in stream::with_cuts(resp_like())
    ) {
        for resp in [Resp::default(), small_limits()] {
            let whole = stream::feed(&resp, &bytes, &[]);
            prop_assert_eq!(&stream::feed(&resp, &bytes, &splits), &whole);
            prop_assert_eq!(&stream::feed(&resp, &bytes, &stream::every_byte(&bytes)), &whole);
        }
    }

    #[test]
    fn arguments_survive_the_way_through_a_frame(command in command()) {
        for frame in [encoded(&command), quoted(&command)] {
            prop_assert_eq!(parsed(&frame), command.clone());
        }
        let frame = encoded(&command);
        let walked: Command = ArgsIter::new(&frame).map(<[u8]>::to_vec).collect();
        prop_assert_eq!(ArgsIter::new(&frame).count_left(), command.len());
        prop_assert_eq!(command_name(&frame), Some(&command[0][..]));
        prop_assert_eq!(walked, command);
    }

    #[test]
    fn every_frame_has_arguments(bytes in resp_like()) {
        let (frames, _) = stream::feed(&Resp::default(), &bytes, &[]);
        for frame in frames {
            let args = parsed(&frame);
            prop_assert_eq!(ArgsIter::new(&frame).count(), args.len());
            prop_assert_eq!(command_name(&frame).is_some(), !args.is_empty());
        }
    }

    #[test]
    fn arguments_of_garbage_are_bounded_by_its_length(bytes in resp_like()) {
        let mut unescaped = Vec::new();
        if let Ok(args) = Args::parse(&bytes, &mut unescaped) {
            prop_assert!(args.iter().map(|arg| arg.len()).sum::<usize>() <= bytes.len());
        }
        prop_assert!(ArgsIter::new(&bytes).count() <= bytes.len());
    }
}

#[test]
fn a_frame_byte_by_byte_is_read_in_linear_time() {
    // Each call may look at the header of one element and at new bytes, not at what it has seen:
    // a megabyte in single bytes would otherwise take some 10^11 steps.
    let command: Command = (0..50_000).map(|_| b"0123456789".to_vec()).collect();
    let bytes = encoded(&command);
    let (frames, error) = stream::feed(&Resp::default(), &bytes, &stream::every_byte(&bytes));
    assert_eq!((frames.len(), error), (1, None));
    let line = [&b"echo "[..], &vec![b'a'; 65_000], b"\r\n"].concat();
    let (frames, error) = stream::feed(&Resp::default(), &line, &stream::every_byte(&line));
    assert_eq!((frames, error), (vec![line], None));
}
