//! End-to-end tests of psp-rocksdb: they start the program and talk to it.

mod api;
mod common;
mod durability;
mod engines;
mod medium;
mod preemption;
mod program;
mod steering;
mod udp;
