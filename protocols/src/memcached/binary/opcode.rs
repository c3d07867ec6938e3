//! Commands of binary requests, and statuses of their replies.

/// A command. [`Opcode::quiet`] marks its quiet form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Command {
    /// The value of a key.
    Get,
    /// The value of a key, and the key itself.
    GetKey,
    /// Store.
    Set,
    /// Store if the key has no value.
    Add,
    /// Store if the key has a value.
    Replace,
    /// Delete.
    Delete,
    /// Add to a number.
    Increment,
    /// Subtract from a number, down to 0.
    Decrement,
    /// Close the connection.
    Quit,
    /// Drop all items.
    Flush,
    /// Do nothing but reply: marks the end of a series of quiet commands.
    Noop,
    /// The server's version.
    Version,
    /// Append to the stored value.
    Append,
    /// Prepend to the stored value.
    Prepend,
    /// The mechanisms by which a client can show who it is.
    SaslList,
    /// A client shows who it is. The key is the mechanism.
    SaslAuth,
    /// The same goes on.
    SaslStep,
    /// Statistics, one reply each.
    Stat,
    /// Set how much the server logs.
    Verbosity,
    /// Set the expiration time.
    Touch,
    /// The value of a key, with a new expiration time.
    GetAndTouch,
    /// The value of a key and the key itself, with a new expiration time.
    GetKeyAndTouch,
}

/// A command and whether it is quiet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Opcode {
    /// The command.
    pub command: Command,
    /// Whether the server omits the usual reply: to a miss for commands that get, to a success for
    /// others.
    pub quiet: bool,
}

impl Opcode {
    /// The opcode with this number; `None` when there is none.
    #[inline]
    #[must_use]
    pub const fn from_number(number: u8) -> Option<Self> {
        use Command as C;
        let (command, quiet) = match number {
            0x00 => (C::Get, false),
            0x01 => (C::Set, false),
            0x02 => (C::Add, false),
            0x03 => (C::Replace, false),
            0x04 => (C::Delete, false),
            0x05 => (C::Increment, false),
            0x06 => (C::Decrement, false),
            0x07 => (C::Quit, false),
            0x08 => (C::Flush, false),
            0x09 => (C::Get, true),
            0x0a => (C::Noop, false),
            0x0b => (C::Version, false),
            0x0c => (C::GetKey, false),
            0x0d => (C::GetKey, true),
            0x0e => (C::Append, false),
            0x0f => (C::Prepend, false),
            0x10 => (C::Stat, false),
            0x11 => (C::Set, true),
            0x12 => (C::Add, true),
            0x13 => (C::Replace, true),
            0x14 => (C::Delete, true),
            0x15 => (C::Increment, true),
            0x16 => (C::Decrement, true),
            0x17 => (C::Quit, true),
            0x18 => (C::Flush, true),
            0x19 => (C::Append, true),
            0x1a => (C::Prepend, true),
            0x1b => (C::Verbosity, false),
            0x1c => (C::Touch, false),
            0x1d => (C::GetAndTouch, false),
            0x1e => (C::GetAndTouch, true),
            0x20 => (C::SaslList, false),
            0x21 => (C::SaslAuth, false),
            0x22 => (C::SaslStep, false),
            0x23 => (C::GetKeyAndTouch, false),
            0x24 => (C::GetKeyAndTouch, true),
            _ => return None,
        };
        Some(Self { command, quiet })
    }
}

/// The status in the header of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum Status {
    /// Done.
    NoError = 0x00,
    /// There is no such key.
    KeyNotFound = 0x01,
    /// The key exists already, or its item has another CAS value.
    KeyExists = 0x02,
    /// The value is too large.
    ValueTooLarge = 0x03,
    /// The request is malformed.
    InvalidArguments = 0x04,
    /// Not stored: there is no value to append to.
    NotStored = 0x05,
    /// The value is not a number.
    NonNumeric = 0x06,
    /// The command is not allowed.
    AuthError = 0x20,
    /// There is no such command.
    UnknownCommand = 0x81,
    /// The server has no memory for the request.
    OutOfMemory = 0x82,
    /// The server failed.
    InternalError = 0x84,
    /// The server's queue is full.
    Busy = 0x85,
    /// The server takes no more requests.
    TemporaryFailure = 0x86,
}

impl Status {
    /// The text that memcached writes as the value of an error reply; empty for [`Status::NoError`].
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::NoError => "",
            Self::KeyNotFound => "Not found",
            Self::KeyExists => "Data exists for key.",
            Self::ValueTooLarge => "Too large.",
            Self::InvalidArguments => "Invalid arguments",
            Self::NotStored => "Not stored.",
            Self::AuthError => "Auth failure.",
            Self::NonNumeric => "Non-numeric server-side value for incr or decr",
            Self::UnknownCommand => "Unknown command",
            Self::OutOfMemory => "Out of memory",
            Self::InternalError => "Internal error",
            Self::Busy => "Busy",
            Self::TemporaryFailure => "Temporary failure",
        }
    }
}
