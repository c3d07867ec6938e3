//! Reads JSON.

use std::borrow::Cow;
use std::string::FromUtf8Error;

use mlua::{Either, IntoLua, Lua, Table, Value};

use super::DEPTH_MAX;
use crate::scripts::native::{Failure, Made, Outcome, Walk};

/// So many elements of a table are read before it is made, with room for them.
const FIRST_MAX: usize = 64;

/// The value in `text`.
pub(super) fn decode(lua: &Lua, text: &[u8], walk: &Walk<'_>) -> Outcome<Value> {
    if text.len() >= 2 && (text[0] == 0 || text[1] == 0) {
        return Err("JSON parser does not support UTF-16 or UTF-32".into());
    }
    let mut parser = Parser { lua, text, at: 0, walk };
    let token = parser.token();
    let value = parser.value(token, 0)?;
    match parser.token() {
        Token { kind: Kind::End, .. } => Ok(value.made().into_lua(lua)?),
        token => Err(unexpected("the end", token)),
    }
}

/// A value that was read.
enum Read<'t> {
    Text(Cow<'t, str>),
    Number(f64),
    Other(Value),
}

impl Read<'_> {
    fn made(&self) -> Made<&str> {
        match self {
            Self::Text(text) => Either::Right(Either::Left(text)),
            Self::Number(number) => Either::Left(*number),
            Self::Other(value) => Either::Right(Either::Right(value.clone())),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    ObjectBegin,
    ObjectEnd,
    ArrayBegin,
    ArrayEnd,
    Text,
    Number,
    True,
    False,
    Null,
    Colon,
    Comma,
    End,
    Invalid,
}

impl Kind {
    /// The name in errors.
    const fn name(self) -> &'static str {
        match self {
            Self::ObjectBegin => "T_OBJ_BEGIN",
            Self::ObjectEnd => "T_OBJ_END",
            Self::ArrayBegin => "T_ARR_BEGIN",
            Self::ArrayEnd => "T_ARR_END",
            Self::Text => "T_STRING",
            Self::Number => "T_NUMBER",
            Self::True | Self::False => "T_BOOLEAN",
            Self::Null => "T_NULL",
            Self::Colon => "T_COLON",
            Self::Comma => "T_COMMA",
            Self::End => "T_END",
            Self::Invalid => "invalid token",
        }
    }
}

/// A token, and where it begins.
#[derive(Debug, Clone, Copy)]
struct Token {
    kind: Kind,
    start: usize,
}

fn unexpected(expected: &str, token: Token) -> Failure {
    let (found, place) = (token.kind.name(), token.start + 1);
    format!("Expected {expected} but found {found} at character {place}").into()
}

struct Parser<'t> {
    lua: &'t Lua,
    text: &'t [u8],
    /// Behind the last token. Texts and numbers are tokens of one byte until they are read.
    at: usize,
    walk: &'t Walk<'t>,
}

impl<'t> Parser<'t> {
    fn token(&mut self) -> Token {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.text.get(self.at) {
            self.at += 1;
        }
        let start = self.at;
        let rest = &self.text[start..];
        let (kind, len) = match rest.first() {
            None => (Kind::End, 0),
            Some(b'{') => (Kind::ObjectBegin, 1),
            Some(b'}') => (Kind::ObjectEnd, 1),
            Some(b'[') => (Kind::ArrayBegin, 1),
            Some(b']') => (Kind::ArrayEnd, 1),
            Some(b':') => (Kind::Colon, 1),
            Some(b',') => (Kind::Comma, 1),
            Some(b'"') => (Kind::Text, 1),
            Some(b'-' | b'0'..=b'9') => (Kind::Number, 0),
            _ if rest.starts_with(b"true") => (Kind::True, 4),
            _ if rest.starts_with(b"false") => (Kind::False, 5),
            _ if rest.starts_with(b"null") => (Kind::Null, 4),
            Some(_) => (Kind::Invalid, 0),
        };
        self.at += len;
        Token { kind, start }
    }

    fn value(&mut self, token: Token, depth: usize) -> Outcome<Read<'t>> {
        self.walk.step()?;
        Ok(Read::Other(match token.kind {
            Kind::Text => return self.text(token),
            Kind::Number => return self.number(token).map(Read::Number),
            Kind::True => Value::Boolean(true),
            Kind::False => Value::Boolean(false),
            Kind::Null => Value::NULL,
            Kind::ObjectBegin => Value::Table(self.object(depth + 1)?),
            Kind::ArrayBegin => Value::Table(self.array(depth + 1)?),
            _ => return Err(unexpected("value", token)),
        }))
    }

    fn check_depth(&self, depth: usize) -> Outcome<()> {
        if depth > DEPTH_MAX || self.walk.is_deep() {
            let place = self.at;
            return Err(format!("Found too many nested data structures ({depth}) at character {place}").into());
        }
        Ok(())
    }

    fn object(&mut self, depth: usize) -> Outcome<Table> {
        self.check_depth(depth)?;
        let mut token = self.token();
        let mut first = Vec::new();
        let mut table = None;
        if token.kind == Kind::ObjectEnd {
            return self.object_of(&first);
        }
        loop {
            if token.kind != Kind::Text {
                return Err(unexpected("object key string", token));
            }
            let key = self.text(token)?;
            let colon = self.token();
            if colon.kind != Kind::Colon {
                return Err(unexpected("colon", colon));
            }
            let begin = self.token();
            let value = self.value(begin, depth)?;
            match &table {
                None => first.push((key, value)),
                Some(table) => Table::raw_set(table, key.made(), value.made())?,
            }
            if first.len() == FIRST_MAX {
                table = Some(self.object_of(&first)?);
                first.clear();
            }
            token = self.token();
            match token.kind {
                Kind::ObjectEnd => break,
                Kind::Comma => token = self.token(),
                _ => return Err(unexpected("comma or object end", token)),
            }
        }
        table.map_or_else(|| self.object_of(&first), Ok)
    }

    fn object_of(&self, pairs: &[(Read<'_>, Read<'_>)]) -> Outcome<Table> {
        let pairs = pairs.iter().map(|(key, value)| (key.made(), value.made()));
        Ok(self.lua.create_table_from(pairs)?)
    }

    fn array(&mut self, depth: usize) -> Outcome<Table> {
        self.check_depth(depth)?;
        let mut token = self.token();
        let mut first = Vec::new();
        let mut table = None;
        if token.kind == Kind::ArrayEnd {
            return self.array_of(&first);
        }
        for index in 1.. {
            let value = self.value(token, depth)?;
            match &table {
                None => first.push(value),
                Some(table) => Table::raw_seti(table, index, value.made())?,
            }
            if first.len() == FIRST_MAX {
                table = Some(self.array_of(&first)?);
                first.clear();
            }
            token = self.token();
            match token.kind {
                Kind::ArrayEnd => break,
                Kind::Comma => token = self.token(),
                _ => return Err(unexpected("comma or array end", token)),
            }
        }
        table.map_or_else(|| self.array_of(&first), Ok)
    }

    fn array_of(&self, values: &[Read<'_>]) -> Outcome<Table> {
        let values = values.iter().map(Read::made);
        Ok(self.lua.create_sequence_from(values)?)
    }

    fn number(&mut self, token: Token) -> Outcome<f64> {
        let rest = &self.text[token.start..];
        let is_part = |byte: &u8| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
        let len = rest.iter().take_while(|byte| is_part(byte)).count();
        let digits = rest[..len].strip_prefix(b"-").unwrap_or(&rest[..len]);
        let text = std::str::from_utf8(&rest[..len]).unwrap_or_default();
        match text.parse() {
            Ok(number) if digits.first().is_some_and(u8::is_ascii_digit) => {
                self.at = token.start + len;
                Ok(number)
            }
            _ => Err(unexpected("value", Token { kind: Kind::Invalid, ..token })),
        }
    }

    /// The text that begins with `token`, as a value.
    fn text(&mut self, token: Token) -> Outcome<Read<'t>> {
        let text = match self.string(token)? {
            Cow::Borrowed(bytes) => std::str::from_utf8(bytes).map(Cow::Borrowed).map_err(|_| bytes.to_vec()),
            Cow::Owned(bytes) => String::from_utf8(bytes).map(Cow::Owned).map_err(FromUtf8Error::into_bytes),
        };
        Ok(match text {
            Ok(text) => Read::Text(text),
            Err(bytes) => Read::Other(Value::String(self.lua.create_string(bytes)?)),
        })
    }

    /// The bytes of the text that begins with `token`.
    fn string(&mut self, token: Token) -> Outcome<Cow<'t, [u8]>> {
        let invalid = |kind: Kind| unexpected("value", Token { kind, ..token });
        let mut out = Vec::new();
        loop {
            let rest = &self.text[self.at..];
            let plain = memchr::memchr2(b'"', b'\\', rest).ok_or_else(|| invalid(Kind::Invalid))?;
            if let Some(control) = rest[..plain].iter().position(|byte| *byte < 0x20) {
                let start = self.at + control;
                return Err(unexpected("value", Token { kind: Kind::Invalid, start }));
            }
            self.at += plain + 1;
            if rest[plain] == b'"' && out.is_empty() {
                return Ok(Cow::Borrowed(&rest[..plain]));
            }
            out.extend_from_slice(&rest[..plain]);
            if rest[plain] == b'"' {
                return Ok(Cow::Owned(out));
            }
            let escape = self.text.get(self.at).copied();
            self.at += 1;
            out.push(match escape {
                Some(b'"' | b'\\' | b'/') => escape.unwrap_or_default(),
                Some(b'b') => 0x08,
                Some(b'f') => 0x0c,
                Some(b'n') => b'\n',
                Some(b'r') => b'\r',
                Some(b't') => b'\t',
                Some(b'u') => {
                    let character = self.unicode().ok_or_else(|| invalid(Kind::Invalid))?;
                    let mut bytes = [0; 4];
                    out.extend_from_slice(character.encode_utf8(&mut bytes).as_bytes());
                    continue;
                }
                _ => return Err(invalid(Kind::Invalid)),
            });
        }
    }

    /// The character behind `\u`, of one or two units of UTF-16.
    fn unicode(&mut self) -> Option<char> {
        let unit = self.unit()?;
        if !(0xd800..0xdc00).contains(&unit) {
            return char::from_u32(unit.into());
        }
        if self.text.get(self.at..self.at + 2)? != b"\\u" {
            return None;
        }
        self.at += 2;
        let units = [unit, self.unit()?];
        char::decode_utf16(units).next()?.ok()
    }

    fn unit(&mut self) -> Option<u16> {
        let digits = self.text.get(self.at..self.at + 4)?;
        self.at += 4;
        if !digits.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    }
}
