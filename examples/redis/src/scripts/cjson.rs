//! The library `cjson`: JSON from and to tables of Lua.

use mlua::{Lua, Table, Value};

use super::native::{self, Arguments, Failure, NativeFn, Outcome, Shape, Walk, one, type_name};
use super::number::general;

mod decode;

pub(super) const FUNCTIONS: &[(&str, NativeFn)] = &[("decode", decode), ("encode", encode)];

/// Deepest nesting of tables.
const DEPTH_MAX: usize = 1000;
/// Significant digits of a number.
const DIGITS: usize = 14;
/// A table with more than this many places...
const SPARSE_MIN: usize = 10;
/// ...must use one of so many.
const SPARSE_RATIO: usize = 2;

fn decode(lua: &Lua, args: &Arguments) -> Outcome {
    if args.len() != 1 {
        return Err("bad argument #1 to 'decode' (expected 1 argument)".into());
    }
    let text = args.text(lua, 0, "decode")?;
    let control = native::control(lua)?;
    let value = decode::decode(lua, &text.as_bytes(), &Walk::new(&control))?;
    one(lua, value)
}

fn encode(lua: &Lua, args: &Arguments) -> Outcome {
    if args.len() != 1 {
        return Err("bad argument #1 to 'encode' (expected 1 argument)".into());
    }
    let control = native::control(lua)?;
    let mut out = Vec::new();
    append(&Walk::new(&control), args.get(0), 0, &mut out)?;
    one(lua, lua.create_string(out)?)
}

fn append(walk: &Walk<'_>, value: &Value, depth: usize, out: &mut Vec<u8>) -> Outcome<()> {
    match value {
        Value::String(text) => append_text(&text.as_bytes(), out),
        Value::Integer(number) => append_number(*number as f64, out)?,
        Value::Number(number) => append_number(*number, out)?,
        Value::Boolean(true) => out.extend_from_slice(b"true"),
        Value::Boolean(false) => out.extend_from_slice(b"false"),
        Value::Nil => out.extend_from_slice(b"null"),
        value if value.is_null() => out.extend_from_slice(b"null"),
        Value::Table(table) => append_table(walk, table, depth + 1, out)?,
        value => {
            let name = type_name(value);
            return Err(format!("Cannot serialise {name}: type not supported").into());
        }
    }
    Ok(())
}

fn append_table(walk: &Walk<'_>, table: &Table, depth: usize, out: &mut Vec<u8>) -> Outcome<()> {
    if depth > DEPTH_MAX || walk.is_deep() {
        return Err(format!("Cannot serialise, excessive nesting ({depth})").into());
    }
    match array_len(&Shape::of(table, walk)?)? {
        Some(len) => {
            out.push(b'[');
            for index in 1..=len {
                if index > 1 {
                    out.push(b',');
                }
                walk.step()?;
                append(walk, &table.raw_get(index)?, depth, out)?;
            }
            out.push(b']');
        }
        None => {
            out.push(b'{');
            for (index, pair) in table.pairs::<Value, Value>().enumerate() {
                let (key, value) = pair?;
                walk.step()?;
                if index > 0 {
                    out.push(b',');
                }
                append_key(walk, &key, out)?;
                out.push(b':');
                append(walk, &value, depth, out)?;
            }
            out.push(b'}');
        }
    }
    Ok(())
}

/// The length of an array; `None` for other tables, and for empty ones.
fn array_len(shape: &Shape) -> Outcome<Option<usize>> {
    let Some(len) = shape.last_index.filter(|last| *last > 0) else {
        return Ok(None);
    };
    if len > SPARSE_MIN && len > shape.pairs.saturating_mul(SPARSE_RATIO) {
        return Err("Cannot serialise table: excessively sparse array".into());
    }
    Ok(Some(len))
}

fn append_key(walk: &Walk<'_>, key: &Value, out: &mut Vec<u8>) -> Outcome<()> {
    match key {
        Value::String(text) => append_text(&text.as_bytes(), out),
        Value::Integer(_) | Value::Number(_) => {
            out.push(b'"');
            append(walk, key, 0, out)?;
            out.push(b'"');
        }
        key => {
            let name = type_name(key);
            return Err(
                format!("Cannot serialise {name}: table key must be a number or string").into(),
            );
        }
    }
    Ok(())
}

fn append_number(number: f64, out: &mut Vec<u8>) -> Result<(), Failure> {
    if !number.is_finite() {
        return Err("Cannot serialise number: must not be NaN or Inf".into());
    }
    out.extend_from_slice(general(number, DIGITS).as_bytes());
    Ok(())
}

fn append_text(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for &byte in text {
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'/' => out.extend_from_slice(b"\\/"),
            0x08 => out.extend_from_slice(b"\\b"),
            b'\t' => out.extend_from_slice(b"\\t"),
            b'\n' => out.extend_from_slice(b"\\n"),
            0x0c => out.extend_from_slice(b"\\f"),
            b'\r' => out.extend_from_slice(b"\\r"),
            0..0x20 | 0x7f => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            byte => out.push(byte),
        }
    }
    out.push(b'"');
}
