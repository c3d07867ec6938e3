//! Output formats: aligned text, Markdown, HTML and comma-separated values.

mod csv;
mod distinct;
mod table;

pub use csv::Csv;
pub use distinct::distinct;
pub use table::{Table, escaped, number};
