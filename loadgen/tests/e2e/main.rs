//! psp-loadgen against servers in this process, and as a program.

mod measure;
mod own_protocol;
mod run;
mod runs;
mod scripted;
mod sending;
mod sim_commands;
mod targets;
mod validation;
