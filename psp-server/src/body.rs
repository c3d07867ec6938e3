//! Parts of long requests that outlive them.

use bytes::Bytes;

/// The buffer of a long request, by which a [`Handler`](crate::Handler) keeps a part of the request without a copy.
#[derive(Debug, Clone, Copy, Default)]
pub struct Body<'a> {
    buffer: Option<&'a Bytes>,
}

impl<'a> Body<'a> {
    /// The body of a request that is in `buffer`, which others may share.
    #[must_use]
    pub const fn new(buffer: Option<&'a Bytes>) -> Self {
        Self { buffer }
    }

    /// `part` of the request, without a copy. `None` if the part should be copied: the request is short, or more than
    /// an eighth of what would be kept is something else.
    ///
    /// What is kept counts no more as memory of the connection.
    #[must_use]
    pub fn keep(self, part: &[u8]) -> Option<Bytes> {
        let buffer = self.buffer?;
        let is_most = part.len() >= buffer.len() - buffer.len() / 8;
        let start = part.as_ptr().addr().checked_sub(buffer.as_ptr().addr())?;
        let end = start.checked_add(part.len())?;
        (is_most && end <= buffer.len()).then(|| buffer.slice(start..end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_of_a_buffer_is_kept_and_less_is_copied() {
        let buffer = Bytes::from(vec![7; 100]);
        let body = Body::new(Some(&buffer));
        let kept = body.keep(&buffer[5..95]).unwrap();
        assert_eq!((kept.as_ptr(), kept.len()), (buffer[5..].as_ptr(), 90));
        assert_eq!(body.keep(&buffer[15..]), None);
        assert_eq!(body.keep(&[7; 90]), None, "of something else");
        assert_eq!(Body::default().keep(&buffer), None);
    }
}
