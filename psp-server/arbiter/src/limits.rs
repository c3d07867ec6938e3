//! Bounds on everything that a client of the arbiter controls.

use std::time::Duration;

/// The most cores of a machine.
pub const CORES_MAX: usize = 1024;

/// The most threads of one server that the arbiter knows.
pub const THREADS_PER_SERVER_MAX: usize = 256;

/// The most connections at a time.
pub const CONNECTIONS_MAX: usize = 128;

/// The most connections of one user, other than root, at a time.
pub const CONNECTIONS_PER_USER_MAX: usize = 32;

/// How many messages a connection may send in a row. A server that registers again sends one for each thread, and two
/// more.
pub const MESSAGES_BURST_MAX: u32 = 1024;

/// How many messages a second a connection may send for longer.
pub const MESSAGES_PER_SECOND_MAX: u32 = 5000;

/// How many messages of a connection the arbiter reads before it looks at other connections.
pub const MESSAGES_PER_TURN_MAX: usize = 16;

/// How long a connection may exist before its server registers.
pub const REGISTER_WITHIN: Duration = Duration::from_secs(5);

/// The most bytes of a server's name.
pub const NAME_BYTES_MAX: usize = 32;
