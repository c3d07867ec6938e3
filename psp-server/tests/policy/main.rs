//! The policies through their public face, in virtual time.

mod comparison;
mod darc;
mod model;
mod operations;
mod promises;
mod properties;
mod settings;
mod simulation;
mod switching;
