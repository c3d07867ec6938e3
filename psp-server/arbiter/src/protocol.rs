//! Messages between servers and the arbiter: 64 bytes each, on a Unix socket of the kind SOCK_SEQPACKET.
//!
//! ```text
//!   byte   0  1  2  3   4  5  6  7   8  9 10 11  12 13 14 15  16 .. 47  48 .. 63
//!          kind  version    a           b            c          name      zero
//! ```
//!
//! All numbers are of the machine's byte order: both ends are on one machine. `docs/arbiter.md` has a table of kinds.

use crate::cores::CoreId;
use crate::limits::NAME_BYTES_MAX;
use crate::registration::{Priority, Registration, RegistrationError};
use crate::thread::ThreadId;

/// The version of this protocol, which is in each message.
pub const VERSION: u16 = 1;

/// The bytes of a message.
pub const MESSAGE_BYTES: usize = 64;

/// A message as it is sent.
pub type Packet = [u8; MESSAGE_BYTES];

/// From a server to the arbiter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToArbiter {
    /// The first message of a server. The answer is [`ToServer::Welcome`], with the shared page.
    Register(Registration),
    /// The server wants this many cores from now on.
    Want(usize),
    /// The thread sleeps, and runs when it is granted a core. The core that it had is free.
    Offer(ThreadId),
    /// After the arbiter's restart: the thread has this core.
    Hold(ThreadId, CoreId),
    /// The thread ends. The core that it had is free.
    Withdraw(ThreadId),
    /// Asks for [`ToServer::Status`]. Any connection may send it.
    Status,
}

/// From the arbiter to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToServer {
    /// The server is registered. With it comes the descriptor of the shared page.
    Welcome {
        /// How many cores all servers together can have.
        cores: usize,
    },
    /// The arbiter does not go on with this connection, which it closes.
    Refused(Refusal),
    /// The thread has this core from now on.
    Granted(ThreadId, CoreId),
    /// The server may keep this many cores. It offers the threads of the others within the time that it has.
    Recalled(usize),
    /// The thread has lost its core. It runs on, among all that is unmanaged, until the server offers it again.
    Taken(ThreadId, CoreId),
    /// With it comes the descriptor of a file that has the status as JSON.
    Status {
        /// The length of the file.
        bytes: usize,
    },
}

/// Why the arbiter does not go on with a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A packet that is no message of this version.
    #[error("the message is not one of protocol version {VERSION}")]
    Malformed,
    /// There are too many connections.
    #[error("the arbiter has as many connections as it takes")]
    Connections,
    /// The user has too many connections.
    #[error("the user has as many connections as a user may have")]
    ConnectionsOfUser,
    /// The connection sends too many messages.
    #[error("more messages a second than a server may send")]
    Rate,
    /// The registration has wrong values.
    #[error("{0}")]
    Registration(#[from] RegistrationError),
    /// The user may not use this priority.
    #[error("the user may not use a priority as high as this")]
    PriorityOfUser,
    /// The connection has registered already.
    #[error("the server is registered already")]
    Registered,
    /// The message needs a registration first.
    #[error("the server is not registered")]
    NotRegistered,
    /// The thread is none of the server's process, or is known from another registration.
    #[error("the thread is not one of the server's own")]
    Thread,
    /// The server has too many threads.
    #[error("more threads than a server may offer")]
    Threads,
    /// The connection did not register in time.
    #[error("the server has not registered in time")]
    Late,
}

/// The refusals by their numbers in messages.
const REFUSALS: [Refusal; 13] = [
    Refusal::Malformed,
    Refusal::Connections,
    Refusal::ConnectionsOfUser,
    Refusal::Rate,
    Refusal::Registration(RegistrationError::Name),
    Refusal::Registration(RegistrationError::Priority),
    Refusal::Registration(RegistrationError::Cores),
    Refusal::PriorityOfUser,
    Refusal::Registered,
    Refusal::NotRegistered,
    Refusal::Thread,
    Refusal::Threads,
    Refusal::Late,
];

/// What all messages have.
#[derive(Debug, Default)]
struct Fields {
    kind: u16,
    a: u32,
    b: u32,
    c: u32,
    name: [u8; NAME_BYTES_MAX],
}

impl Fields {
    fn new(kind: u16, a: u32, b: u32) -> Self {
        Self { kind, a, b, ..Self::default() }
    }

    fn encode(&self) -> Packet {
        let mut packet = [0; MESSAGE_BYTES];
        packet[0..2].copy_from_slice(&self.kind.to_ne_bytes());
        packet[2..4].copy_from_slice(&VERSION.to_ne_bytes());
        packet[4..8].copy_from_slice(&self.a.to_ne_bytes());
        packet[8..12].copy_from_slice(&self.b.to_ne_bytes());
        packet[12..16].copy_from_slice(&self.c.to_ne_bytes());
        packet[16..16 + NAME_BYTES_MAX].copy_from_slice(&self.name);
        packet
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let packet: &Packet = bytes.try_into().ok()?;
        let half = |at: usize| u16::from_ne_bytes(std::array::from_fn(|byte| packet[at + byte]));
        let word = |at: usize| u32::from_ne_bytes(std::array::from_fn(|byte| packet[at + byte]));
        if half(2) != VERSION {
            return None;
        }
        Some(Self {
            kind: half(0),
            a: word(4),
            b: word(8),
            c: word(12),
            name: std::array::from_fn(|at| packet[16 + at]),
        })
    }

    fn thread(&self) -> Option<ThreadId> {
        ThreadId::new(i32::try_from(self.a).ok()?)
    }

    fn core(&self) -> Option<CoreId> {
        CoreId::new(self.b as usize)
    }

    fn with_thread(kind: u16, thread: ThreadId, core: Option<CoreId>) -> Self {
        let core = core.map_or(0, CoreId::number);
        Self::new(kind, thread.number().cast_unsigned(), core as u32)
    }
}

impl ToArbiter {
    /// As a packet. The registration must be valid.
    #[must_use]
    pub fn encode(&self) -> Packet {
        let fields = match self {
            Self::Register(registration) => {
                let mut name = [0; NAME_BYTES_MAX];
                for (to, from) in name.iter_mut().zip(registration.name.bytes()) {
                    *to = from;
                }
                Fields {
                    kind: 1,
                    a: registration.priority.level().into(),
                    b: registration.cores_min as u32,
                    c: registration.cores_max as u32,
                    name,
                }
            }
            Self::Want(cores) => Fields::new(2, *cores as u32, 0),
            Self::Offer(thread) => Fields::with_thread(3, *thread, None),
            Self::Hold(thread, core) => Fields::with_thread(4, *thread, Some(*core)),
            Self::Withdraw(thread) => Fields::with_thread(5, *thread, None),
            Self::Status => Fields::new(6, 0, 0),
        };
        fields.encode()
    }

    /// From the bytes of a packet, which may be any.
    ///
    /// # Errors
    /// Says what is wrong with them.
    pub fn decode(bytes: &[u8]) -> Result<Self, Refusal> {
        let fields = Fields::decode(bytes).ok_or(Refusal::Malformed)?;
        let thread = || fields.thread().ok_or(Refusal::Thread);
        Ok(match fields.kind {
            1 => Self::Register(registration(&fields)?),
            2 => Self::Want(fields.a as usize),
            3 => Self::Offer(thread()?),
            4 => Self::Hold(thread()?, fields.core().ok_or(Refusal::Malformed)?),
            5 => Self::Withdraw(thread()?),
            6 => Self::Status,
            _ => return Err(Refusal::Malformed),
        })
    }
}

fn registration(fields: &Fields) -> Result<Registration, RegistrationError> {
    let end = fields.name.iter().position(|&byte| byte == 0);
    let (name, rest) = fields.name.split_at(end.unwrap_or(NAME_BYTES_MAX));
    let name = std::str::from_utf8(name).map_err(|_| RegistrationError::Name)?;
    if rest.iter().any(|&byte| byte != 0) || name.chars().any(char::is_control) {
        return Err(RegistrationError::Name);
    }
    let level = u8::try_from(fields.a).map_err(|_| RegistrationError::Priority)?;
    let registration = Registration {
        name: name.to_owned(),
        priority: Priority::try_from(level)?,
        cores_min: fields.b as usize,
        cores_max: fields.c as usize,
    };
    registration.validate()?;
    Ok(registration)
}

impl ToServer {
    /// As a packet.
    #[must_use]
    pub fn encode(&self) -> Packet {
        let fields = match *self {
            Self::Welcome { cores } => Fields::new(101, cores as u32, 0),
            Self::Refused(refusal) => {
                let number = REFUSALS.iter().position(|&known| known == refusal);
                Fields::new(102, number.unwrap_or_default() as u32, 0)
            }
            Self::Granted(thread, core) => Fields::with_thread(103, thread, Some(core)),
            Self::Recalled(cores) => Fields::new(104, cores as u32, 0),
            Self::Taken(thread, core) => Fields::with_thread(105, thread, Some(core)),
            Self::Status { bytes } => Fields::new(106, bytes as u32, 0),
        };
        fields.encode()
    }

    /// From the bytes of a packet, which may be any. `None` if they are no message.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let fields = Fields::decode(bytes)?;
        let number = fields.a as usize;
        Some(match fields.kind {
            101 => Self::Welcome { cores: number },
            102 => Self::Refused(*REFUSALS.get(number)?),
            103 => Self::Granted(fields.thread()?, fields.core()?),
            104 => Self::Recalled(number),
            105 => Self::Taken(fields.thread()?, fields.core()?),
            106 => Self::Status { bytes: number },
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn thread() -> impl Strategy<Value = ThreadId> {
        (1..=i32::MAX).prop_map(|number| ThreadId::new(number).unwrap())
    }

    fn core() -> impl Strategy<Value = CoreId> {
        (0..1024_usize).prop_map(|number| CoreId::new(number).unwrap())
    }

    fn registrations() -> impl Strategy<Value = Registration> {
        ("[a-z-]{1,32}", 0..8_u8, 1..=256_usize, 0..=256_usize).prop_map(|(name, level, cores_max, cores_min)| {
            Registration {
                name,
                priority: Priority::new(level).unwrap(),
                cores_min: cores_min.min(cores_max),
                cores_max,
            }
        })
    }

    fn to_arbiter() -> impl Strategy<Value = ToArbiter> {
        prop_oneof![
            registrations().prop_map(ToArbiter::Register),
            (0..=u32::MAX as usize).prop_map(ToArbiter::Want),
            thread().prop_map(ToArbiter::Offer),
            (thread(), core()).prop_map(|(thread, core)| ToArbiter::Hold(thread, core)),
            thread().prop_map(ToArbiter::Withdraw),
            Just(ToArbiter::Status),
        ]
    }

    fn to_server() -> impl Strategy<Value = ToServer> {
        prop_oneof![
            (0..1024_usize).prop_map(|cores| ToServer::Welcome { cores }),
            proptest::sample::select(&REFUSALS[..]).prop_map(ToServer::Refused),
            (thread(), core()).prop_map(|(thread, core)| ToServer::Granted(thread, core)),
            (0..1024_usize).prop_map(ToServer::Recalled),
            (thread(), core()).prop_map(|(thread, core)| ToServer::Taken(thread, core)),
            (0..1_000_000_usize).prop_map(|bytes| ToServer::Status { bytes }),
        ]
    }

    proptest! {
        #[test]
        fn messages_are_read_as_they_were_written(message in to_arbiter(), answer in to_server()) {
            prop_assert_eq!(ToArbiter::decode(&message.encode()), Ok(message));
            prop_assert_eq!(ToServer::decode(&answer.encode()), Some(answer));
        }

        #[test]
        fn any_bytes_are_read_or_refused(mut bytes: Packet, kind in 0..8_u16, versioned: bool) {
            if versioned {
                bytes[0..2].copy_from_slice(&kind.to_ne_bytes());
                bytes[2..4].copy_from_slice(&VERSION.to_ne_bytes());
            }
            if let Ok(ToArbiter::Register(registration)) = ToArbiter::decode(&bytes) {
                prop_assert_eq!(registration.validate(), Ok(()));
            }
            let _ = ToServer::decode(&bytes);
            prop_assert_eq!(ToArbiter::decode(&bytes[..63]), Err(Refusal::Malformed));
        }
    }

    #[test]
    fn another_version_is_refused() {
        let mut packet = ToArbiter::Status.encode();
        packet[2..4].copy_from_slice(&(VERSION + 1).to_ne_bytes());
        assert_eq!(ToArbiter::decode(&packet), Err(Refusal::Malformed));
    }
}
