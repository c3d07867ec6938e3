//! End-to-end tests of psp-redis: they start the program and talk to it.

mod bad_input;
mod clients;
mod common;
mod local_sockets;
mod overload;
mod protocol;
mod steering;
mod topologies;
