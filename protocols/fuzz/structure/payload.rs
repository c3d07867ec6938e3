//! Payloads of RESTORE, built field by field as Redis lays them out. The bytes of a fuzzer decide what is in them, and
//! which field says something else than it should.

use std::ops::RangeInclusive;

use libfuzzer_sys::arbitrary::Unstructured;

/// Elements of one collection, at most.
const ELEMENTS_MAX: usize = 40;
/// One field in so many is wrong, where any may be.
const WRONG_ONE_OF: u8 = 24;
/// What lengths and counts say that are wrong.
const EXTREMES: [u64; 14] = [
    0,
    1,
    2,
    0x3f,
    0x40,
    0x3fff,
    0x4000,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x1_0000_0000,
    i64::MAX as u64,
    u64::MAX,
];

/// Builds the parts of one payload.
pub struct Builder<'a> {
    choices: Unstructured<'a>,
    may_be_wrong: bool,
    /// Whether no field is wrong so far.
    pub is_right: bool,
    /// Makes texts different from each other.
    texts: usize,
}

impl<'a> Builder<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        let mut choices = Unstructured::new(bytes);
        let may_be_wrong = choices.arbitrary().unwrap_or(false);
        Self {
            choices,
            may_be_wrong,
            is_right: true,
            texts: 0,
        }
    }

    /// A choice between `0..count`; 0 when there are no more bytes.
    fn choose(&mut self, count: usize) -> usize {
        self.choices.int_in_range(0..=count - 1).unwrap_or(0)
    }

    fn number(&mut self) -> u64 {
        self.choices.arbitrary().unwrap_or(0)
    }

    /// What a field says that should say `right`.
    fn field(&mut self, right: u64) -> u64 {
        if !self.may_be_wrong || self.choose(WRONG_ONE_OF.into()) != 1 {
            return right;
        }
        let wrong = match self.choose(4) {
            0 => right.wrapping_add(1),
            1 => right.wrapping_sub(1),
            2 => EXTREMES[self.choose(EXTREMES.len())],
            _ => self.number(),
        };
        self.is_right &= wrong == right;
        wrong
    }

    /// A text that this payload does not have yet. Its first bytes tell it from the others.
    fn text(&mut self) -> Vec<u8> {
        self.texts += 1;
        let mut text = self.texts.to_string().into_bytes();
        match self.choose(8) {
            // A number.
            0..4 => {}
            4 => text.insert(0, b'-'),
            5 => text.extend(vec![b'z'; self.choose(5000)]),
            _ => {
                text.push(b'.');
                let len = self.choose(300);
                text.extend((0..len).map(|at| at as u8));
            }
        }
        text
    }

    /// Appends a length or a count in one of the forms that have room for it.
    fn put_len(&mut self, right: usize, out: &mut Vec<u8>) {
        let len = self.field(right as u64);
        match self.choose(4) {
            0 if len < 0x40 => out.push(len as u8),
            0 | 1 if len < 0x4000 => out.extend([0x40 | (len >> 8) as u8, len as u8]),
            0..3 if u32::try_from(len).is_ok() => {
                out.push(0x80);
                out.extend((len as u32).to_be_bytes());
            }
            _ => {
                out.push(0x81);
                out.extend(len.to_be_bytes());
            }
        }
    }

    /// Appends a string in one of its forms.
    fn put_string(&mut self, text: &[u8], out: &mut Vec<u8>) {
        let number = std::str::from_utf8(text)
            .ok()
            .and_then(|text| text.parse::<i32>().ok())
            .filter(|number| number.to_string().as_bytes() == text);
        match (self.choose(3), number) {
            (0, Some(number)) => match (i8::try_from(number), i16::try_from(number)) {
                (Ok(number), _) => out.extend([0xc0, number as u8]),
                (_, Ok(number)) => {
                    out.push(0xc1);
                    out.extend(number.to_le_bytes());
                }
                _ => {
                    out.push(0xc2);
                    out.extend(number.to_le_bytes());
                }
            },
            (1, _) if !text.is_empty() => {
                let compressed = compress(text);
                out.push(0xc3);
                self.put_len(compressed.len(), out);
                self.put_len(text.len(), out);
                out.extend(compressed);
            }
            _ => {
                self.put_len(text.len(), out);
                out.extend(text);
            }
        }
    }

    fn put_u32(&mut self, right: usize, out: &mut Vec<u8>) {
        out.extend((self.field(right as u64) as u32).to_le_bytes());
    }

    fn put_u16(&mut self, right: usize, out: &mut Vec<u8>) {
        out.extend((self.field(right as u64) as u16).to_le_bytes());
    }

    /// Bytes of a form that is wrong now and then.
    fn put_form(&mut self, right: u8, out: &mut Vec<u8>) {
        out.push(self.field(right.into()) as u8);
    }

    fn listpack(&mut self, entries: &[Vec<u8>]) -> Vec<u8> {
        let mut data = Vec::new();
        for entry in entries {
            let start = data.len();
            self.put_packed(entry, true, &mut data);
            let len = data.len() - start;
            let said = self.field(len as u64);
            for place in (0..back_len(len)).rev() {
                let more = if place + 1 < back_len(len) { 0x80 } else { 0 };
                data.push((said >> (7 * place)) as u8 & 0x7f | more);
            }
        }
        let mut pack = Vec::new();
        self.put_u32(4 + 2 + data.len() + 1, &mut pack);
        let count = if self.choose(4) == 3 { 0xffff } else { entries.len() };
        self.put_u16(count, &mut pack);
        pack.extend(data);
        self.put_form(0xff, &mut pack);
        pack
    }

    fn ziplist(&mut self, entries: &[Vec<u8>]) -> Vec<u8> {
        let (mut data, mut before, mut last) = (Vec::new(), 0, 0);
        for entry in entries {
            last = data.len();
            if before < 0xfe && self.choose(4) != 3 {
                self.put_form(before as u8, &mut data);
            } else {
                data.push(0xfe);
                self.put_u32(before, &mut data);
            }
            self.put_packed(entry, false, &mut data);
            before = data.len() - last;
        }
        let mut list = Vec::new();
        self.put_u32(4 + 4 + 2 + data.len() + 1, &mut list);
        self.put_u32(4 + 4 + 2 + last, &mut list);
        self.put_u16(entries.len(), &mut list);
        list.extend(data);
        self.put_form(0xff, &mut list);
        list
    }

    /// Appends the form and the bytes of an entry of a listpack or a ziplist.
    fn put_packed(&mut self, entry: &[u8], is_listpack: bool, out: &mut Vec<u8>) {
        let number = std::str::from_utf8(entry)
            .ok()
            .and_then(|text| text.parse::<i64>().ok())
            .filter(|number| number.to_string().as_bytes() == entry);
        if let Some(number) = number
            && self.choose(4) != 3
        {
            let bytes = number.to_le_bytes();
            let widths: &[(u8, usize)] = match is_listpack {
                true => &[(0xf1, 2), (0xf2, 3), (0xf3, 4), (0xf4, 8)],
                false => &[(0xfe, 1), (0xc0, 2), (0xf0, 3), (0xd0, 4), (0xe0, 8)],
            };
            let least = widths.iter().filter(|(_, width)| {
                let shift = 64 - 8 * *width as u32;
                number << shift >> shift != number
            });
            let least = least.count();
            let (form, width) = widths[least + self.choose(widths.len() - least)];
            if is_listpack && (0..128).contains(&number) {
                return self.put_form(number as u8, out);
            }
            self.put_form(form, out);
            out.extend(&bytes[..width]);
            return;
        }
        let len = entry.len();
        let said = self.field(len as u64);
        let short = if is_listpack { (0x80, 0xe0) } else { (0, 0x40) };
        match len {
            0..0x40 => out.push(short.0 | said as u8 & 0x3f),
            0x40..0x1000 => out.extend([short.1 | (said >> 8) as u8 & 0x0f, said as u8]),
            _ if is_listpack => {
                out.push(0xf0);
                out.extend((said as u32).to_le_bytes());
            }
            _ => {
                out.push(0x80);
                out.extend((said as u32).to_be_bytes());
            }
        }
        out.extend(entry);
    }

    fn intset(&mut self) -> Vec<u8> {
        let (width, count) = (1 << (1 + self.choose(3)), 1 + self.choose(ELEMENTS_MAX));
        let mut set = Vec::new();
        self.put_u32(width, &mut set);
        self.put_u32(count, &mut set);
        for index in 0..count {
            let number = self.field(index as u64).to_le_bytes();
            set.extend(&number[..width]);
        }
        set
    }

    fn texts(&mut self, count: usize) -> Vec<Vec<u8>> {
        (0..count).map(|_| self.text()).collect()
    }

    /// A member, or a score as text.
    fn members_and_scores(&mut self, count: usize) -> Vec<Vec<u8>> {
        let mut entries = Vec::new();
        for _ in 0..count {
            entries.push(self.text());
            let scores: [&[u8]; 6] = [b"0", b"-1.5", b"inf", b"-inf", b"1e308", b"12345678901234567"];
            entries.push(scores[self.choose(scores.len())].to_vec());
        }
        entries
    }

    /// The parts of a value of any type.
    pub fn value(&mut self) -> Vec<u8> {
        const KINDS: [u8; 17] = [0, 1, 2, 4, 5, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21];
        let kind = KINDS[self.choose(KINDS.len())];
        let count = 1 + self.choose(ELEMENTS_MAX);
        let mut out = Vec::new();
        self.put_form(kind, &mut out);
        match kind {
            0 => {
                let text = self.text();
                self.put_string(&text, &mut out);
            }
            1 | 2 | 4 => {
                self.put_len(count, &mut out);
                for text in self.texts(if kind == 4 { 2 * count } else { count }) {
                    self.put_string(&text, &mut out);
                }
            }
            5 => {
                self.put_len(count, &mut out);
                for member in self.texts(count) {
                    self.put_string(&member, &mut out);
                    let score = self.field(1.5_f64.to_bits());
                    out.extend(score.to_le_bytes());
                }
            }
            14 | 18 => {
                let nodes = 1 + self.choose(4);
                self.put_len(nodes, &mut out);
                for _ in 0..nodes {
                    let entries = self.texts(1 + count / nodes);
                    let node = match (kind, self.choose(3)) {
                        (14, _) => self.ziplist(&entries),
                        (_, 2) => {
                            self.put_len(1, &mut out);
                            self.text()
                        }
                        _ => {
                            self.put_len(2, &mut out);
                            self.listpack(&entries)
                        }
                    };
                    self.put_string(&node, &mut out);
                }
            }
            15 | 19 | 21 => self.put_stream(kind, &mut out),
            _ => {
                let pack = match kind {
                    10 => {
                        let entries = self.texts(count);
                        self.ziplist(&entries)
                    }
                    11 => self.intset(),
                    12 => {
                        let entries = self.members_and_scores(count);
                        self.ziplist(&entries)
                    }
                    13 => {
                        let entries = self.texts(2 * count);
                        self.ziplist(&entries)
                    }
                    16 => {
                        let entries = self.texts(2 * count);
                        self.listpack(&entries)
                    }
                    17 => {
                        let entries = self.members_and_scores(count);
                        self.listpack(&entries)
                    }
                    _ => {
                        let entries = self.texts(count);
                        self.listpack(&entries)
                    }
                };
                self.put_string(&pack, &mut out);
            }
        }
        out
    }

    /// A number of a listpack, as its digits.
    fn digits(&mut self, right: u64) -> Vec<u8> {
        (self.field(right) as i64).to_string().into_bytes()
    }

    fn put_id(&mut self, ms: u64, seq: u64, out: &mut Vec<u8>) {
        self.put_len(ms as usize, out);
        self.put_len(seq as usize, out);
    }

    fn raw_id(&mut self, ms: u64) -> [u8; 16] {
        let ms = self.field(ms);
        let mut raw = [0; 16];
        raw[..8].copy_from_slice(&ms.to_be_bytes());
        raw
    }

    fn put_stream(&mut self, kind: u8, out: &mut Vec<u8>) {
        let nodes = self.choose(4);
        self.put_len(nodes, out);
        // Entries have the times 1, 2, 3 ...
        let (mut now_ms, mut len) = (0, 0);
        for _ in 0..nodes {
            let first_ms = now_ms + 1;
            let raw = self.raw_id(first_ms);
            self.put_string(&raw, out);
            let (entries, removed) = (1 + self.choose(5), self.choose(3));
            let names_len = 1 + self.choose(3);
            let names = self.texts(names_len);
            let mut parts = Vec::new();
            for count in [entries, removed, names.len()] {
                let digits = self.digits(count as u64);
                parts.push(digits);
            }
            parts.extend(names.iter().cloned());
            parts.push(b"0".to_vec());
            for index in 0..entries + removed {
                now_ms += 1;
                let is_same = self.choose(2) == 0;
                let flags = u64::from(index < removed) | u64::from(is_same) << 1;
                let delta = now_ms - first_ms;
                for number in [flags, delta, 0] {
                    let digits = self.digits(number);
                    parts.push(digits);
                }
                let strings = match is_same {
                    true => names.len(),
                    false => {
                        let pairs = 1 + self.choose(3);
                        let digits = self.digits(pairs as u64);
                        parts.push(digits);
                        2 * pairs
                    }
                };
                parts.extend(self.texts(strings));
                let count = strings + if is_same { 3 } else { 4 };
                let digits = self.digits(count as u64);
                parts.push(digits);
            }
            len += entries;
            let pack = self.listpack(&parts);
            self.put_string(&pack, out);
        }
        self.put_len(len, out);
        self.put_id(now_ms, 0, out);
        if kind != 15 {
            self.put_id(u64::from(len > 0), 0, out);
            self.put_id(0, 0, out);
            self.put_len(len, out);
        }
        let groups = self.choose(3);
        self.put_len(groups, out);
        for _ in 0..groups {
            self.put_group(kind, now_ms, out);
        }
    }

    fn put_group(&mut self, kind: u8, last_ms: u64, out: &mut Vec<u8>) {
        let name = self.text();
        self.put_string(&name, out);
        self.put_id(last_ms, 0, out);
        if kind != 15 {
            let read = if self.choose(2) == 0 { u64::MAX } else { 1 };
            self.put_len(read as usize, out);
        }
        let pending = self.choose(6);
        self.put_len(pending, out);
        for index in 0..pending {
            out.extend(self.raw_id(1 + index as u64));
            out.extend(self.field(7).to_le_bytes());
            let deliveries = 1 + self.choose(3);
            self.put_len(deliveries, out);
        }
        // The first consumer has all entries, and others none.
        let consumers = usize::from(pending > 0) + self.choose(3);
        self.put_len(consumers, out);
        for consumer in 0..consumers {
            let name = self.text();
            self.put_string(&name, out);
            out.extend(self.field(7).to_le_bytes());
            if kind == 21 {
                out.extend(self.field(7).to_le_bytes());
            }
            let has = if consumer == 0 { pending } else { 0 };
            self.put_len(has, out);
            for index in 0..has {
                out.extend(self.raw_id(1 + index as u64));
            }
        }
    }
}

/// Bytes in which a listpack says the length of an entry of `len` bytes.
fn back_len(len: usize) -> usize {
    1 + [0x80, 0x3fff, 0x1f_ffff].iter().filter(|least| len >= **least).count()
}

/// The text in LZF: as it is, but a run of one byte at its end as a reference to what was before.
fn compress(text: &[u8]) -> Vec<u8> {
    const LITERAL_MAX: usize = 32;
    const RUN: RangeInclusive<usize> = 9..=9 + 255;
    let last = text[text.len() - 1];
    let run = text.iter().rev().take_while(|byte| **byte == last).count() - 1;
    let run = if RUN.contains(&run) { run } else { 0 };
    let mut out = Vec::new();
    for piece in text[..text.len() - run].chunks(LITERAL_MAX) {
        out.push(piece.len() as u8 - 1);
        out.extend(piece);
    }
    if run > 0 {
        out.extend([0xe0, (run - RUN.start()) as u8, 0]);
    }
    out
}
