//! The policies through their public face, in virtual time.

mod comparison;
mod darc;
mod driving;
mod files;
mod hints;
mod kit;
mod promises;
mod properties;
mod settings;
mod simulation;
mod switching;
mod weighted;
