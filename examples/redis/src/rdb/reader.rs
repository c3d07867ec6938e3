//! Reads the parts of a payload.

use std::borrow::Cow;

use super::lzf;

/// First byte of a length of 32 bits.
pub(super) const LEN_OF_32_BITS: u8 = 0x80;
/// First byte of a length of 64 bits.
pub(super) const LEN_OF_64_BITS: u8 = 0x81;

/// The parts are not what their payload says, or too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed;

/// The rest of a payload.
pub(crate) struct Reader<'p> {
    rest: &'p [u8],
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
        Self { rest: parts, visit, has_room: &|_| true }
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

    pub(crate) const fn is_empty(&self) -> bool {
        self.rest.is_empty()
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
                self.bytes(len).map(Cow::Borrowed)
            }
            Length::Integer(len) => self.integer(len).map(Cow::Owned),
            Length::Compressed => {
                let compressed_len = bounded(self.plain_length()?, len_max)?;
                let len = bounded(self.plain_length()?, len_max)?;
                let compressed = self.bytes(compressed_len)?;
                self.take_room(len)?;
                lzf::expand(compressed, len, self.visit).map(Cow::Owned)
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
    pub(super) fn plain_length(&mut self) -> Result<u64, Malformed> {
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

    fn bytes(&mut self, len: usize) -> Result<&'p [u8], Malformed> {
        let (bytes, rest) = self.rest.split_at_checked(len).ok_or(Malformed)?;
        self.rest = rest;
        Ok(bytes)
    }

    /// The next bytes.
    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (array, rest) = self.rest.split_first_chunk().ok_or(Malformed)?;
        self.rest = rest;
        Ok(*array)
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
