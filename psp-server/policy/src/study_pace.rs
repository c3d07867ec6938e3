//! When a live driver does the studies that its scheduler asks for.

/// For so many times as long as a study took, there is no other.
const REST: u64 = 9;
/// For how long there is none where the system has no thread.
const REFUSED_REST_NS: u64 = 10_000_000_000;

/// One study at a time, and a rest after each.
#[derive(Debug, Default)]
pub struct StudyPace {
    running: Option<Running>,
    next_ns: u64,
}

#[derive(Debug)]
struct Running {
    began_ns: u64,
    /// The scheduler that asked for it is no longer in force.
    is_stale: bool,
}

/// A study that is no longer running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StudyEnded {
    /// In nanoseconds.
    pub took_ns: u64,
    /// Whether the scheduler that asked for it is in force yet. No other is told of it.
    pub is_wanted: bool,
}

impl StudyPace {
    /// Whether another study may begin.
    #[must_use]
    #[inline]
    pub const fn may_begin(&self, now_ns: u64) -> bool {
        self.running.is_none() && now_ns >= self.next_ns
    }

    /// A study begins.
    pub const fn begins(&mut self, began_ns: u64) {
        self.running = Some(Running { began_ns, is_stale: false });
    }

    /// The scheduler that may have asked for one is replaced.
    pub const fn is_replaced(&mut self) {
        if let Some(running) = &mut self.running {
            running.is_stale = true;
        }
    }

    /// The study has ended, or panicked.
    pub fn ends(&mut self, now_ns: u64) -> StudyEnded {
        let running = self.running.take();
        let began_ns = running.as_ref().map_or(now_ns, |running| running.began_ns);
        let took_ns = now_ns.saturating_sub(began_ns);
        self.next_ns = now_ns.saturating_add(took_ns.saturating_mul(REST));
        StudyEnded {
            took_ns,
            is_wanted: running.is_some_and(|running| !running.is_stale),
        }
    }

    /// The system has no thread for the study.
    pub const fn refused(&mut self, now_ns: u64) {
        self.running = None;
        self.next_ns = now_ns.saturating_add(REFUSED_REST_NS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_one_study_at_a_time_and_a_rest_after_it() {
        let mut pace = StudyPace::default();
        assert!(pace.may_begin(0));
        pace.begins(100);
        assert!(!pace.may_begin(u64::MAX));
        let ended = pace.ends(130);
        assert_eq!((ended.took_ns, ended.is_wanted), (30, true));
        assert!(!pace.may_begin(130 + 269));
        assert!(pace.may_begin(130 + 270));
        pace.begins(500);
        pace.refused(500);
        assert!(!pace.may_begin(500 + REFUSED_REST_NS - 1));
        assert!(pace.may_begin(500 + REFUSED_REST_NS));
    }

    #[test]
    fn the_next_scheduler_is_not_told_what_another_asked() {
        let mut pace = StudyPace::default();
        pace.is_replaced();
        pace.begins(0);
        pace.is_replaced();
        assert!(!pace.ends(1).is_wanted);
        pace.begins(10);
        assert!(pace.ends(11).is_wanted);
    }
}
