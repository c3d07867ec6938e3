//! Processor time, as the system counts it.

use std::fs;

/// Units of the system's times in a second. Linux shows programs this number on all processors.
const TICKS_PER_S: f64 = 100.0;
/// The field of `/proc/PID/stat` behind the name that has the user time, from 0 on.
const USER_FIELD: usize = 11;

/// Processor time in seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct CpuTime {
    /// Of programs.
    pub user_s: f64,
    /// Of the system for them.
    pub system_s: f64,
    /// Of processes that have ended.
    pub children_user_s: f64,
    /// Of the system for processes that have ended.
    pub children_system_s: f64,
}

impl CpuTime {
    /// Reads a file in the form of `/proc/PID/stat`.
    #[must_use]
    pub fn read(path: &str) -> Option<Self> {
        Self::parse(&fs::read_to_string(path).ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        // The name of the program may have spaces and brackets.
        let (_, fields) = text.rsplit_once(") ")?;
        let mut ticks = fields.split(' ').skip(USER_FIELD);
        let mut seconds = || Some(ticks.next()?.parse::<f64>().ok()? / TICKS_PER_S);
        Some(Self {
            user_s: seconds()?,
            system_s: seconds()?,
            children_user_s: seconds()?,
            children_system_s: seconds()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_behind_the_name_are_read() {
        let text = "7 (a b) c) S 1 7 7 0 -1 4194560 2 0 0 0 150 25 300 0 20 0 1 0 5";
        let expected = CpuTime {
            user_s: 1.5,
            system_s: 0.25,
            children_user_s: 3.0,
            children_system_s: 0.0,
        };
        assert_eq!(CpuTime::parse(text), Some(expected));
        assert_eq!(CpuTime::parse("7 (a) S 1"), None);
        assert!(CpuTime::read("/proc/self/stat").is_some());
    }
}
