//! Lines, lengths, fixed sizes and decoders find the same requests however the bytes come in.

use proptest::collection::vec;
use proptest::prelude::*;
use psp_protocols::framings::{Decoded, FixedSize, LengthDelimited, Lines};
use psp_protocols::{FrameError, Framing, Rejection, Step};
use tokio_util::bytes::BytesMut;
use tokio_util::codec::{Decoder, LengthDelimitedCodec, LinesCodec};

/// Frames and heads, and why there are no more.
type Found<H> = (Vec<(Vec<u8>, H)>, Option<FrameError>);

/// The requests of a stream that comes in such pieces, and why it ends early.
fn requests<F: Framing>(framing: &F, stream: &[u8], piece: usize) -> Found<F::Head> {
    let mut found = Vec::new();
    let (mut cursor, mut start) = (F::Cursor::default(), 0);
    for end in (0..stream.len()).step_by(piece.max(1)).skip(1).chain([stream.len()]) {
        while start < end {
            match framing.next_frame(&mut cursor, &stream[start..end]) {
                Ok(Step::Frame { len, head }) => {
                    found.push((stream[start..start + len].to_vec(), head));
                    start += len;
                }
                Ok(Step::NeedMore { len_min }) => {
                    assert!(len_min > end - start, "more than there is");
                    break;
                }
                Err(error) => return (found, Some(error)),
            }
        }
    }
    (found, None)
}

fn frames<F: Framing>(framing: &F, stream: &[u8], piece: usize) -> Vec<Vec<u8>> {
    let (found, error) = requests(framing, stream, piece);
    assert_eq!(error, None);
    found.into_iter().map(|(frame, _)| frame).collect()
}

fn refusal<F: Framing>(framing: &F, why: &Rejection<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    framing.encode_rejection(why, b"request", &mut out);
    out
}

#[test]
fn a_request_that_is_too_long_breaks_the_protocol_and_the_longest_does_not() {
    let lines = Lines::default().len_max(4);
    for piece in 1..8 {
        assert_eq!(frames(&lines, b"abc\n\nd\r\n", piece), [&b"abc\n"[..], b"\n", b"d\r\n"]);
        for long in [&b"abcd\n"[..], b"abcd"] {
            let (_, error) = requests(&lines, long, piece);
            assert_eq!(error.unwrap().to_string(), "the line is too long");
        }
        let lengths = LengthDelimited::default().length_field_length(1).len_max(4);
        assert_eq!(frames(&lengths, b"\x03abc\x00", piece), [&b"\x03abc"[..], b"\x00"]);
        let (_, error) = requests(&lengths, b"\x04abcd", piece);
        assert_eq!(error.unwrap().to_string(), "the message is too long");
        let decoded = Decoded::new(LinesCodec::new()).len_max(4);
        assert_eq!(frames(&decoded, b"abc\nd\n", piece), [&b"abc\n"[..], b"d\n"]);
        let (_, error) = requests(&decoded, b"abcd\n", piece);
        assert_eq!(error.unwrap().to_string(), "the request is too long");
    }
}

#[test]
fn what_is_no_message_is_an_error() {
    for (framing, reason) in [
        (LengthDelimited::default().length_field_length(0), "a length has 1 to 8 bytes"),
        (LengthDelimited::default().length_field_length(9), "a length has 1 to 8 bytes"),
        (LengthDelimited::default().length_adjustment(-1), "the message is shorter than its header"),
        (
            LengthDelimited::default().length_field_length(8).length_adjustment(isize::MIN),
            "the message is shorter than its header",
        ),
    ] {
        let (_, error) = requests(&framing, &[0; 16], 16);
        assert_eq!(error.unwrap().to_string(), reason);
    }
    let widest = LengthDelimited::default().length_field_length(8).len_max(usize::MAX);
    let (_, error) = requests(&widest, &[0xff; 16], 16);
    assert_eq!(error.unwrap().to_string(), "the message is too long", "and nothing overflows");
    let (_, error) = requests(&FixedSize::new(0), b"a", 1);
    assert_eq!(error.unwrap().to_string(), "requests have no length");
    let (found, error) = requests(&Decoded::new(LinesCodec::new()), b"good\n\xff\n", 3);
    assert_eq!(found[0].1.0.as_deref(), Some("good"));
    assert!(error.unwrap().to_string().contains("UTF8"), "the decoder's reason");
    let (_, error) = requests(&Decoded::new(Idle), b"a", 1);
    assert_eq!(error.unwrap().to_string(), "the decoder has taken nothing");
}

/// A decoder that makes items of nothing.
#[derive(Clone)]
struct Idle;

impl Decoder for Idle {
    type Item = ();
    type Error = std::io::Error;

    fn decode(&mut self, _buffer: &mut BytesMut) -> Result<Option<()>, std::io::Error> {
        Ok(Some(()))
    }
}

#[test]
fn a_refusal_is_a_message_of_the_protocol() {
    let why = Rejection::Failed("no\nsuch");
    assert_eq!(refusal(&Lines::default(), &why), b"ERROR no such\n");
    assert_eq!(refusal(&LengthDelimited::default(), &why), b"\0\0\0\x0dERROR no such");
    let narrow = LengthDelimited::default().length_field_length(1);
    let long = "x".repeat(300);
    assert_eq!(refusal(&narrow, &Rejection::Failed(&long)), b"\x05ERROR");
    assert_eq!(refusal(&FixedSize::new(7), &why), b"");
    assert_eq!(refusal(&Decoded::new(Idle), &why), b"");
    let own = FixedSize::new(7).refusals(|why, request, out| {
        out.put(request);
        out.put(why.to_string().as_bytes());
    });
    assert_eq!(refusal(&own, &why), b"requestno\nsuch");
}

/// Lengths that tokio-util has, too. It takes no length that is below 0 after the adjustment.
fn lengths() -> impl Strategy<Value = LengthDelimited> {
    (0..4_usize, 1..=8_usize, -12..12_isize, any::<bool>()).prop_map(|(offset, width, adjustment, little)| {
        LengthDelimited::default()
            .length_field_offset(offset)
            .length_field_length(width)
            .length_adjustment(adjustment)
            .little_endian(little)
    })
}

/// The same as tokio-util has it.
fn codec(framing: &LengthDelimited) -> LengthDelimitedCodec {
    let mut builder = LengthDelimitedCodec::builder();
    builder
        .length_field_offset(framing.length_field_offset)
        .length_field_length(framing.length_field_length)
        .length_adjustment(framing.length_adjustment);
    match framing.little_endian {
        true => builder.little_endian().new_codec(),
        false => builder.big_endian().new_codec(),
    }
}

proptest! {
    #[test]
    fn lengths_are_those_of_tokio_util(
        framing in lengths(),
        payloads in vec(vec(any::<u8>(), 12..40), 0..6),
        piece in 1..60_usize,
    ) {
        let mut stream = Vec::new();
        for payload in &payloads {
            framing.put(payload, &mut stream).unwrap();
        }
        let found = frames(&framing, &stream, piece);
        let found: Vec<_> = found.iter().map(|frame| framing.payload(frame).to_vec()).collect();
        prop_assert_eq!(&found, &payloads);
        let (mut codec, mut left) = (codec(&framing), BytesMut::from(&stream[..]));
        let theirs: Vec<_> = std::iter::from_fn(|| codec.decode(&mut left).unwrap()).collect();
        prop_assert_eq!(theirs, found.iter().map(|it| BytesMut::from(&it[..])).collect::<Vec<_>>());
        let decoded = frames(&Decoded::new(self::codec(&framing)), &stream, piece);
        prop_assert_eq!(decoded.concat(), stream, "and the decoder as a framing finds these");
        prop_assert_eq!(decoded.len(), payloads.len());
    }

    #[test]
    fn a_decoder_finds_what_lines_are(
        lines in vec("[a-z]{0,30}", 0..40),
        long in 3000..9000_usize,
        piece in 1..6000_usize,
    ) {
        let lines: Vec<String> = lines.into_iter().chain(["x".repeat(long)]).collect();
        let stream = lines.iter().map(|line| format!("{line}\n")).collect::<String>();
        let ours = frames(&Lines::default(), stream.as_bytes(), piece);
        let (theirs, error) = requests(&Decoded::new(LinesCodec::new()), stream.as_bytes(), piece);
        prop_assert_eq!(error, None);
        let theirs = theirs.into_iter().map(|(frame, head)| (frame, head.0.unwrap()));
        let (frames, heads): (Vec<_>, Vec<_>) = theirs.unzip();
        prop_assert_eq!(frames, ours);
        prop_assert_eq!(heads, lines);
    }

    #[test]
    fn all_requests_of_one_size_are_found(
        size in 1..9_usize,
        count in 0..9_usize,
        rest in 0..9_usize,
        piece in 1..20_usize,
    ) {
        let stream = vec![7; size * count + rest % size];
        prop_assert_eq!(frames(&FixedSize::new(size), &stream, piece), vec![vec![7; size]; count]);
    }

    #[test]
    fn any_bytes_are_requests_or_an_error(
        framing in lengths(),
        bytes in vec(any::<u8>(), 0..64),
        piece in 1..20_usize,
    ) {
        let (found, _) = requests(&framing, &bytes, piece);
        let total: usize = found.iter().map(|(frame, ())| frame.len()).sum();
        prop_assert!(total <= bytes.len());
    }
}
