//! Messages about keys that have changed, in both versions of the protocol.

use bytes::Bytes;
use psp_protocols::resp::{Encoder, Version};

/// The channel on which clients of RESP2 hear of keys that others track for them.
const CHANNEL: &[u8] = b"__redis__:invalidate";

/// What a client shall forget.
#[derive(Debug, Clone, Copy)]
pub(super) enum Stale<'a> {
    /// These keys.
    Keys(&'a [&'a [u8]]),
    /// All keys.
    All,
}

/// A message, encoded once for all clients that speak the same version.
pub(super) struct Invalidation<'a> {
    stale: Stale<'a>,
    resp2: Option<Bytes>,
    resp3: Option<Bytes>,
}

impl<'a> Invalidation<'a> {
    pub(super) const fn of(stale: Stale<'a>) -> Self {
        Self { stale, resp2: None, resp3: None }
    }

    /// What a client gets. All share its bytes.
    pub(super) fn encoded(&mut self, version: Version) -> Bytes {
        let stale = self.stale;
        let known = match version {
            Version::Resp2 => &mut self.resp2,
            Version::Resp3 => &mut self.resp3,
        };
        known.get_or_insert_with(|| encode(stale, version)).clone()
    }
}

fn encode(stale: Stale<'_>, version: Version) -> Bytes {
    let mut bytes = Vec::new();
    let mut out = Encoder::new(&mut bytes, version);
    match version {
        Version::Resp2 => {
            out.array(3);
            out.bulk(b"message");
            out.bulk(CHANNEL);
        }
        Version::Resp3 => {
            out.push(2);
            out.bulk(b"invalidate");
        }
    }
    match stale {
        Stale::Keys(keys) => {
            out.array(keys.len());
            keys.iter().for_each(|key| out.bulk(key));
        }
        Stale::All => out.null(),
    }
    bytes.into()
}

/// Tells a client of RESP3 that the client to which it redirects is gone.
pub(super) fn broken_redirect(id: u64) -> Bytes {
    let mut bytes = Vec::new();
    let mut out = Encoder::new(&mut bytes, Version::Resp3);
    out.push(2);
    out.bulk(b"tracking-redir-broken");
    out.integer(i64::try_from(id).unwrap_or(i64::MAX));
    bytes.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_version_has_its_form() {
        let keys: [&[u8]; 2] = [b"a", b"bc"];
        for (stale, version, expected) in [
            (Stale::Keys(&keys), Version::Resp3, ">2 $10 invalidate *2 $1 a $2 bc "),
            (Stale::All, Version::Resp3, ">2 $10 invalidate _ "),
            (
                Stale::Keys(&keys),
                Version::Resp2,
                "*3 $7 message $20 __redis__:invalidate *2 $1 a $2 bc ",
            ),
            (Stale::All, Version::Resp2, "*3 $7 message $20 __redis__:invalidate $-1 "),
        ] {
            let mut message = Invalidation::of(stale);
            let bytes = message.encoded(version);
            let text = String::from_utf8(bytes.to_vec()).unwrap();
            assert_eq!(text.replace("\r\n", " "), expected);
            assert_eq!(message.encoded(version).as_ptr(), bytes.as_ptr());
        }
        assert_eq!(&broken_redirect(7)[..], b">2\r\n$21\r\ntracking-redir-broken\r\n:7\r\n");
    }
}
