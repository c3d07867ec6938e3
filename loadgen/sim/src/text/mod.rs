//! Texts: what files spell, and the output formats aligned text, Markdown, HTML and comma-separated values.

mod csv;
mod distinct;
mod limited;
mod spelled;
mod table;

pub use csv::Csv;
pub use distinct::distinct;
pub(crate) use limited::read;
pub(crate) use spelled::named_or_spelled;
pub use table::{Table, escaped, number};
