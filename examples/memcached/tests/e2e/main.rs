//! End-to-end tests of psp-memcached: they start the program and talk to it.

mod bad_input;
mod clients;
mod command_line;
mod common;
mod control_groups;
mod linearizable;
mod load;
mod local_socket;
mod memory;
mod overload;
mod protocol;
mod statistics;
mod steering;
#[cfg(feature = "tls")]
mod tls;
mod udp;
