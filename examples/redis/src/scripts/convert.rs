//! Replies of commands as values of Lua, and values of Lua as replies, by the rules of Redis 7.
//!
//! | reply | Lua | | Lua | reply |
//! | --- | --- | --- | --- | --- |
//! | integer | number | | number | integer, truncated |
//! | bulk string | string | | string | bulk string |
//! | array | table | | table | array, up to the first nil |
//! | status | `{ok=...}` | | `{ok=...}` | status |
//! | error | `{err=...}` | | `{err=...}` | error |
//! | null | false; nil with RESP3 | | false, nil | null; false with RESP3 |
//! | - | - | | true | 1; true with RESP3 |
//! | map, set | `{map={}}`, `{set={}}` | | the same | map, set |
//! | double, big number | `{double=n}`, `{big_number=s}` | | the same | double, big number |
//! | boolean | true, false | | | |
//! | verbatim string | `{verbatim_string={string=, format=}}` | | the same | verbatim string |

use mlua::{Either, Lua, Table, Value};
use psp_protocols::resp::{Version, parse_integer};

use super::control::Control;
use super::native::{Made, Shape, Walk, text};
use crate::command::ReplyEncoder;

/// Values between two checkpoints.
const VALUES: usize = 256;

/// Reads replies that commands of this server have written.
pub(super) struct ReplyReader<'r> {
    lua: &'r Lua,
    control: &'r Control,
    rest: &'r [u8],
    values: usize,
}

/// The server has written something that is no reply.
fn malformed() -> mlua::Error {
    mlua::Error::runtime("the command's reply cannot be read")
}

impl<'r> ReplyReader<'r> {
    pub(super) fn new(lua: &'r Lua, control: &'r Control, reply: &'r [u8]) -> Self {
        Self { lua, control, rest: reply, values: 0 }
    }

    /// The next value.
    pub(super) fn value(&mut self) -> mlua::Result<Made<&'r str>> {
        self.values += 1;
        if self.values.is_multiple_of(VALUES) {
            self.control.pause().map_err(mlua::Error::external)?;
        }
        let line = self.line()?;
        let (kind, text) = line.split_first().ok_or_else(malformed)?;
        let value = match kind {
            b':' => return number(text).map(|number| Either::Left(number as f64)),
            b'$' => return self.bulk(text),
            b'+' => self.tagged("ok", text)?,
            b'-' => self.tagged("err", text)?,
            b'*' => self.array(text)?,
            b'_' => Value::Nil,
            b'#' => Value::Boolean(text == b"t"),
            b',' => self.double(text)?,
            b'(' => self.tagged("big_number", text)?,
            b'%' => self.map(text)?,
            b'~' => self.set(text)?,
            b'=' => self.verbatim(text)?,
            _ => return Err(malformed()),
        };
        Ok(Either::Right(Either::Right(value)))
    }

    /// The next value, which is the key of a table and not nil.
    fn key(&mut self) -> mlua::Result<Made<&'r str>> {
        match self.value()? {
            Either::Right(Either::Right(Value::Nil)) => Err(malformed()),
            key => Ok(key),
        }
    }

    fn line(&mut self) -> mlua::Result<&'r [u8]> {
        let end = memchr::memchr(b'\r', self.rest).ok_or_else(malformed)?;
        let (line, rest) = self.rest.split_at(end);
        self.rest = rest.get(2..).ok_or_else(malformed)?;
        Ok(line)
    }

    fn bytes(&mut self, len: usize) -> mlua::Result<&'r [u8]> {
        let bytes = self.rest.get(..len).ok_or_else(malformed)?;
        self.rest = self.rest.get(len + 2..).ok_or_else(malformed)?;
        Ok(bytes)
    }

    fn tagged(&self, tag: &str, line: &[u8]) -> mlua::Result<Value> {
        let table = self.lua.create_table_with_capacity(0, 1)?;
        table.raw_set(tag, text(self.lua, line)?)?;
        Ok(Value::Table(table))
    }

    fn wrapped(&self, tag: &str, value: Value) -> mlua::Result<Value> {
        let table = self.lua.create_table_with_capacity(0, 1)?;
        table.raw_set(tag, value)?;
        Ok(Value::Table(table))
    }

    fn bulk(&mut self, len: &[u8]) -> mlua::Result<Made<&'r str>> {
        let Ok(len) = usize::try_from(number(len)?) else {
            return Ok(Either::Right(Either::Right(Value::Boolean(false))));
        };
        let bytes = self.bytes(len)?;
        text(self.lua, bytes)
    }

    fn array(&mut self, text: &[u8]) -> mlua::Result<Value> {
        let Ok(len) = usize::try_from(number(text)?) else {
            return Ok(Value::Boolean(false));
        };
        let table = self.lua.create_table_with_capacity(len, 0)?;
        for index in 1..=len {
            let value = self.value()?;
            table.raw_seti(index, value)?;
        }
        Ok(Value::Table(table))
    }

    fn map(&mut self, text: &[u8]) -> mlua::Result<Value> {
        let map = self.lua.create_table()?;
        for _ in 0..number(text)? {
            let key = self.key()?;
            let value = self.value()?;
            map.raw_set(key, value)?;
        }
        self.wrapped("map", Value::Table(map))
    }

    fn set(&mut self, text: &[u8]) -> mlua::Result<Value> {
        let set = self.lua.create_table()?;
        for _ in 0..number(text)? {
            let member = self.key()?;
            set.raw_set(member, true)?;
        }
        self.wrapped("set", Value::Table(set))
    }

    fn double(&self, text: &[u8]) -> mlua::Result<Value> {
        let text = std::str::from_utf8(text).ok();
        let double = text.and_then(|text| text.parse::<f64>().ok());
        self.wrapped("double", Value::Number(double.ok_or_else(malformed)?))
    }

    fn verbatim(&mut self, text: &[u8]) -> mlua::Result<Value> {
        let len = usize::try_from(number(text)?).map_err(|_negative| malformed())?;
        let bytes = self.bytes(len)?;
        let (format, text) = bytes.split_at_checked(4).ok_or_else(malformed)?;
        let parts = self.lua.create_table_with_capacity(0, 2)?;
        parts.raw_set("format", self.lua.create_string(&format[..3])?)?;
        parts.raw_set("string", self.lua.create_string(text)?)?;
        self.wrapped("verbatim_string", Value::Table(parts))
    }
}

fn number(text: &[u8]) -> mlua::Result<i64> {
    parse_integer(text).ok_or_else(malformed)
}

/// Writes what a script returns.
pub(super) fn write(value: &Value, control: &Control, out: &mut ReplyEncoder<'_>) -> mlua::Result<()> {
    let is_resp3 = control.version() == Version::Resp3;
    match value {
        Value::String(text) => out.bulk(&text.as_bytes()),
        Value::Integer(number) => out.integer(*number),
        Value::Number(number) => out.integer(truncated(*number)),
        Value::Boolean(value) if is_resp3 => out.boolean(*value),
        Value::Boolean(true) => out.integer(1),
        Value::Table(table) => return write_table(table, control, out),
        _ => out.null(),
    }
    Ok(())
}

/// `number` without its fraction. What no integer of 64 bits can hold is the least one, as the processor has it for
/// Redis.
fn truncated(number: f64) -> i64 {
    const BOUND: f64 = 9_223_372_036_854_775_808.0;
    if (-BOUND..BOUND).contains(&number) {
        number as i64
    } else {
        i64::MIN
    }
}

fn write_table(table: &Table, control: &Control, out: &mut ReplyEncoder<'_>) -> mlua::Result<()> {
    if control.is_deep() {
        out.error("ERR reached lua stack limit");
        return Ok(());
    }
    if let Value::String(line) = table.raw_get("err")? {
        out.error(&text_of(&line));
    } else if let Value::String(text) = table.raw_get("ok")? {
        out.simple(&text_of(&text));
    } else if let Some(double) = number_in(&table.raw_get("double")?) {
        out.double(double);
    } else if let Value::Table(map) = table.raw_get("map")? {
        write_map(&map, control, out)?;
    } else if let Value::Table(set) = table.raw_get("set")? {
        write_set(&set, control, out)?;
    } else if let Value::String(digits) = table.raw_get("big_number")? {
        out.big_number(&text_of(&digits).replace(['\r', '\n'], " "));
    } else if let Value::Table(parts) = table.raw_get("verbatim_string")?
        && let (Value::String(format), Value::String(text)) = (parts.raw_get("format")?, parts.raw_get("string")?)
    {
        out.verbatim(&text_of(&format), &text.as_bytes());
    } else {
        write_array(table, control, out)?;
    }
    Ok(())
}

/// The tables are walked twice, for their lengths and their values: see [`Shape`].
fn write_array(table: &Table, control: &Control, out: &mut ReplyEncoder<'_>) -> mlua::Result<()> {
    let mut len = 0;
    while !table.raw_get::<Value>(len + 1)?.is_nil() {
        pace(control, len)?;
        len += 1;
    }
    out.array(len);
    for index in 1..=len {
        pace(control, index)?;
        write(&table.raw_get(index)?, control, out)?;
    }
    Ok(())
}

fn write_map(map: &Table, control: &Control, out: &mut ReplyEncoder<'_>) -> mlua::Result<()> {
    out.map(Shape::of(map, &Walk::new(control))?.pairs);
    for (index, pair) in map.pairs::<Value, Value>().enumerate() {
        let (key, value) = pair?;
        pace(control, index)?;
        write(&key, control, out)?;
        write(&value, control, out)?;
    }
    Ok(())
}

fn write_set(set: &Table, control: &Control, out: &mut ReplyEncoder<'_>) -> mlua::Result<()> {
    out.set(Shape::of(set, &Walk::new(control))?.pairs);
    for (index, pair) in set.pairs::<Value, Value>().enumerate() {
        let (member, _) = pair?;
        pace(control, index)?;
        write(&member, control, out)?;
    }
    Ok(())
}

fn pace(control: &Control, index: usize) -> mlua::Result<()> {
    if index % VALUES == VALUES - 1 {
        control.pause().map_err(mlua::Error::external)?;
    }
    Ok(())
}

fn number_in(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => Some(*number),
        Value::Integer(number) => Some(*number as f64),
        _ => None,
    }
}

fn text_of(text: &mlua::String) -> String {
    text.to_string_lossy()
}
