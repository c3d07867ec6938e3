//! Something that happened to a request.

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A request arrived, or a run of pipelined ones.
    Arrived = 1,
    /// A turn of it began on a worker.
    Begun = 2,
    /// The turn ended with the request, which has its reply.
    Completed = 3,
    /// The turn ended because the request yielded. It waits for another one.
    Yielded = 4,
    /// The turn ended because the request waits for something else.
    Blocked = 5,
    /// That has come: the request waits for another turn.
    Woken = 6,
    /// The turn on a worker was asked to yield. The request may not be known.
    Asked = 7,
    /// A worker took the request from another worker's queue.
    Stolen = 8,
    /// A worker got the request from the worker that received it.
    HandedOver = 9,
    /// The request was refused: a queue was full.
    Rejected = 10,
    /// The request was not run: no client waits for it any more, or it had waited for too long.
    Dropped = 11,
}

const KINDS: [Kind; 11] = [
    Kind::Arrived,
    Kind::Begun,
    Kind::Completed,
    Kind::Yielded,
    Kind::Blocked,
    Kind::Woken,
    Kind::Asked,
    Kind::Stolen,
    Kind::HandedOver,
    Kind::Rejected,
    Kind::Dropped,
];

/// Something that happened to a request. Fields that say nothing about its kind are 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// When, in nanoseconds of whatever clock.
    pub at_ns: u64,
    /// What.
    pub kind: Kind,
    /// The scheduler's name for the request. No two requests have the same one at a time.
    pub request: u32,
    /// Slot of the request's type; [`Event::NO_SLOT`] if the request alone is known.
    pub slot: u16,
    /// The worker.
    pub worker: u16,
    /// Of a turn that begins, the requests of the run; of one that completes, those that have their replies.
    pub count: u16,
}

impl Event {
    /// The type is that of the request's other events.
    pub const NO_SLOT: u16 = u16::MAX;

    /// Words of an event.
    pub const WORDS: usize = 3;

    /// The event as words of a fixed number.
    #[must_use]
    pub const fn to_words(self) -> [u64; Self::WORDS] {
        let about = self.kind as u64 | (self.worker as u64) << 8 | (self.slot as u64) << 24 | (self.count as u64) << 40;
        [self.at_ns, about, self.request as u64]
    }

    /// The event of these words; `None` if there is none.
    #[must_use]
    pub fn from_words([at_ns, about, request]: [u64; Self::WORDS]) -> Option<Self> {
        let kind = usize::from((about & 0xff) as u8).checked_sub(1)?;
        Some(Self {
            at_ns,
            kind: *KINDS.get(kind)?,
            request: u32::try_from(request).ok()?,
            slot: (about >> 24) as u16,
            worker: (about >> 8) as u16,
            count: (about >> 40) as u16,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn an_event_survives_its_words(
            at_ns: u64, kind in 0..KINDS.len(), request: u32, slot: u16, worker: u16, count: u16,
        ) {
            let kind = KINDS[kind];
            let event = Event { at_ns, kind, request, slot, worker, count };
            prop_assert_eq!(Event::from_words(event.to_words()), Some(event));
        }
    }

    #[test]
    fn empty_words_are_no_event() {
        assert_eq!(Event::from_words([0; Event::WORDS]), None);
        assert_eq!(Event::from_words([0, 12, 0]), None);
    }
}
