//! The forms in which Redis packs small collections into one string.
//!
//! ```text
//!   listpack:  bytes, 4  |  entries, 2  |  form, data, length of both backwards ...    |  0xff
//!   ziplist:   bytes, 4  |  last, 4  |  entries, 2  |  length of the one before, form, data ...  |  0xff
//!   intset:    width, 4  |  entries, 4  |  integers ...
//! ```
//!
//! All integers are little-endian but the lengths within forms. The count of entries is 0xffff where it does not fit.

use std::borrow::Cow;

use super::Malformed;

/// The last byte of listpacks and ziplists.
pub(super) const END: u8 = 0xff;
/// The count of entries that does not fit.
pub(super) const MANY: u16 = u16::MAX;

/// An entry: bytes, or the digits of an integer.
pub(super) type Entry<'p> = Cow<'p, [u8]>;

/// Calls `visit` with each entry of a listpack.
pub(super) fn listpack<'p>(
    pack: &'p [u8],
    mut visit: impl FnMut(Entry<'p>) -> Result<(), Malformed>,
) -> Result<(), Malformed> {
    let mut entries = Listpack::new(pack)?;
    while let Some(entry) = entries.next()? {
        visit(entry)?;
    }
    Ok(())
}

/// The entries of a listpack, one after the other.
pub(super) struct Listpack<'p> {
    rest: Bytes<'p>,
    /// As the listpack says.
    count: u16,
    entries: usize,
}

impl<'p> Listpack<'p> {
    pub(super) fn new(pack: &'p [u8]) -> Result<Self, Malformed> {
        let mut rest = Bytes(pack);
        let len = rest.u32()?;
        let count = rest.u16()?;
        check_len(pack, len)?;
        Ok(Self { rest, count, entries: 0 })
    }

    /// The next entry; `None` behind the last one.
    pub(super) fn next(&mut self) -> Result<Option<Entry<'p>>, Malformed> {
        let rest = &mut self.rest;
        let before = rest.0.len();
        let first = rest.byte()?;
        let entry = match first {
            END => {
                check_end(rest, self.count, self.entries)?;
                return Ok(None);
            }
            0..0x80 => digits(first),
            0x80..0xc0 => rest.text((first & 0x3f).into())?,
            0xc0..0xe0 => {
                let bits = i16::from(first & 0x1f) << 8 | i16::from(rest.byte()?);
                // 13 bits with a sign.
                digits(bits << 3 >> 3)
            }
            0xe0..0xf0 => {
                let len = usize::from(first & 0x0f) << 8 | usize::from(rest.byte()?);
                rest.text(len)?
            }
            0xf0 => {
                let len = rest.u32()?;
                rest.text(len)?
            }
            0xf1 => digits(rest.signed::<2>()?),
            0xf2 => digits(rest.signed::<3>()?),
            0xf3 => digits(rest.signed::<4>()?),
            0xf4 => digits(rest.signed::<8>()?),
            _ => return Err(Malformed),
        };
        rest.skip(backward_len(before - rest.0.len()))?;
        self.entries += 1;
        Ok(Some(entry))
    }
}

/// Bytes in which a listpack says the length of an entry of `len` bytes.
pub(super) fn backward_len(len: usize) -> usize {
    /// From so many bytes on, it takes one more.
    const LONGER: [usize; 4] = [0x80, 0x3fff, 0x1f_ffff, 0xfff_ffff];
    1 + LONGER.iter().filter(|least| len >= **least).count()
}

/// Calls `visit` with each entry of a ziplist.
pub(super) fn ziplist<'p>(
    list: &'p [u8],
    mut visit: impl FnMut(Entry<'p>) -> Result<(), Malformed>,
) -> Result<(), Malformed> {
    /// The length of the entry before follows in four bytes.
    const LONG: u8 = 0xfe;
    let mut rest = Bytes(list);
    let len = rest.u32()?;
    rest.skip(4)?;
    let count = rest.u16()?;
    check_len(list, len)?;
    let mut entries = 0;
    loop {
        match rest.byte()? {
            END => break,
            LONG => rest.skip(4)?,
            _short => {}
        }
        let first = rest.byte()?;
        let entry = match first {
            0..0x40 => rest.text(first.into())?,
            0x40..0x80 => {
                let len = usize::from(first & 0x3f) << 8 | usize::from(rest.byte()?);
                rest.text(len)?
            }
            0x80 => {
                let len = u32::from_be_bytes(rest.array()?);
                rest.text(len as usize)?
            }
            0xc0 => digits(rest.signed::<2>()?),
            0xd0 => digits(rest.signed::<4>()?),
            0xe0 => digits(rest.signed::<8>()?),
            0xf0 => digits(rest.signed::<3>()?),
            0xfe => digits(rest.signed::<1>()?),
            0xf1..=0xfd => digits((first & 0x0f) - 1),
            _ => return Err(Malformed),
        };
        visit(entry)?;
        entries += 1;
    }
    check_end(&rest, count, entries)
}

/// Calls `visit` with each integer of an intset.
pub(super) fn intset(
    set: &[u8],
    mut visit: impl FnMut(Entry<'static>) -> Result<(), Malformed>,
) -> Result<(), Malformed> {
    let mut rest = Bytes(set);
    let (width, count) = (rest.u32()?, rest.u32()?);
    if !matches!(width, 2 | 4 | 8) || rest.0.len() != width * count {
        return Err(Malformed);
    }
    for _ in 0..count {
        let integer = match width {
            2 => rest.signed::<2>()?,
            4 => rest.signed::<4>()?,
            _ => rest.signed::<8>()?,
        };
        visit(digits(integer))?;
    }
    Ok(())
}

fn digits<'p>(integer: impl Into<i64>) -> Entry<'p> {
    Cow::Owned(integer.into().to_string().into_bytes())
}

fn check_len(pack: &[u8], len: usize) -> Result<(), Malformed> {
    if pack.len() == len { Ok(()) } else { Err(Malformed) }
}

fn check_end(rest: &Bytes<'_>, count: u16, entries: usize) -> Result<(), Malformed> {
    if rest.0.is_empty() && (count == MANY || entries == usize::from(count)) {
        Ok(())
    } else {
        Err(Malformed)
    }
}

/// The rest of a packed collection.
struct Bytes<'p>(&'p [u8]);

impl<'p> Bytes<'p> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (array, rest) = self.0.split_first_chunk().ok_or(Malformed)?;
        self.0 = rest;
        Ok(*array)
    }

    fn byte(&mut self) -> Result<u8, Malformed> {
        let [byte] = self.array()?;
        Ok(byte)
    }

    fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Result<usize, Malformed> {
        self.array().map(|bytes| u32::from_le_bytes(bytes) as usize)
    }

    /// A little-endian integer of `N` bytes with a sign.
    fn signed<const N: usize>(&mut self) -> Result<i64, Malformed> {
        let bytes = self.array::<N>()?;
        let mut wide = [0; 8];
        wide[8 - N..].copy_from_slice(&bytes);
        Ok(i64::from_le_bytes(wide) >> (64 - 8 * N))
    }

    fn text(&mut self, len: usize) -> Result<Entry<'p>, Malformed> {
        let (text, rest) = self.0.split_at_checked(len).ok_or(Malformed)?;
        self.0 = rest;
        Ok(Cow::Borrowed(text))
    }

    fn skip(&mut self, len: usize) -> Result<(), Malformed> {
        self.text(len).map(|_skipped| ())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Read = fn(&[u8], &mut dyn FnMut(Entry<'_>)) -> Result<(), Malformed>;

    fn read_listpack(pack: &[u8], visit: &mut dyn FnMut(Entry<'_>)) -> Result<(), Malformed> {
        listpack(pack, |entry| {
            visit(entry);
            Ok(())
        })
    }

    fn read_ziplist(list: &[u8], visit: &mut dyn FnMut(Entry<'_>)) -> Result<(), Malformed> {
        ziplist(list, |entry| {
            visit(entry);
            Ok(())
        })
    }

    fn read_intset(set: &[u8], visit: &mut dyn FnMut(Entry<'_>)) -> Result<(), Malformed> {
        intset(set, |entry| {
            visit(entry);
            Ok(())
        })
    }

    fn entries(read: Read, pack: &[u8]) -> Result<Vec<String>, Malformed> {
        let mut entries = Vec::new();
        read(pack, &mut |entry| {
            entries.push(String::from_utf8_lossy(&entry).into_owned());
        })?;
        Ok(entries)
    }

    fn pack(count: u16, entries: &[u8]) -> Vec<u8> {
        let len = 4 + 2 + entries.len() + 1;
        let mut pack = (len as u32).to_le_bytes().to_vec();
        pack.extend(count.to_le_bytes());
        pack.extend(entries);
        pack.push(END);
        pack
    }

    #[test]
    fn every_form_of_a_listpack_is_read() {
        let forms = b"\x7f\x01\x82hi\x03\xdf\xff\x02\xd0\x00\x02\xe0\x02yo\x04\xf0\x01\x00\x00\x00x\x06\
            \xf1\x00\x80\x03\xf2\xff\xff\xff\x04\xf3\x00\x00\x00\x80\x05\xf4\xff\xff\xff\xff\xff\xff\xff\x7f\x09";
        let expected = "127 hi -1 -4096 yo x -32768 -1 -2147483648 9223372036854775807";
        let expected: Vec<&str> = expected.split(' ').collect();
        assert_eq!(entries(read_listpack, &pack(10, forms)).unwrap(), expected);
        assert_eq!(entries(read_listpack, &pack(MANY, forms)).unwrap(), expected);
        assert_eq!(entries(read_listpack, &pack(9, forms)), Err(Malformed));
    }

    #[test]
    fn every_form_of_a_ziplist_is_read() {
        let forms = b"\x00\x02hi\x04\x40\x02yo\x05\x80\x00\x00\x00\x01x\x08\xc0\x00\x80\
            \xfe\x04\x00\x00\x00\xd0\x00\x00\x00\x80\x06\xe0\xff\xff\xff\xff\xff\xff\xff\x7f\x0a\xf0\xff\xff\xff\
            \x05\xfe\x80\x03\xf1\x02\xfd";
        let mut list = (4 + 4 + 2 + forms.len() as u32 + 1).to_le_bytes().to_vec();
        list.extend([0; 4]);
        list.extend(9_u16.to_le_bytes());
        list.extend(forms);
        list.push(END);
        let expected = "hi yo x -32768 -2147483648 9223372036854775807 -1 -128 0 12";
        let expected: Vec<&str> = expected.split(' ').collect();
        list[8] = 10;
        assert_eq!(entries(read_ziplist, &list).unwrap(), expected);
        list[8] = 11;
        assert_eq!(entries(read_ziplist, &list), Err(Malformed));
    }

    #[test]
    fn integers_of_every_width_are_read() {
        let narrow = b"\x02\0\0\0\x02\0\0\0\xff\xff\x07\0";
        assert_eq!(entries(read_intset, narrow).unwrap(), ["-1", "7"]);
        let middle = b"\x04\0\0\0\x01\0\0\0\0\0\0\x80";
        assert_eq!(entries(read_intset, middle).unwrap(), ["-2147483648"]);
        let wide = b"\x08\0\0\0\x01\0\0\0\0\0\0\0\x01\0\0\0";
        assert_eq!(entries(read_intset, wide).unwrap(), ["4294967296"]);
        for damaged in [&narrow[..11], b"\x03\0\0\0\0\0\0\0", b"\x02\0\0\0\x01\0\0\0"] {
            assert_eq!(entries(read_intset, damaged), Err(Malformed));
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_are_read_or_refused(mut bytes: Vec<u8>, whole: bool) {
            if whole && bytes.len() > 4 {
                let len = bytes.len() as u32;
                bytes[..4].copy_from_slice(&len.to_le_bytes());
                *bytes.last_mut().unwrap() = END;
            }
            for read in [read_listpack as Read, read_ziplist, read_intset] {
                if let Ok(entries) = entries(read, &bytes) {
                    prop_assert!(entries.len() <= bytes.len() / 2);
                }
            }
        }
    }
}
