//! Requests behind their length.

use super::{LEN_MAX, Refuse, reason};
use crate::framing::{FrameError, Framing, Rejection, Step};
use crate::sink::Sink;

/// Most bytes of a length.
const WIDTH_MAX: usize = 8;

/// Each request is a header that ends with a length, and so many bytes. The settings are those of tokio-util's
/// `LengthDelimitedCodec`; a request is the whole message, and [`payload`](Self::payload) is what that codec returns.
///
/// ```
/// use psp_protocols::LengthDelimited;
///
/// let framing = LengthDelimited::default().length_field_length(2); // the usual is 4 bytes, big-endian
/// let mut message = Vec::new();
/// framing.put(b"hello", &mut message)?;
/// assert_eq!(message, b"\0\x05hello");
/// assert_eq!(framing.payload(&message), b"hello");
/// # Ok::<(), psp_protocols::FrameError>(())
/// ```
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct LengthDelimited {
    /// Bytes of the header before the length.
    pub length_field_offset: usize,
    /// Bytes of the length: 1 to 8.
    pub length_field_length: usize,
    /// What is added to the length for the bytes behind the header: below 0 if the length counts parts of the header.
    pub length_adjustment: isize,
    /// The length's first byte is its least.
    pub little_endian: bool,
    /// Longest request with its header, in bytes. A longer one breaks the protocol.
    pub len_max: usize,
    /// What a refused request gets: by default a message with `ERROR` and the reason.
    pub refusals: Option<Refuse>,
}

limits!(
    LengthDelimited:
    length_field_offset: usize,
    length_field_length: usize,
    length_adjustment: isize,
    little_endian: bool,
    len_max: usize,
);

impl Default for LengthDelimited {
    fn default() -> Self {
        Self {
            length_field_offset: 0,
            length_field_length: 4,
            length_adjustment: 0,
            little_endian: false,
            len_max: LEN_MAX,
            refusals: None,
        }
    }
}

impl LengthDelimited {
    /// Sets [`refusals`](field@Self::refusals).
    #[must_use]
    pub fn refusals(mut self, refusals: Refuse) -> Self {
        self.refusals = Some(refusals);
        self
    }

    /// Bytes of the header.
    #[must_use]
    pub const fn header_len(&self) -> usize {
        self.length_field_offset + self.length_field_length
    }

    /// What a message has behind its header.
    #[must_use]
    pub fn payload<'a>(&self, message: &'a [u8]) -> &'a [u8] {
        message.get(self.header_len()..).unwrap_or_default()
    }

    /// Writes a message: a header, which has zeros before the length, and `payload`.
    ///
    /// # Errors
    /// When the length of `payload` does not fit into that many bytes. Nothing is written then.
    pub fn put<S: Sink + ?Sized>(&self, payload: &[u8], out: &mut S) -> Result<(), FrameError> {
        let width = self.width()?;
        let length = payload.len() as i128 - self.length_adjustment as i128;
        let fits = u64::try_from(length)
            .ok()
            .filter(|length| width == WIDTH_MAX || *length < 1 << (8 * width));
        let length = fits.ok_or(FrameError::new("the length of the message does not fit"))?;
        for _ in 0..self.length_field_offset {
            out.put(&[0]);
        }
        match self.little_endian {
            true => out.put(&length.to_le_bytes()[..width]),
            false => out.put(&length.to_be_bytes()[WIDTH_MAX - width..]),
        }
        out.put(payload);
        Ok(())
    }

    fn width(&self) -> Result<usize, FrameError> {
        let width = Some(self.length_field_length).filter(|width| (1..=WIDTH_MAX).contains(width));
        width.ok_or(FrameError::new("a length has 1 to 8 bytes"))
    }

    /// The length of the message with this header, and its header.
    fn message_len(&self, header: &[u8]) -> Result<usize, FrameError> {
        let width = self.width()?;
        let field = &header[self.length_field_offset..];
        let mut bytes = [0; WIDTH_MAX];
        let length = if self.little_endian {
            bytes[..width].copy_from_slice(field);
            u64::from_le_bytes(bytes)
        } else {
            bytes[WIDTH_MAX - width..].copy_from_slice(field);
            u64::from_be_bytes(bytes)
        };
        let payload = i128::from(length) + self.length_adjustment as i128;
        let payload = u64::try_from(payload).map_err(|_| FrameError::new("the message is shorter than its header"))?;
        let len = usize::try_from(payload).ok().and_then(|payload| payload.checked_add(header.len()));
        len.filter(|len| *len <= self.len_max).ok_or(FrameError::new("the message is too long"))
    }
}

impl Framing for LengthDelimited {
    type Cursor = ();
    type Head = ();

    fn next_frame(&self, (): &mut (), input: &[u8]) -> Result<Step, FrameError> {
        let header_len = self.header_len();
        let Some(header) = input.get(..header_len) else {
            return Ok(Step::NeedMore { len_min: header_len });
        };
        let len = self.message_len(header)?;
        Ok(match len <= input.len() {
            true => Step::Frame { len, head: () },
            false => Step::NeedMore { len_min: len },
        })
    }

    fn encode_rejection(&self, rejection: &Rejection<'_>, request: &[u8], out: &mut dyn Sink) {
        match self.refusals {
            Some(refuse) => refuse(rejection, request, out),
            // A length of one byte has no room for a long reason.
            None => match self.put(reason(rejection).as_bytes(), out) {
                Ok(()) => {}
                Err(_) => self.put(b"ERROR", out).unwrap_or_default(),
            },
        }
    }
}
