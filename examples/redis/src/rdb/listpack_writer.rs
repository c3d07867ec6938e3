//! Writes listpacks, in the form that `packed` describes.

use super::packed::{END, MANY, backward_len};

/// Entries of a listpack that is being written.
#[derive(Default)]
pub(super) struct ListpackWriter {
    bytes: Vec<u8>,
    count: usize,
}

impl ListpackWriter {
    pub(super) fn integer(&mut self, integer: i64) {
        let start = self.bytes.len();
        let [low, high, ..] = integer.to_le_bytes();
        match integer {
            0..0x80 => self.bytes.push(low),
            -0x1000..0x1000 => self.bytes.extend([0xc0 | (high & 0x1f), low]),
            -0x8000..0x8000 => self.wide(0xf1, integer, 2),
            -0x80_0000..0x80_0000 => self.wide(0xf2, integer, 3),
            -0x8000_0000..0x8000_0000 => self.wide(0xf3, integer, 4),
            _ => self.wide(0xf4, integer, 8),
        }
        self.end(start);
    }

    fn wide(&mut self, form: u8, integer: i64, width: usize) {
        self.bytes.push(form);
        self.bytes.extend(&integer.to_le_bytes()[..width]);
    }

    /// A string; digits stay a string.
    pub(super) fn string(&mut self, string: &[u8]) {
        let start = self.bytes.len();
        match string.len() {
            len @ ..0x40 => self.bytes.push(0x80 | len as u8),
            len @ ..0x1000 => self.bytes.extend([0xe0 | (len >> 8) as u8, len as u8]),
            len => {
                self.bytes.push(0xf0);
                self.bytes.extend((len as u32).to_le_bytes());
            }
        }
        self.bytes.extend_from_slice(string);
        self.end(start);
    }

    /// Adds the length of the entry from `start` on, by which it is found from its end.
    fn end(&mut self, start: usize) {
        let len = self.bytes.len() - start;
        let width = backward_len(len);
        for index in (0..width).rev() {
            let more = if index + 1 < width { 0x80 } else { 0 };
            self.bytes.push((len >> (7 * index)) as u8 & 0x7f | more);
        }
        self.count += 1;
    }

    /// The whole listpack: these entries, then those of `rest`.
    pub(super) fn finish(self, rest: &Self) -> Vec<u8> {
        const HEAD_LEN: usize = 6;
        let len = HEAD_LEN + self.bytes.len() + rest.bytes.len() + 1;
        let count = u16::try_from(self.count + rest.count).unwrap_or(MANY);
        let mut pack = Vec::with_capacity(len);
        pack.extend((len as u32).to_le_bytes());
        pack.extend(count.to_le_bytes());
        pack.extend(self.bytes);
        pack.extend_from_slice(&rest.bytes);
        pack.push(END);
        pack
    }
}

#[cfg(test)]
mod tests {
    use super::super::packed::Listpack;
    use super::*;

    #[test]
    fn entries_are_read_as_they_are_written() {
        let integers = [0, 127, 128, -1, 4095, -4096, 4096, 1 << 15, -(1 << 15), 1 << 23, 1 << 31];
        let integers = integers.into_iter().chain([-(1 << 23), i64::MAX, i64::MIN]);
        let strings = [0, 1, 63, 64, 125, 126, 127, 4095, 4096, 20_000, 3_000_000].map(|len| vec![b'x'; len]);
        let mut head = ListpackWriter::default();
        integers.clone().for_each(|integer| head.integer(integer));
        let mut rest = ListpackWriter::default();
        strings.iter().for_each(|string| rest.string(string));
        let pack = head.finish(&rest);

        let mut entries = Listpack::new(&pack).unwrap();
        let expected = integers.map(|integer| integer.to_string().into_bytes()).chain(strings);
        for expected in expected {
            assert_eq!(entries.next().unwrap().unwrap(), expected);
        }
        assert!(entries.next().unwrap().is_none());
    }
}
