//! Errors, in the words of Redis.

use std::borrow::Cow;

/// The reason why a command failed. Its text is the line of the reply after the `-`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// The key's value has a type that the command does not work on.
    #[error("WRONGTYPE Operation against a key holding the wrong kind of value")]
    WrongType,
    /// An argument or a value is not a 64-bit integer.
    #[error("ERR value is not an integer or out of range")]
    NotInteger,
    /// An argument or a value is not a number.
    #[error("ERR value is not a valid float")]
    NotFloat,
    /// The options are invalid.
    #[error("ERR syntax error")]
    Syntax,
    /// The command needs its key to exist.
    #[error("ERR no such key")]
    NoSuchKey,
    /// An index points beyond the value.
    #[error("ERR index out of range")]
    IndexOutOfRange,
    /// An offset is negative or beyond the longest permitted string.
    #[error("ERR offset is out of range")]
    OffsetOutOfRange,
    /// A count is negative.
    #[error("ERR value is out of range, must be positive")]
    NotPositive,
    /// A SCAN cursor is not a number.
    #[error("ERR invalid cursor")]
    InvalidCursor,
    /// An increment leaves the range of 64-bit integers.
    #[error("ERR increment or decrement would overflow")]
    Overflow,
    /// An increment results in NaN or infinity.
    #[error("ERR increment would produce NaN or Infinity")]
    NotFinite,
    /// A string would exceed `proto-max-bulk-len`.
    #[error("ERR string exceeds maximum allowed size (proto-max-bulk-len)")]
    StringTooLong,
    /// The number of arguments does not fit the command, named here in lower case.
    #[error("ERR wrong number of arguments for '{0}' command")]
    Arity(Cow<'static, str>),
    /// The expire time for the command named here is zero, negative or too large.
    #[error("ERR invalid expire time in '{0}' command")]
    InvalidExpire(Cow<'static, str>),
    /// The client must authenticate first.
    #[error("NOAUTH Authentication required.")]
    NoAuth,
    /// The user or the password is wrong.
    #[error("WRONGPASS invalid username-password pair or user is disabled.")]
    WrongPass,
    /// HELLO requests a version other than 2 or 3.
    #[error("NOPROTO unsupported protocol version")]
    NoProto,
    /// The server holds more than `maxmemory`, and the command may make it hold more.
    #[error("OOM command not allowed when used memory > 'maxmemory'.")]
    OutOfMemory,
    /// Any other error: the whole line, including its code.
    #[error("{0}")]
    Other(Cow<'static, str>),
}

impl CommandError {
    /// An error with the given line, including its code (`ERR`).
    pub const fn line(line: &'static str) -> Self {
        Self::Other(Cow::Borrowed(line))
    }

    /// EXEC does not run the transaction because of `reason`.
    #[must_use]
    pub fn aborted(reason: &Self) -> Self {
        let reason = reason.to_string();
        let reason = reason.strip_prefix("ERR ").unwrap_or(&reason);
        Self::Other(format!("EXECABORT Transaction discarded because of: {reason}").into())
    }

    /// No command has the name `args[0]`.
    #[must_use]
    pub fn unknown_command(args: &[&[u8]]) -> Self {
        let (name, rest) = args.split_first().map_or((&[][..], &[][..]), |(name, rest)| (*name, rest));
        let mut line = format!("ERR unknown command '{}', with args beginning with: ", quotable(name));
        let mut shown = 0;
        for arg in rest {
            if shown >= QUOTED_LEN_MAX {
                break;
            }
            let text = quotable(&arg[..arg.len().min(QUOTED_LEN_MAX - shown)]);
            shown += text.len() + "'' ".len();
            line.push('\'');
            line.push_str(&text);
            line.push_str("' ");
        }
        Self::Other(line.into())
    }

    /// The command `name` has no subcommand `subcommand`.
    #[must_use]
    pub fn unknown_subcommand(name: &str, subcommand: &[u8]) -> Self {
        let subcommand = quotable(subcommand);
        Self::Other(format!("ERR unknown subcommand '{subcommand}'. Try {name} HELP.").into())
    }
}

/// Bytes of a client's input that an error repeats.
const QUOTED_LEN_MAX: usize = 128;

/// `bytes` as text without characters that would end the quoting line.
pub(crate) fn quotable(bytes: &[u8]) -> String {
    let shown = &bytes[..bytes.len().min(QUOTED_LEN_MAX)];
    String::from_utf8_lossy(shown).replace(['\r', '\n', '\0'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_commands_are_quoted_as_redis_does() {
        let line = |args: &[&[u8]]| CommandError::unknown_command(args).to_string();
        assert_eq!(line(&[b"FOO"]), "ERR unknown command 'FOO', with args beginning with: ");
        assert_eq!(
            line(&[b"foo", b"a", b"b\r\nc"]),
            "ERR unknown command 'foo', with args beginning with: 'a' 'b  c' "
        );
    }

    #[test]
    fn unknown_commands_quote_a_bounded_part_of_their_arguments() {
        let long = [b'x'; 100_000];
        let many: Vec<&[u8]> = vec![&long; 1000];
        assert!(CommandError::unknown_command(&many).to_string().len() < 512);
    }
}
