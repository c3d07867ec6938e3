//! End-to-end tests of psp-rpc: they start the program and talk to it.

mod bad_input;
mod clients;
mod codec;
mod common;
mod control_groups;
mod deferred;
mod failures;
mod gather;
mod life;
mod methods;
mod one_connection;
