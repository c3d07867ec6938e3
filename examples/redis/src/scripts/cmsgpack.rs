//! The library `cmsgpack`: MessagePack from and to values of Lua.

use mlua::{Lua, MultiValue, Table, Value};

use super::native::{self, Arguments, NativeFn, Outcome, Shape, Walk, one};

mod unpack;

pub(super) const FUNCTIONS: &[(&str, NativeFn)] = &[
    ("pack", pack),
    ("unpack", |lua, args| {
        let text = args.text(lua, 0, "unpack")?;
        let control = native::control(lua)?;
        let walk = Walk::new(&control);
        Ok(unpack::values(lua, &text.as_bytes(), 0, usize::MAX, &walk)?.0)
    }),
    ("unpack_one", |lua, args| {
        let offset = number_or(lua, args, 1, "unpack_one", 0)?;
        unpack_some(lua, args, "unpack_one", 1, offset)
    }),
    ("unpack_limit", |lua, args| {
        let count = args.number(lua, 1, "unpack_limit")? as i64;
        let offset = number_or(lua, args, 2, "unpack_limit", 0)?;
        unpack_some(lua, args, "unpack_limit", count, offset)
    }),
];

/// Tables within this many tables are packed as nil, as in Redis.
const DEPTH_MAX: usize = 16;

fn number_or(lua: &Lua, args: &Arguments, index: usize, function: &str, default: i64) -> Outcome<i64> {
    if args.get(index).is_nil() {
        return Ok(default);
    }
    Ok(args.number(lua, index, function)? as i64)
}

/// Up to `count` values from `offset` on, behind the next offset, which is -1 at the end. Without both, all values
/// alone.
fn unpack_some(lua: &Lua, args: &Arguments, function: &str, count: i64, offset: i64) -> Outcome {
    let text = args.text(lua, 0, function)?;
    let bytes = text.as_bytes();
    let (Ok(limit), Ok(start)) = (usize::try_from(count), usize::try_from(offset)) else {
        return Err(format!("Invalid request to unpack with offset of {offset} and limit of {}.", bytes.len()).into());
    };
    if start > bytes.len() {
        return Err(format!("Start offset {start} greater than input length {}.", bytes.len()).into());
    }
    let limit = if limit == 0 { usize::MAX } else { limit };
    let control = native::control(lua)?;
    let (mut values, end) = unpack::values(lua, &bytes, start, limit, &Walk::new(&control))?;
    let next = if end < bytes.len() { end as f64 } else { -1.0 };
    if limit < usize::MAX || start > 0 {
        values.push_front(Value::Number(next));
    }
    Ok(values)
}

fn pack(lua: &Lua, args: &Arguments) -> Outcome<MultiValue> {
    if args.len() == 0 {
        return Err("bad argument #0 to 'pack' (MessagePack pack needs input.)".into());
    }
    let control = native::control(lua)?;
    let walk = Walk::new(&control);
    let mut out = Vec::new();
    for value in args.iter() {
        append(&walk, value, 0, &mut out)?;
    }
    one(lua, lua.create_string(out)?)
}

fn append(walk: &Walk<'_>, value: &Value, depth: usize, out: &mut Vec<u8>) -> Outcome<()> {
    walk.step()?;
    match value {
        Value::String(text) => append_text(&text.as_bytes(), out),
        Value::Boolean(value) => out.push(0xc2 + u8::from(*value)),
        Value::Integer(number) => append_integer(*number, out),
        Value::Number(number) => append_number(*number, out),
        Value::Table(table) if depth < DEPTH_MAX => append_table(walk, table, depth + 1, out)?,
        _ => out.push(0xc0),
    }
    Ok(())
}

/// Writes the shortest of the heads that has room for `len`: a byte's low bits below `fixed`, or one of `heads`, for
/// lengths of 8, 16 and 32 bits. A head of 0 does not exist.
fn append_len(len: usize, (fix, fixed): (u8, usize), heads: [u8; 3], out: &mut Vec<u8>) {
    match len {
        _ if len < fixed => out.push(fix | len as u8),
        0..=0xff if heads[0] != 0 => out.extend_from_slice(&[heads[0], len as u8]),
        0..=0xffff => {
            out.push(heads[1]);
            out.extend_from_slice(&(len as u16).to_be_bytes());
        }
        _ => {
            out.push(heads[2]);
            out.extend_from_slice(&(len as u32).to_be_bytes());
        }
    }
}

fn append_text(text: &[u8], out: &mut Vec<u8>) {
    append_len(text.len(), (0xa0, 32), [0xd9, 0xda, 0xdb], out);
    out.extend_from_slice(text);
}

fn append_integer(number: i64, out: &mut Vec<u8>) {
    let bytes = number.to_be_bytes();
    let (head, len) = match number {
        -32..=0x7f => return out.push(bytes[7]),
        0x80..=0xff => (0xcc, 1),
        0x100..=0xffff => (0xcd, 2),
        0x1_0000..=0xffff_ffff => (0xce, 4),
        0x1_0000_0000.. => (0xcf, 8),
        -0x80..-32 => (0xd0, 1),
        -0x8000..-0x80 => (0xd1, 2),
        -0x8000_0000..-0x8000 => (0xd2, 4),
        ..-0x8000_0000 => (0xd3, 8),
    };
    out.push(head);
    out.extend_from_slice(&bytes[8 - len..]);
}

fn append_number(number: f64, out: &mut Vec<u8>) {
    let integer = number as i64;
    if integer as f64 == number && integer != i64::MAX {
        append_integer(integer, out);
    } else if f64::from(number as f32) == number {
        out.push(0xca);
        out.extend_from_slice(&(number as f32).to_be_bytes());
    } else {
        out.push(0xcb);
        out.extend_from_slice(&number.to_be_bytes());
    }
}

/// A table whose keys are 1, 2, ... without gaps is an array.
fn append_table(walk: &Walk<'_>, table: &Table, depth: usize, out: &mut Vec<u8>) -> Outcome<()> {
    let Shape { pairs, last_index } = Shape::of(table, walk)?;
    if last_index.is_some_and(|last| last <= pairs) {
        append_len(pairs, (0x90, 16), [0, 0xdc, 0xdd], out);
        for index in 1..=pairs {
            append(walk, &table.raw_get(index)?, depth, out)?;
        }
    } else {
        append_len(pairs, (0x80, 16), [0, 0xde, 0xdf], out);
        for pair in table.pairs::<Value, Value>() {
            let (key, value) = pair?;
            append(walk, &key, depth, out)?;
            append(walk, &value, depth, out)?;
        }
    }
    Ok(())
}
