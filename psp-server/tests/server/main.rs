//! Whole servers in this process.

mod abandoned;
mod backpressure;
mod budgets;
#[path = "../common/mod.rs"]
mod common;
mod configuration;
#[cfg(target_os = "linux")]
mod control;
mod deadlines;
mod dependencies;
#[cfg(target_os = "linux")]
mod distributed;
mod documented_metrics;
mod faulty_framings;
mod foreseen;
#[cfg(target_os = "linux")]
mod handing_over;
mod held_replies;
mod hints;
mod inline_turns;
#[cfg(target_os = "linux")]
mod long_turns;
#[cfg(target_os = "linux")]
mod one_line_errors;
mod overload;
mod own_settings;
mod pipelines;
mod pushes;
mod refused;
mod replies;
mod serving;
mod sockets;
mod spans;
mod starting;
mod stuck;
mod studies;
mod switching;
mod tutorial;
mod unread;
