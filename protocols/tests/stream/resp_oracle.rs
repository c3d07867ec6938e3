//! The arguments of RESP requests, by the book and byte by byte: shares nothing with the library's parser.
//! The property tests and the fuzz targets hold heads against it.

use psp_protocols::Framing;
use psp_protocols::resp::{Args, CommandId, Resp, RespHead};

/// The arguments of `frame`, a whole request, as they are meant.
pub(crate) fn arguments(frame: &[u8]) -> Vec<Vec<u8>> {
    if frame[0] == b'*' {
        of_array(frame)
    } else {
        of_line(frame)
    }
}

/// Takes a line with CRLF off the front of `rest`, and reads the number behind its first byte.
fn number(rest: &mut &[u8]) -> i64 {
    let end = rest.windows(2).position(|two| two == b"\r\n");
    let (line, after) = rest.split_at(end.expect("a line"));
    *rest = &after[2..];
    std::str::from_utf8(&line[1..]).unwrap().parse().unwrap()
}

fn of_array(mut rest: &[u8]) -> Vec<Vec<u8>> {
    let mut args = Vec::new();
    for _ in 0..number(&mut rest) {
        let len = usize::try_from(number(&mut rest)).unwrap();
        args.push(rest[..len].to_vec());
        rest = &rest[len + 2..];
    }
    assert!(rest.is_empty());
    args
}

/// As `sdssplitargs` of Redis.
fn of_line(line: &[u8]) -> Vec<Vec<u8>> {
    let mut args = Vec::new();
    let mut bytes = line.iter().copied().peekable();
    loop {
        while bytes.next_if(|byte| b" \t\n\x0b\x0c\r".contains(byte)).is_some() {}
        if bytes.peek().is_none() {
            return args;
        }
        let mut arg = Vec::new();
        let mut quote = None;
        loop {
            match (quote, bytes.next()) {
                (None, None | Some(b' ' | b'\n' | b'\r' | b'\t')) => break,
                (None, Some(byte @ (b'"' | b'\''))) => quote = Some(byte),
                (Some(open), Some(byte)) if byte == open => break,
                (Some(b'"'), Some(b'\\')) => {
                    let mut ahead = bytes.clone().skip(1);
                    let digits = [ahead.next(), ahead.next()].map(|byte| byte.unwrap_or(b'-'));
                    let hex = std::str::from_utf8(&digits).ok();
                    let hex = hex.filter(|_| digits.iter().all(u8::is_ascii_hexdigit));
                    arg.push(match (bytes.next(), hex) {
                        (Some(b'x'), Some(hex)) => {
                            bytes.by_ref().take(2).for_each(drop);
                            u8::from_str_radix(hex, 16).unwrap()
                        }
                        (Some(b'n'), _) => b'\n',
                        (Some(b'r'), _) => b'\r',
                        (Some(b't'), _) => b'\t',
                        (Some(b'b'), _) => 8,
                        (Some(b'a'), _) => 7,
                        (byte, _) => byte.unwrap(),
                    });
                }
                (Some(b'\''), Some(b'\\')) if bytes.next_if_eq(&b'\'').is_some() => {
                    arg.push(b'\'');
                }
                (_, byte) => arg.push(byte.unwrap()),
            }
        }
        args.push(arg);
    }
}

/// Checks all that the head of `frame`, a whole request, says.
pub(crate) fn check_head(frame: &[u8]) {
    let head: RespHead = Resp::default().head_of(frame).expect("a whole request");
    let expected = arguments(frame);
    assert_eq!(head.arg_count(), expected.len());
    let name = expected.first().map_or(&b""[..], Vec::as_slice);
    assert_eq!(head.command(), CommandId::of(name));
    let mut unescaped = Vec::new();
    assert_eq!(*Args::new(frame, &head, &mut unescaped), expected);
    assert_eq!(head.args(frame).count(), expected.len());
    for (index, (written, meant)) in head.args(frame).zip(&expected).enumerate() {
        assert_eq!(head.arg(frame, index), Some(written));
        // With escapes it is the word as it was written, and means the same by itself.
        assert!(written == meant || frame[0] != b'*' && of_line(written) == [meant.clone()]);
    }
    assert_eq!(head.arg(frame, expected.len()), None);
}
