//! The keyspace against a model, and under threads.

mod model;
mod threads;
