//! How much may wait for a client that reads slowly: `client-output-buffer-limit`.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::memory::parse_bytes;

/// The limit for subscribers, and that for other clients. A client for which more waits is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct OutputLimit {
    /// At this many bytes at once; 0 for no limit.
    pub hard_bytes: u64,
    /// At this many bytes for a time; 0 for no limit.
    pub soft_bytes: u64,
    /// That time in seconds.
    pub soft_s: u64,
    /// Replies that may wait for other clients; 0 for no limit but that of all buffers. `None`: as the server's
    /// settings say.
    pub normal_bytes: Option<u64>,
}

impl Default for OutputLimit {
    /// Redis's limit: 32 MiB, or 8 MiB for a minute.
    fn default() -> Self {
        Self {
            hard_bytes: 32 << 20,
            soft_bytes: 8 << 20,
            soft_s: 60,
            normal_bytes: None,
        }
    }
}

impl OutputLimit {
    /// Whether `queued_bytes` are too many by now. More than the soft limit wait since `over_soft_since`.
    pub(crate) fn is_exceeded(&self, queued_bytes: usize, over_soft_since: &mut Option<Instant>) -> bool {
        let is_over = |limit_bytes| limit_bytes > 0 && queued_bytes as u64 > limit_bytes;
        if is_over(self.hard_bytes) {
            return true;
        }
        if !is_over(self.soft_bytes) {
            *over_soft_since = None;
            return false;
        }
        let since = *over_soft_since.get_or_insert_with(Instant::now);
        since.elapsed() > Duration::from_secs(self.soft_s)
    }

    /// The limits of all classes as CONFIG GET has them, with the one of the class `normal`. There are no replicas.
    #[must_use]
    pub fn with_other_classes(self, normal_bytes: u64) -> String {
        let pubsub = Self { normal_bytes: None, ..self };
        format!("normal {normal_bytes} 0 0 slave 268435456 67108864 60 {pubsub}")
    }

    /// Reads the limits of several classes. The class `normal` has no soft limit, and replicas have what they have.
    ///
    /// # Errors
    /// The reason, in words of Redis where it has some.
    pub fn parse_classes(self, text: &str) -> Result<Self, &'static str> {
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        let (classes, rest) = words.as_chunks::<4>();
        if !rest.is_empty() || classes.is_empty() {
            return Err("Wrong number of arguments in buffer limit configuration.");
        }
        let mut limit = self;
        for &[class, hard, soft, seconds] in classes {
            let given = Self {
                normal_bytes: limit.normal_bytes,
                hard_bytes: parse_bytes(hard).map_err(|_| INVALID)?,
                soft_bytes: parse_bytes(soft).map_err(|_| INVALID)?,
                soft_s: seconds.parse().map_err(|_| INVALID)?,
            };
            let fixed = match class.to_ascii_lowercase().as_str() {
                "pubsub" => {
                    limit = given;
                    continue;
                }
                "normal" if given.soft_bytes > 0 => {
                    return Err("the class normal has no soft limit here");
                }
                "normal" => {
                    limit.normal_bytes = Some(given.hard_bytes);
                    continue;
                }
                "slave" | "replica" => Self {
                    hard_bytes: 256 << 20,
                    soft_bytes: 64 << 20,
                    soft_s: 60,
                    ..given
                },
                _ => return Err("Invalid client class specified in buffer limit configuration."),
            };
            if given != fixed {
                return Err("only the limits of the classes normal and pubsub can change");
            }
        }
        Ok(limit)
    }
}

const INVALID: &str = "Error in hard, soft or soft_seconds setting in buffer limit configuration.";

/// `pubsub HARD SOFT SECONDS`, behind `normal HARD 0 0` if that is set.
impl fmt::Display for OutputLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { hard_bytes, soft_bytes, soft_s, normal_bytes } = self;
        if let Some(normal_bytes) = normal_bytes {
            write!(f, "normal {normal_bytes} 0 0 ")?;
        }
        write!(f, "pubsub {hard_bytes} {soft_bytes} {soft_s}")
    }
}

impl FromStr for OutputLimit {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::default().parse_classes(text)
    }
}

impl TryFrom<String> for OutputLimit {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<OutputLimit> for String {
    fn from(limit: OutputLimit) -> Self {
        limit.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_written_as_redis_writes_them() {
        let limit = OutputLimit::default();
        assert_eq!(limit.to_string(), "pubsub 33554432 8388608 60");
        let with_normal = OutputLimit { normal_bytes: Some(1 << 20), ..limit };
        assert_eq!(limit.with_other_classes(1 << 20).parse(), Ok(with_normal));
        assert_eq!(with_normal.to_string().parse(), Ok(with_normal));
        let other = "normal 0 0 0 PubSub 1mb 2k 7".parse();
        let expected = OutputLimit {
            hard_bytes: 1 << 20,
            soft_bytes: 2000,
            soft_s: 7,
            normal_bytes: Some(0),
        };
        assert_eq!(other, Ok(expected));
        for wrong in [
            "",
            "pubsub 1 2",
            "pubsub x 1 1",
            "pubsub 1 1 x",
            "other 1 1 1",
            "normal 1 1 0",
            "slave 1 0 0",
        ] {
            assert!(OutputLimit::from_str(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_hard_limit_counts_at_once_and_the_soft_one_after_its_time() {
        let mut limit = OutputLimit {
            hard_bytes: 100,
            soft_bytes: 10,
            soft_s: 1000,
            normal_bytes: None,
        };
        let mut since = None;
        assert!(limit.is_exceeded(101, &mut since));
        assert!(!limit.is_exceeded(100, &mut since) && since.is_some());
        assert!(!limit.is_exceeded(10, &mut since) && since.is_none());
        assert!(!limit.is_exceeded(11, &mut since));
        limit.soft_s = 0;
        std::thread::sleep(Duration::from_millis(1));
        assert!(limit.is_exceeded(11, &mut since));
        (limit.soft_bytes, limit.hard_bytes) = (0, 0);
        assert!(!limit.is_exceeded(usize::MAX, &mut since));
    }
}
