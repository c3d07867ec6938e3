//! Shows what no order explains.

use std::fmt;

use crate::history::Call;
use crate::model::Operation;

/// How many calls are shown before the one that no order explains.
const SHOWN_MAX: usize = 12;

/// The end of the shortest history that no order explains.
#[derive(Debug)]
pub struct Violation<O: Operation> {
    /// The last calls of an order that explains all that ended before.
    pub explained: Vec<Call<O>>,
    /// The state after them.
    pub state: O::State,
    /// Calls that have begun and are not in that order.
    pub open: Vec<Call<O>>,
    /// The call whose end no order explains.
    pub unexplained: Call<O>,
}

impl<O: Operation> Violation<O> {
    /// `order` has the places of those of `calls` that explain all that ended before `unexplained`.
    pub(crate) fn new(calls: &[Call<O>], order: &[usize], unexplained: Call<O>) -> Self {
        let mut state = O::State::default();
        for &call in order {
            calls[call].operation.apply(&mut state);
        }
        let is_open = |&index: &usize| {
            let is_itself = calls[index].begun == unexplained.begun
                && calls[index].session == unexplained.session
                && calls[index].sequence == unexplained.sequence;
            !is_itself && !order.contains(&index)
        };
        let open = (0..calls.len()).filter(is_open);
        let shown = &order[order.len().saturating_sub(SHOWN_MAX)..];
        Self {
            explained: shown.iter().map(|&call| calls[call].clone()).collect(),
            state,
            open: open.map(|call| calls[call].clone()).collect(),
            unexplained,
        }
    }
}

impl<O: Operation> fmt::Display for Violation<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { state, .. } = self;
        writeln!(f, "not linearizable. Each line: begin, end, call")?;
        writeln!(f, "one order explains all calls before; it ends with")?;
        for call in &self.explained {
            writeln!(f, "  {call}")?;
        }
        writeln!(f, "and leaves {state:?}")?;
        writeln!(f, "calls that may come next")?;
        for call in &self.open {
            writeln!(f, "  {call}")?;
        }
        writeln!(f, "but no order explains")?;
        write!(f, "  {}", self.unexplained)
    }
}
