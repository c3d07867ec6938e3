//! The policies through their public face, in virtual time.

mod comparison;
mod custom;
mod darc;
mod driving;
mod files;
mod hints;
mod promises;
mod properties;
mod ranges;
mod settings;
mod simulation;
mod switching;
mod weighted;
