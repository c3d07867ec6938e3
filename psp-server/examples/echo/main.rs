//! Echoes lines on 127.0.0.1:7000, as the README shows it.

include!("server.rs");
