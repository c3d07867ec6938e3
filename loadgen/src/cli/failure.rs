//! Why the program ends without success.

/// Why the program ends without success.
pub(crate) struct Failure {
    /// The error.
    pub(crate) error: anyhow::Error,
    /// 1: the work failed. 2: the command line is wrong. 3: a condition or an objective is missed.
    /// 130: interrupted.
    pub(crate) exit_code: u8,
}

impl Failure {
    pub(super) fn usage(error: impl Into<anyhow::Error>) -> Self {
        Self { error: error.into(), exit_code: 2 }
    }

    /// The work was done, but a condition or an objective is missed.
    pub(super) fn condition(error: impl Into<anyhow::Error>) -> Self {
        Self { error: error.into(), exit_code: 3 }
    }

    /// A signal stopped the work. Results up to then were printed.
    pub(super) fn interrupted(what_is_done: String) -> Self {
        Self {
            error: anyhow::anyhow!("interrupted; {what_is_done}"),
            exit_code: 130,
        }
    }

    pub(super) fn work(error: impl Into<anyhow::Error>) -> Self {
        Self { error: error.into(), exit_code: 1 }
    }
}
