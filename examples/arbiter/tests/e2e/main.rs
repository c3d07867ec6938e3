//! The program psp-arbiter, and servers that ask it for cores, as processes of their own.

mod command_line;
mod fixture;
mod kills;
mod life;
mod server;
mod servers;
mod stand_in;
