//! A message in both versions of the protocol.

use bytes::Bytes;
use psp_protocols::resp::{Encoder, Version};

use super::TopicKind;

/// A message, encoded once for all subscribers that speak the same version.
pub(super) struct Message<'a> {
    kind: TopicKind,
    pattern: Option<&'a [u8]>,
    channel: &'a [u8],
    text: &'a [u8],
    resp2: Option<Bytes>,
    resp3: Option<Bytes>,
}

impl<'a> Message<'a> {
    /// The message `text` on a channel, for those that `pattern` has matched, if any.
    pub(super) const fn new(kind: TopicKind, pattern: Option<&'a [u8]>, channel: &'a [u8], text: &'a [u8]) -> Self {
        Self { kind, pattern, channel, text, resp2: None, resp3: None }
    }

    /// What a subscriber gets. All share its bytes.
    pub(super) fn encoded(&mut self, version: Version) -> Bytes {
        let known = match version {
            Version::Resp2 => &self.resp2,
            Version::Resp3 => &self.resp3,
        };
        if let Some(bytes) = known {
            return bytes.clone();
        }
        let bytes = self.encode(version);
        match version {
            Version::Resp2 => self.resp2 = Some(bytes.clone()),
            Version::Resp3 => self.resp3 = Some(bytes.clone()),
        }
        bytes
    }

    fn encode(&self, version: Version) -> Bytes {
        let pattern_len = self.pattern.map_or(0, <[u8]>::len);
        let mut bytes = Vec::with_capacity(self.text.len() + self.channel.len() + pattern_len + 64);
        let mut out = Encoder::new(&mut bytes, version);
        out.push(3 + usize::from(self.pattern.is_some()));
        out.bulk(format!("{}message", self.kind.prefix()).as_bytes());
        for part in self.pattern.into_iter().chain([self.channel, self.text]) {
            out.bulk(part);
        }
        bytes.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_word_and_its_parts() {
        for (kind, pattern, expected) in [
            (TopicKind::Channel, None, "3 $7 message $1 c $1 m "),
            (TopicKind::Pattern, Some(&b"*"[..]), "4 $8 pmessage $1 * $1 c $1 m "),
            (TopicKind::Shard, None, "3 $8 smessage $1 c $1 m "),
        ] {
            let mut message = Message::new(kind, pattern, b"c", b"m");
            for (version, marker) in [(Version::Resp2, '*'), (Version::Resp3, '>')] {
                let bytes = message.encoded(version);
                let text = String::from_utf8(bytes.to_vec()).unwrap();
                assert_eq!(text.replace("\r\n", " "), format!("{marker}{expected}"));
                assert_eq!(message.encoded(version).as_ptr(), bytes.as_ptr());
            }
        }
    }
}
