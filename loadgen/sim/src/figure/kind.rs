//! What every kind of figures has.

use crate::chart::Panel;

use super::error::FigureError;
use super::job::{Job, Scale};

/// A kind of figures: a program that reads a table of its name.
pub(super) trait Kind {
    /// Names of the lines, which all panels have.
    fn series(&self) -> Vec<String>;

    /// The panels without points.
    fn panels(&self, scale: &Scale) -> Result<Vec<Panel>, FigureError>;

    /// What is computed, in words for the footer.
    fn conditions(&self, scale: &Scale) -> Vec<String>;

    /// What computes the points.
    fn jobs(&self, scale: &Scale) -> Result<Vec<Job>, FigureError>;

    /// Panels side by side, so that no panel stands alone in a row.
    fn columns(&self, panels: usize) -> usize {
        match panels {
            0..=3 => panels,
            4 => 2,
            _ => 3,
        }
    }
}
