//! The keyspace against a model, and under threads.

mod databases;
mod model;
mod threads;
