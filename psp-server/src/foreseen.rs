//! Requests that are about to run, for [`Handler::foresee`](crate::Handler::foresee).

use std::iter::FusedIterator;
use std::slice;

use crate::transport::run::Frame;

/// The next requests of a connection, in the order in which they run: the frame of each, and its head.
#[derive(Debug)]
pub struct Foreseen<'a, H = ()> {
    /// What is left of the connection's input.
    input: &'a [u8],
    frames: slice::Iter<'a, Frame<H>>,
}

impl<'a, H> Foreseen<'a, H> {
    /// Most requests at a time. What they need has to stay in the caches until they run.
    pub const COUNT_MAX: usize = 32;

    /// The first of `frames`, which are at the start of `input`. `None` if there are less than two: one request gains
    /// nothing.
    #[inline]
    pub(crate) fn new(input: &'a [u8], frames: &'a [Frame<H>]) -> Option<Self> {
        let frames = &frames[..frames.len().min(Self::COUNT_MAX)];
        (frames.len() > 1).then(|| Self { input, frames: frames.iter() })
    }
}

impl<H> Clone for Foreseen<'_, H> {
    fn clone(&self) -> Self {
        Self { input: self.input, frames: self.frames.clone() }
    }
}

impl<'a, H> Iterator for Foreseen<'a, H> {
    type Item = (&'a [u8], &'a H);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let frame = self.frames.next()?;
        let (payload, rest) = self.input.split_at_checked(frame.len)?;
        self.input = rest;
        Some((payload, &frame.head))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.frames.size_hint()
    }
}

impl<H> ExactSizeIterator for Foreseen<'_, H> {}

impl<H> FusedIterator for Foreseen<'_, H> {}

#[cfg(test)]
mod tests {
    use psp_policy::RequestType;

    use super::*;

    fn frames(lens: &[usize]) -> Vec<Frame<usize>> {
        let frame = |(head, &len)| Frame { len, request_type: RequestType::new(0), head };
        lens.iter().enumerate().map(frame).collect()
    }

    #[test]
    fn requests_come_in_order_with_their_frames() {
        let frames = frames(&[1, 3, 2]);
        let foreseen = Foreseen::new(b"abbbccd", &frames).expect("three requests");
        assert_eq!(foreseen.len(), 3);
        let expected: [(&[u8], &usize); 3] = [(b"a", &0), (b"bbb", &1), (b"cc", &2)];
        assert_eq!(foreseen.clone().collect::<Vec<_>>(), expected);
        assert_eq!(foreseen.collect::<Vec<_>>(), expected, "a clone is its own");
    }

    #[test]
    fn there_are_two_at_least_and_a_bounded_number() {
        let many = frames(&[1; 100]);
        for count in 0..2 {
            assert!(Foreseen::new(b"a", &many[..count]).is_none(), "{count}");
        }
        let foreseen = Foreseen::new(&[0; 100], &many).expect("many requests");
        assert_eq!(foreseen.count(), Foreseen::<usize>::COUNT_MAX);
    }
}
