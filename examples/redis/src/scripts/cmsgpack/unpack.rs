//! Reads MessagePack.

use mlua::{Lua, MultiValue, Value};

use crate::scripts::native::{Failure, Outcome, VALUES_MAX, Walk};

/// Up to `limit` values from `start` on, and where they end.
pub(super) fn values(
    lua: &Lua,
    bytes: &[u8],
    start: usize,
    limit: usize,
    walk: &Walk<'_>,
) -> Outcome<(MultiValue, usize)> {
    let mut reader = Reader { lua, bytes, at: start, walk };
    let mut values = MultiValue::new();
    while values.len() < limit && reader.at < bytes.len() {
        if values.len() == VALUES_MAX {
            return Err("too many return values at once; use unpack_one or unpack_limit instead.".into());
        }
        values.push_back(reader.value()?);
    }
    Ok((values, reader.at))
}

struct Reader<'b> {
    lua: &'b Lua,
    bytes: &'b [u8],
    at: usize,
    walk: &'b Walk<'b>,
}

fn bad_format() -> Failure {
    "Bad data format in input.".into()
}

impl<'b> Reader<'b> {
    fn take(&mut self, len: usize) -> Outcome<&'b [u8]> {
        let rest = &self.bytes[self.at..];
        let taken = rest.get(..len).ok_or("Missing bytes in input.")?;
        self.at += len;
        Ok(taken)
    }

    /// A number of `len` bytes, up to 8.
    fn unsigned(&mut self, len: usize) -> Outcome<u64> {
        let bytes = self.take(len)?;
        Ok(bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn signed(&mut self, len: usize) -> Outcome<i64> {
        let unused_bits = 64 - 8 * len;
        Ok((self.unsigned(len)? << unused_bits).cast_signed() >> unused_bits)
    }

    fn len(&mut self, len: usize) -> Outcome<usize> {
        Ok(self.unsigned(len)? as usize)
    }

    fn value(&mut self) -> Outcome<Value> {
        self.walk.step()?;
        if self.walk.is_deep() {
            return Err(bad_format());
        }
        let head = self.take(1)?[0];
        Ok(match head {
            0x00..=0x7f => Value::Number(head.into()),
            0xe0..=0xff => Value::Number(head.cast_signed().into()),
            0x80..=0x8f => self.map(usize::from(head & 0x0f))?,
            0x90..=0x9f => self.array(usize::from(head & 0x0f))?,
            0xa0..=0xbf => self.text(usize::from(head & 0x1f))?,
            0xc0 => Value::Nil,
            0xc2 => Value::Boolean(false),
            0xc3 => Value::Boolean(true),
            0xc4 | 0xd9 => {
                let len = self.len(1)?;
                self.text(len)?
            }
            0xc5 | 0xda => {
                let len = self.len(2)?;
                self.text(len)?
            }
            0xc6 | 0xdb => {
                let len = self.len(4)?;
                self.text(len)?
            }
            0xca => Value::Number(f32::from_bits(self.unsigned(4)? as u32).into()),
            0xcb => Value::Number(f64::from_bits(self.unsigned(8)?)),
            0xcc..=0xcf => Value::Number(self.unsigned(1 << (head - 0xcc))? as f64),
            0xd0..=0xd3 => Value::Number(self.signed(1 << (head - 0xd0))? as f64),
            0xdc => {
                let len = self.len(2)?;
                self.array(len)?
            }
            0xdd => {
                let len = self.len(4)?;
                self.array(len)?
            }
            0xde => {
                let len = self.len(2)?;
                self.map(len)?
            }
            0xdf => {
                let len = self.len(4)?;
                self.map(len)?
            }
            _ => return Err(bad_format()),
        })
    }

    fn text(&mut self, len: usize) -> Outcome<Value> {
        let bytes = self.take(len)?;
        Ok(Value::String(self.lua.create_string(bytes)?))
    }

    fn array(&mut self, len: usize) -> Outcome<Value> {
        let table = self.lua.create_table()?;
        for index in 1..=len {
            let value = self.value()?;
            table.raw_seti(index, value)?;
        }
        Ok(Value::Table(table))
    }

    fn map(&mut self, len: usize) -> Outcome<Value> {
        let table = self.lua.create_table()?;
        for _ in 0..len {
            let key = self.value()?;
            let value = self.value()?;
            let is_key = !key.is_nil() && !matches!(key, Value::Number(number) if number.is_nan());
            if !is_key {
                return Err(bad_format());
            }
            table.raw_set(key, value)?;
        }
        Ok(Value::Table(table))
    }
}
