//! End-to-end tests of psp-redis: they start the program and talk to it.

mod accounts;
mod admission;
mod bad_input;
mod blocking;
mod buffers;
mod bursts;
mod clients;
mod common;
mod costs;
mod databases;
mod differential;
mod endless;
mod eviction;
mod expiry;
mod functions;
mod introspection;
mod linearizable;
mod local_sockets;
mod memory;
mod overload;
mod patterns;
mod payloads;
mod ports;
mod protocol;
mod pubsub;
mod scripts;
mod steering;
mod strangers;
mod streams;
#[cfg(feature = "tls")]
mod tls;
mod topologies;
mod tracking;
mod transactions;
mod unread_log;
mod users;
