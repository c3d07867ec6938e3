//! A memcached-compatible server on psp-server.
pub mod cache;
pub mod counters;
pub mod exptime;
pub mod operations;
