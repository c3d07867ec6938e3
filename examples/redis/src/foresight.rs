//! Fetches the keys of pipelined commands ahead, so that these wait for memory together.

use psp_protocols::resp::{CommandId, RespHead};
use psp_server::Foreseen;

use crate::acl::Access;
use crate::client::Client;
use crate::command::CommandTable;
use crate::state::ServerState;

/// Which argument of each command is its first key; 0 for none.
#[derive(Debug)]
pub(crate) struct Foresight([u8; CommandId::COUNT]);

impl Foresight {
    /// By the command table.
    pub(crate) fn new() -> Self {
        let mut first_keys = [0; CommandId::COUNT];
        for spec in CommandTable::get().specs() {
            let id = CommandId::of(spec.name.as_bytes());
            first_keys[id.index()] = u8::try_from(spec.keys.first).unwrap_or(0);
        }
        Self(first_keys)
    }

    /// Fetches the first key of each command. A command that goes to another database than the client's next one gains
    /// nothing.
    pub(crate) fn fetch(&self, server: &ServerState, client: &Client, commands: Foreseen<'_, RespHead>) {
        if client.account.access() != Access::None {
            let store = server.databases.get(client.next_database());
            store.prefetch(commands.filter_map(|(frame, head)| self.first_key(frame, head)));
        }
    }

    /// The first key, if the command has one. With quotes or escapes it comes as it was written: another key, which
    /// costs nothing but time.
    #[inline]
    fn first_key<'a>(&self, frame: &'a [u8], head: &RespHead) -> Option<&'a [u8]> {
        match self.0[head.command().index()] {
            0 => None,
            place => head.arg(frame, place.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use psp_protocols::Framing;
    use psp_protocols::resp::Resp;

    use super::*;

    #[test]
    fn the_first_key_is_found_by_the_command_table() {
        let foresight = Foresight::new();
        for (line, key) in [
            ("GET k", Some("k")),
            ("set k v EX 10", Some("k")),
            ("HGET h f", Some("h")),
            ("MGET a b", Some("a")),
            ("BITOP AND d a", Some("d")),
            ("PING", None),
            ("EVAL x 1 k", None),
            ("GET", None),
            ("NOSUCH k", None),
        ] {
            let frame = format!("{line}\r\n");
            let frame = frame.as_bytes();
            let head = Resp::default().head_of(frame).expect("a whole frame");
            let found = foresight.first_key(frame, &head);
            assert_eq!(found, key.map(str::as_bytes), "{line}");
        }
    }
}
