//! BITFIELD and BITFIELD_RO: integers of any width among the bits of a string.

use psp_store::Element;

use super::pace::Pace;
use super::{bits, bytes};
use crate::command::{Context, ReplyEncoder, Row};
use crate::error::CommandError;
use crate::keyspace_events::{Class, Rule};
use crate::parse::{self, Result, is};
use crate::typed::snapshot;

/// Rows of the command table.
pub(crate) const COMMANDS: &[Row] = &[
    Row::new("bitfield", bitfield).event(Class::String, "setbit", Rule::Words(&["set", "incrby"])),
    Row::new("bitfield_ro", bitfield_ro),
];

/// An integer's place in a string, and its type.
#[derive(Clone, Copy)]
struct Field {
    offset: u64,
    /// 1 to 64; up to 63 without a sign.
    width: u32,
    is_signed: bool,
}

/// What to do when a value does not fit its field.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Overflow {
    Wrap,
    Saturate,
    Fail,
}

/// What to do with a field. The reply of [`Set`](Self::Set) is the old value, that of others the value afterwards.
#[derive(Clone, Copy)]
enum Action {
    Get,
    Set(i64, Overflow),
    Increment(i64, Overflow),
}

fn overflow(arg: &[u8]) -> Result<Overflow> {
    match arg {
        name if is(name, "wrap") => Ok(Overflow::Wrap),
        name if is(name, "sat") => Ok(Overflow::Saturate),
        name if is(name, "fail") => Ok(Overflow::Fail),
        _ => Err(CommandError::line("ERR Invalid OVERFLOW type specified")),
    }
}

impl Field {
    /// A field of the type `kind`, such as `i16`, at `offset`. `#3` is the fourth of fields in a row.
    fn parse(context: &Context<'_>, kind: &[u8], offset: &[u8]) -> Result<Self> {
        let (is_signed, width) = match kind {
            [b'i', width @ ..] => (true, width),
            [b'u', width @ ..] => (false, width),
            _ => (false, &b""[..]),
        };
        let width_max = if is_signed { 64 } else { 63 };
        let width = parse::integer(width).ok();
        let width = width.filter(|width| (1..=width_max).contains(width));
        let width = width.ok_or(CommandError::line(
            "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.",
        ))?;
        let (offset, unit_bits) = match offset {
            [b'#', index @ ..] => (index, width),
            offset => (offset, 1),
        };
        Ok(Self {
            offset: bits::offset(context, offset, unit_bits)?,
            width: width as u32,
            is_signed,
        })
    }

    /// Bytes of a string that ends with the field.
    fn bytes(self) -> usize {
        (self.offset + u64::from(self.width)).div_ceil(8) as usize
    }

    /// The bits that a window of 16 bytes has behind the field. The window begins with the byte of its first bit.
    fn shift(self) -> u32 {
        u128::BITS - (self.offset % 8) as u32 - self.width
    }

    fn mask(self) -> u128 {
        (1 << self.width) - 1
    }

    /// The bytes of `string` from the field's first one on, as a number. Zeros follow the string.
    fn window(self, string: &[u8]) -> u128 {
        let bytes = string.get((self.offset / 8) as usize..).unwrap_or_default();
        let mut window = [0; 16];
        let len = bytes.len().min(window.len());
        window[..len].copy_from_slice(&bytes[..len]);
        u128::from_be_bytes(window)
    }

    fn get(self, string: &[u8]) -> i128 {
        self.wrapped((self.window(string) >> self.shift()) as i128)
    }

    /// Stores `value`. The string reaches to the field's end.
    fn set(self, string: &mut [u8], value: i128) {
        let value = value as u128 & self.mask();
        let others = self.window(string) & !(self.mask() << self.shift());
        let window = (others | value << self.shift()).to_be_bytes();
        let bytes = &mut string[(self.offset / 8) as usize..];
        let len = bytes.len().min(window.len());
        bytes[..len].copy_from_slice(&window[..len]);
    }

    /// The lowest bits of `value`, as a number of the field's type.
    fn wrapped(self, value: i128) -> i128 {
        let unused = u128::BITS - self.width;
        if self.is_signed {
            value << unused >> unused
        } else {
            value & self.mask() as i128
        }
    }

    /// What the field holds instead of `value`; `None` if it does not fit and must not change.
    fn fitting(self, value: i128, overflow: Overflow) -> Option<i128> {
        let (min, max) = if self.is_signed {
            (-(1 << (self.width - 1)), (1 << (self.width - 1)) - 1)
        } else {
            (0, self.mask() as i128)
        };
        match overflow {
            _ if (min..=max).contains(&value) => Some(value),
            Overflow::Wrap => Some(self.wrapped(value)),
            Overflow::Saturate => Some(value.clamp(min, max)),
            Overflow::Fail => None,
        }
    }
}

fn parse_actions(context: &Context<'_>, mut args: &[&[u8]]) -> Result<Vec<(Field, Action)>> {
    let mut actions = Vec::with_capacity(args.len() / 3);
    let mut on_overflow = Overflow::Wrap;
    loop {
        let (field, action, rest) = match *args {
            [] => return Ok(actions),
            [name, kind, offset, ref rest @ ..] if is(name, "get") => {
                (Field::parse(context, kind, offset)?, Action::Get, rest)
            }
            [name, kind, offset, value, ref rest @ ..] if is(name, "set") || is(name, "incrby") => {
                let field = Field::parse(context, kind, offset)?;
                let value = parse::integer(value)?;
                let action = if is(name, "set") {
                    Action::Set(value, on_overflow)
                } else {
                    Action::Increment(value, on_overflow)
                };
                (field, action, rest)
            }
            [name, kind, ref rest @ ..] if is(name, "overflow") => {
                on_overflow = overflow(kind)?;
                args = rest;
                continue;
            }
            _ => return Err(CommandError::Syntax),
        };
        actions.push((field, action));
        args = rest;
    }
}

/// Runs one action on `string`, which reaches to the end of each field that is written. Returns the reply.
fn run(field: Field, action: Action, string: &mut [u8]) -> Option<i64> {
    let old = field.get(string);
    let (reply, new) = match action {
        Action::Get => return Some(old as i64),
        Action::Set(value, overflow) => {
            // A value without a sign is of 64 bits.
            let value = if field.is_signed {
                i128::from(value)
            } else {
                i128::from(value as u64)
            };
            (old, field.fitting(value, overflow)?)
        }
        Action::Increment(step, overflow) => {
            let new = field.fitting(old + i128::from(step), overflow)?;
            (new, new)
        }
    };
    field.set(string, new);
    Some(reply as i64)
}

fn bitfield(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let actions = parse_actions(context, &args[2..])?;
    let written = actions.iter().filter(|(_, action)| !matches!(action, Action::Get));
    let Some(len) = written.map(|(field, _)| field.bytes()).max() else {
        return read(context, args[1], &actions, out);
    };
    let replies = bytes::change(context, args, len, actions.len(), |string, pace| {
        let actions = actions.iter().inspect(|_| pace.step());
        actions.map(|(field, action)| run(*field, *action, string)).collect::<Vec<_>>()
    })?;
    out.array(replies.len());
    for reply in replies {
        match reply {
            Some(value) => out.integer(value),
            None => out.null(),
        }
    }
    Ok(())
}

fn bitfield_ro(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let actions = parse_actions(context, &args[2..])?;
    if actions.iter().any(|(_, action)| !matches!(action, Action::Get)) {
        return Err(CommandError::line("ERR BITFIELD_RO only supports the GET subcommand"));
    }
    read(context, args[1], &actions, out)
}

/// Runs actions that do not write.
fn read(context: &Context<'_>, key: &[u8], actions: &[(Field, Action)], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let string: Option<Element> = snapshot(context.store, key)?;
    let string = string.as_ref().map_or(&[][..], Element::as_slice);
    let pace = Pace::new();
    out.array(actions.len());
    for (field, _) in actions {
        pace.step();
        out.integer(field.get(string) as i64);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::Session;

    #[test]
    fn fields_are_read_and_written() {
        Session::new().expect(&[
            ("BITFIELD b SET u8 0 255", "*1 :0"),
            ("BITFIELD b GET u8 0 GET i8 0 GET u4 4 GET i5 6", "*4 :255 :-1 :15 :-8"),
            ("BITFIELD b INCRBY i5 100 1 GET u4 0", "*2 :1 :15"),
            ("STRLEN b", ":14"),
            ("BITFIELD b SET i64 #2 -9223372036854775808 GET i64 #2", "*2 :0 :-9223372036854775808"),
            (
                "BITFIELD b SET i64 77 -2 GET i64 77 GET u63 78",
                "*3 :68719480832 :-2 :9223372036854775806",
            ),
            ("BITFIELD b GET u8 1000", "*1 :0"),
            ("BITFIELD none GET u8 0", "*1 :0"),
            ("EXISTS none", ":0"),
            ("BITFIELD none", "*0"),
            ("BITFIELD_RO b GET u8 0", "*1 :255"),
            ("BITFIELD_RO b SET u8 0 1", "-ERR BITFIELD_RO only supports the GET subcommand"),
        ]);
    }

    #[test]
    fn overflows_wrap_saturate_or_fail() {
        Session::new().expect(&[
            ("BITFIELD b SET u8 0 250", "*1 :0"),
            ("BITFIELD b INCRBY u8 0 10", "*1 :4"),
            ("BITFIELD b INCRBY u8 0 -10", "*1 :250"),
            ("BITFIELD b OVERFLOW SAT INCRBY u8 0 10", "*1 :255"),
            ("BITFIELD b OVERFLOW FAIL INCRBY u8 0 1 GET u8 0", "*2 $-1 :255"),
            ("BITFIELD b OVERFLOW SAT INCRBY u8 0 -300", "*1 :0"),
            ("BITFIELD b SET i8 0 127 INCRBY i8 0 1", "*2 :0 :-128"),
            ("BITFIELD b OVERFLOW SAT INCRBY i8 0 -1 INCRBY i8 0 300", "*2 :-128 :127"),
            ("BITFIELD b SET i8 0 300", "*1 :127"),
            ("BITFIELD b GET i8 0", "*1 :44"),
            ("BITFIELD b OVERFLOW SAT SET u8 0 -1 GET u8 0", "*2 :44 :255"),
            ("BITFIELD c OVERFLOW FAIL SET u2 14 4", "*1 $-1"),
            ("STRLEN c", ":2"),
            ("BITFIELD d SET i64 0 9223372036854775807 INCRBY i64 0 1", "*2 :0 :-9223372036854775808"),
        ]);
    }

    #[test]
    fn wrong_arguments_change_nothing() {
        let kind = "-ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.";
        let offset = "-ERR bit offset is not an integer or out of range";
        Session::new().expect(&[
            ("BITFIELD b SET u64 0 1", kind),
            ("BITFIELD b SET i65 0 1", kind),
            ("BITFIELD b SET u0 0 1", kind),
            ("BITFIELD b SET 8 0 1", kind),
            ("BITFIELD b SET u8 -1 1", offset),
            ("BITFIELD b SET u8 #x 1", offset),
            ("BITFIELD b SET u8 4294967296 1", offset),
            ("BITFIELD b SET u8 #9223372036854775807 1", offset),
            ("BITFIELD b SET u8 0 1 SET u8 0", "-ERR syntax error"),
            ("BITFIELD b SET u8 0 x", "-ERR value is not an integer or out of range"),
            ("BITFIELD b OVERFLOW LOSE", "-ERR Invalid OVERFLOW type specified"),
            ("EXISTS b", ":0"),
            ("LPUSH l a", ":1"),
            (
                "BITFIELD l GET u8 0",
                "-WRONGTYPE Operation against a key holding the wrong kind of value",
            ),
            (
                "BITFIELD l SET u8 0 1",
                "-WRONGTYPE Operation against a key holding the wrong kind of value",
            ),
        ]);
    }

    #[test]
    fn many_fields_in_one_request_follow_each_other() {
        let line = format!("BITFIELD b{}", " INCRBY u16 #3 2".repeat(300));
        let mut session = Session::new();
        let reply = session.run(&line);
        assert!(reply.starts_with("*300\r\n:2\r\n:4\r\n") && reply.ends_with(":600\r\n"));
        session.expect(&[("BITFIELD b GET u16 #3", "*1 :600")]);
    }
}
