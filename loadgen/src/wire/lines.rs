//! A request line, a reply line.

use psp_protocols::skip::{LineSkipper, LineStep, NotAReply, Outcome, ReplyGrammar};

use super::own::{ReadReplies, Wire, WireRequest};
use super::template::{CommandTemplate, TemplateError};

/// Targets `lines+tcp://`: a request is the words of its command and a line feed, a reply is one line.
///
/// A reply whose first word is `ERR`, `ERROR` or `BUSY`, also after `-`, is an error.
#[derive(Debug)]
pub(super) struct LinesWire;

impl Wire for LinesWire {
    fn scheme(&self) -> &'static str {
        "lines+tcp"
    }

    fn check(&self, template: &CommandTemplate) -> Result<(), TemplateError> {
        let is_line = |literal: &[u8]| !literal.contains(&b'\n') && !literal.contains(&b'\r');
        let all = (0..template.arguments()).all(|argument| template.literals(argument).all(is_line));
        if all {
            return Ok(());
        }
        Err(TemplateError::Shape { usage: "one line".to_owned() })
    }

    fn write(&self, request: &WireRequest<'_>, out: &mut Vec<u8>) {
        for (index, word) in request.arguments.iter().enumerate() {
            if index > 0 {
                out.push(b' ');
            }
            out.extend_from_slice(word);
        }
        out.push(b'\n');
    }

    fn replies(&self) -> Box<dyn ReadReplies> {
        Box::<LineSkipper<ReplyLine>>::default()
    }
}

/// Each line is a reply.
#[derive(Debug, Clone, Default)]
struct ReplyLine;

impl ReplyGrammar for ReplyLine {
    fn line(&mut self, line: &[u8]) -> Result<LineStep, NotAReply> {
        let line = line.strip_prefix(b"-").unwrap_or(line);
        let outcome = match line.split(|byte| *byte == b' ').next() {
            Some(b"ERR" | b"ERROR") => Outcome::Error,
            Some(b"BUSY") => Outcome::Busy,
            _ => Outcome::Done,
        };
        Ok(LineStep::end(outcome))
    }

    fn error_text<'a>(&'a self, line: &'a [u8]) -> &'a [u8] {
        line.strip_prefix(b"-").unwrap_or(line)
    }
}

#[cfg(test)]
mod tests {
    use psp_protocols::skip::Skipped;

    use super::*;
    use crate::wire::Arguments;

    #[test]
    fn replies_are_lines() {
        let mut replies = LinesWire.replies();
        for (reply, outcome, kind) in [
            (&b"fine\r\n"[..], Outcome::Done, ""),
            (b"\n", Outcome::Done, ""),
            (b"-5\n", Outcome::Done, ""),
            (b"ERR no such thing\n", Outcome::Error, "ERR"),
            (b"-BUSY\n", Outcome::Busy, "BUSY"),
        ] {
            let len = reply.len();
            assert_eq!(replies.skip(reply), Ok(Skipped::Reply { len, outcome }));
            if !kind.is_empty() {
                assert_eq!(replies.error_kind(), kind);
            }
        }
    }

    #[test]
    fn requests_are_lines() {
        let mut arguments = Arguments::default();
        for word in ["fast", "7"] {
            arguments.push(word.as_bytes());
        }
        let mut out = Vec::new();
        let request = WireRequest { arguments: &arguments, id: 1, authority: "", headers: &[] };
        LinesWire.write(&request, &mut out);
        assert_eq!(out, b"fast 7\n");
        let check = |text| LinesWire.check(&CommandTemplate::parse(text).unwrap());
        assert!(check("a {key} \"b  c\"").is_ok());
        assert!(check("\"a\nb\"").is_err());
    }
}
