//! The policies through their public face, in virtual time.

mod comparison;
mod darc;
mod properties;
mod simulation;
