//! The library `cjson`: JSON from and to tables of Lua.

use mlua::{Lua, Table, Value};

use super::native::{self, Arguments, Failure, NativeFn, Outcome, Walk, index_of, one, type_name};
use super::number::append_general;

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
/// Bytes that a value takes in Lua for each byte of its text, at most: an empty table (`{},`) in an array.
const BYTES_PER_TEXT_BYTE: usize = 40;

fn decode(lua: &Lua, args: &Arguments) -> Outcome {
    if args.len() != 1 {
        return Err("bad argument #1 to 'decode' (expected 1 argument)".into());
    }
    let text = args.text(lua, 0, "decode")?;
    let control = native::control(lua)?;
    let text = text.as_bytes();
    let room = text.len().saturating_mul(BYTES_PER_TEXT_BYTE);
    let walk = Walk::new(&control);
    let value = native::with_room(lua, room, || Ok(decode::decode(lua, &text, &walk)))??;
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
    match array_len(table, walk)? {
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
            let mut failure = None;
            let mut is_first = true;
            let walked = table.for_each(|key: Value, value: Value| {
                walk.step()?;
                if !is_first {
                    out.push(b',');
                }
                is_first = false;
                let appended = append_key(walk, &key, out).and_then(|()| {
                    out.push(b':');
                    append(walk, &value, depth, out)
                });
                appended.map_err(|error| {
                    failure = Some(error);
                    // Ends the walk.
                    mlua::Error::StackError
                })
            });
            failure.map_or(Ok(()), Err)?;
            walked?;
            out.push(b'}');
        }
    }
    Ok(())
}

/// The length of an array; `None` for other tables, and for empty ones.
fn array_len(table: &Table, walk: &Walk<'_>) -> Outcome<Option<usize>> {
    let (mut len, mut used) = (0, 0_usize);
    let mut is_array = true;
    // Of the values nothing is looked at: a truth value takes no reference.
    let walked = table.for_each(|key: Value, _: bool| {
        walk.step()?;
        // Ends the walk.
        let index = index_of(&key).ok_or(mlua::Error::StackError);
        is_array = index.is_ok();
        len = len.max(index?);
        used += 1;
        Ok(())
    });
    if !is_array {
        return Ok(None);
    }
    walked?;
    if len > SPARSE_MIN && len > used.saturating_mul(SPARSE_RATIO) {
        return Err("Cannot serialise table: excessively sparse array".into());
    }
    Ok(Some(len).filter(|len| *len > 0))
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
            return Err(format!("Cannot serialise {name}: table key must be a number or string").into());
        }
    }
    Ok(())
}

fn append_number(number: f64, out: &mut Vec<u8>) -> Result<(), Failure> {
    if !number.is_finite() {
        return Err("Cannot serialise number: must not be NaN or Inf".into());
    }
    append_general(number, DIGITS, out);
    Ok(())
}

fn append_text(mut text: &[u8], out: &mut Vec<u8>) {
    let is_special = |byte: &u8| matches!(byte, b'"' | b'\\' | b'/' | 0..0x20 | 0x7f);
    out.push(b'"');
    while let Some(plain) = text.iter().position(is_special) {
        out.extend_from_slice(&text[..plain]);
        match text[plain] {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'/' => out.extend_from_slice(b"\\/"),
            0x08 => out.extend_from_slice(b"\\b"),
            b'\t' => out.extend_from_slice(b"\\t"),
            b'\n' => out.extend_from_slice(b"\\n"),
            0x0c => out.extend_from_slice(b"\\f"),
            b'\r' => out.extend_from_slice(b"\\r"),
            byte => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
        }
        text = &text[plain + 1..];
    }
    out.extend_from_slice(text);
    out.push(b'"');
}
