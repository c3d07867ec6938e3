//! Reads the parts of a payload.

use std::borrow::Cow;

use super::lzf;

/// First byte of a length of 32 bits.
pub(super) const LEN_OF_32_BITS: u8 = 0x80;
/// First byte of a length of 64 bits.
pub(super) const LEN_OF_64_BITS: u8 = 0x81;

/// Bytes of a string that are read from a stream at a time.
const STEP_BYTES: usize = 1 << 20;

/// The parts are not what their payload says, or too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed;

/// Parts that come one after the other, such as from a file.
pub(crate) trait Stream {
    /// The next bytes, as many as there is room for.
    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), Malformed>;
}

/// Where parts come from.
enum Source<'p> {
    /// The rest of a payload.
    Payload(&'p [u8]),
    Stream(&'p mut dyn Stream),
}

/// The rest of a payload, or of a stream.
pub(crate) struct Reader<'p> {
    source: Source<'p>,
    /// Called for each part that takes as long as one element.
    visit: &'p dyn Fn(),
    /// Whether there is memory for a string of so many bytes.
    has_room: &'p dyn Fn(usize) -> bool,
}

/// A length, or the form of a string without one.
enum Length {
    Plain(u64),
    /// An integer of this many bytes.
    Integer(usize),
    Compressed,
}

impl<'p> Reader<'p> {
    pub(super) const fn new(parts: &'p [u8], visit: &'p dyn Fn()) -> Self {
        Self::from(Source::Payload(parts), visit)
    }

    /// Reads from a stream as far as it is asked to.
    pub(crate) const fn of_stream(stream: &'p mut dyn Stream, visit: &'p dyn Fn()) -> Self {
        Self::from(Source::Stream(stream), visit)
    }

    const fn from(source: Source<'p>, visit: &'p dyn Fn()) -> Self {
        Self { source, visit, has_room: &|_| true }
    }

    /// Asks `has_room` whether there is memory for each string.
    pub(crate) fn within(self, has_room: &'p dyn Fn(usize) -> bool) -> Self {
        Self { has_room, ..self }
    }

    /// Asks whether there is memory for a string of `len` bytes.
    pub(super) const fn room(&self) -> &'p dyn Fn(usize) -> bool {
        self.has_room
    }

    /// What to call for each part that takes as long as one element.
    pub(super) const fn visitor(&self) -> &'p dyn Fn() {
        self.visit
    }

    /// Whether a payload has no more. Of a stream nothing is known.
    pub(crate) const fn is_empty(&self) -> bool {
        matches!(self.source, Source::Payload([]))
    }

    /// The next byte.
    pub(crate) fn byte(&mut self) -> Result<u8, Malformed> {
        let [byte] = self.array()?;
        Ok(byte)
    }

    /// The next string, of up to `len_max` bytes.
    pub(crate) fn string(&mut self, len_max: usize) -> Result<Cow<'p, [u8]>, Malformed> {
        (self.visit)();
        match self.length()? {
            Length::Plain(len) => {
                let len = bounded(len, len_max)?;
                self.take_room(len)?;
                self.bytes(len)
            }
            Length::Integer(len) => self.integer(len).map(Cow::Owned),
            Length::Compressed => {
                let compressed_len = bounded(self.plain_length()?, len_max)?;
                let len = bounded(self.plain_length()?, len_max)?;
                let compressed = self.bytes(compressed_len)?;
                self.take_room(len)?;
                lzf::expand(&compressed, len, self.visit).map(Cow::Owned)
            }
        }
    }

    fn take_room(&self, len: usize) -> Result<(), Malformed> {
        (self.has_room)(len).then_some(()).ok_or(Malformed)
    }

    fn length(&mut self) -> Result<Length, Malformed> {
        let first = self.byte()?;
        Ok(match (first >> 6, first) {
            (0, _) => Length::Plain(first.into()),
            (1, _) => Length::Plain(u64::from(first & 0x3f) << 8 | u64::from(self.byte()?)),
            (_, LEN_OF_32_BITS) => Length::Plain(u32::from_be_bytes(self.array()?).into()),
            (_, LEN_OF_64_BITS) => Length::Plain(u64::from_be_bytes(self.array()?)),
            (3, _) if first & 0x3f < 3 => Length::Integer(1 << (first & 0x3f)),
            (3, _) if first & 0x3f == 3 => Length::Compressed,
            _ => return Err(Malformed),
        })
    }

    /// The next length or count.
    pub(crate) fn plain_length(&mut self) -> Result<u64, Malformed> {
        match self.length()? {
            Length::Plain(len) => Ok(len),
            _ => Err(Malformed),
        }
    }

    /// The digits of an integer of 1, 2 or 4 bytes.
    fn integer(&mut self, len: usize) -> Result<Vec<u8>, Malformed> {
        let number = match len {
            1 => i8::from_le_bytes(self.array()?).into(),
            2 => i16::from_le_bytes(self.array()?).into(),
            _ => i32::from_le_bytes(self.array()?),
        };
        Ok(number.to_string().into_bytes())
    }

    /// The next `len` bytes.
    pub(super) fn bytes(&mut self, len: usize) -> Result<Cow<'p, [u8]>, Malformed> {
        match &mut self.source {
            Source::Payload(parts) => {
                let (bytes, rest) = parts.split_at_checked(len).ok_or(Malformed)?;
                *parts = rest;
                Ok(Cow::Borrowed(bytes))
            }
            Source::Stream(stream) => {
                // A length that is not true costs no more memory than a step.
                let mut bytes = Vec::new();
                while bytes.len() < len {
                    let begun = bytes.len();
                    bytes.resize(len.min(begun + STEP_BYTES), 0);
                    stream.fill(&mut bytes[begun..])?;
                    (self.visit)();
                }
                Ok(Cow::Owned(bytes))
            }
        }
    }

    /// The next bytes.
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        match &mut self.source {
            Source::Payload(parts) => {
                let (array, rest) = parts.split_first_chunk().ok_or(Malformed)?;
                *parts = rest;
                Ok(*array)
            }
            Source::Stream(stream) => {
                let mut array = [0; N];
                stream.fill(&mut array)?;
                Ok(array)
            }
        }
    }
}

fn bounded(len: u64, len_max: usize) -> Result<usize, Malformed> {
    let len = usize::try_from(len).ok().filter(|len| *len <= len_max);
    len.ok_or(Malformed)
}

/// The bytes of the string that starts `parts`, once it is expanded, without reading it.
pub(super) fn string_len(parts: &[u8]) -> Result<u64, Malformed> {
    let mut reader = Reader::new(parts, &|| {});
    match reader.length()? {
        Length::Plain(len) => Ok(len),
        Length::Integer(_) => Ok(0),
        Length::Compressed => {
            reader.plain_length()?;
            reader.plain_length()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_digits_and_compressed_strings_expand() {
        let parts = b"\xc0\xfb\xc1\x00\x01\xc2\x00\x00\x00\x80\xc3\x05\x0d\x00a\xe0\x03\x00";
        let mut reader = Reader::new(parts, &|| {});
        for expected in ["-5", "256", "-2147483648", "aaaaaaaaaaaaa"] {
            assert_eq!(reader.string(100).unwrap(), expected.as_bytes());
        }
        assert!(reader.is_empty());
    }

    #[test]
    fn strings_have_a_bound() {
        let read = |parts: &[u8]| Reader::new(parts, &|| {}).string(100).map(Cow::into_owned);
        assert_eq!(read(b"\x40\x65"), Err(Malformed));
        assert_eq!(read(b"\xc3\x05\x40\x65\x00a\xe0\x03\x00"), Err(Malformed));
        assert_eq!(read(b"\x81\xff\xff\xff\xff\xff\xff\xff\xff"), Err(Malformed));
        assert_eq!(read(b"\xc4"), Err(Malformed));
        assert_eq!(read(b"\x05abc"), Err(Malformed));
    }
}
