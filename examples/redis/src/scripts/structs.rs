//! The library `struct`: numbers and strings in fixed binary layouts.
//!
//! | format | value |
//! | --- | --- |
//! | `<` `>` `=` | little endian, big endian, that of the machine |
//! | `!` `!n` | aligns to 8, or to n bytes; a power of two |
//! | `x` | a byte of padding |
//! | `b` `B` `h` `H` `l` `L` `T` | integers of 1, 1, 2, 2, 8, 8 and 8 bytes; capital letters are unsigned |
//! | `i` `I` `in` `In` | integers of 4, or of n bytes, up to 32 |
//! | `f` `d` | floating point numbers of 4 and 8 bytes |
//! | `s` | a string with a zero at its end |
//! | `c` `cn` | one byte, or n; `c0` takes the whole string, and reads as many bytes as the number before says |

use mlua::{Lua, MultiValue, Value};

use super::native::{Arguments, Failure, NativeFn, Outcome, VALUES_MAX, one};

pub(super) const FUNCTIONS: &[(&str, NativeFn)] = &[("pack", pack), ("size", size), ("unpack", unpack)];

/// Bytes of the longest integer.
const INTEGER_LEN_MAX: usize = 32;
/// Bytes that a format may ask for.
const LEN_MAX: usize = 1 << 28;

/// One item of a format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Item {
    Padding,
    Integer { len: usize, is_signed: bool },
    Float,
    Double,
    Text,
    Bytes(usize),
}

impl Item {
    const fn len(self) -> usize {
        match self {
            Self::Padding => 1,
            Self::Integer { len, .. } | Self::Bytes(len) => len,
            Self::Float => 4,
            Self::Double => 8,
            Self::Text => 0,
        }
    }

    const fn is_aligned(self) -> bool {
        matches!(self, Self::Integer { .. } | Self::Float | Self::Double)
    }
}

/// Reads a format.
struct Format<'f> {
    rest: &'f [u8],
    is_little: bool,
    align_max: usize,
}

impl<'f> Format<'f> {
    fn new(format: &'f [u8]) -> Self {
        Self {
            rest: format,
            is_little: cfg!(target_endian = "little"),
            align_max: 1,
        }
    }

    fn number(&mut self) -> Outcome<Option<usize>> {
        let digits = self.rest.iter().take_while(|byte| byte.is_ascii_digit());
        let (digits, rest) = self.rest.split_at(digits.count());
        self.rest = rest;
        if digits.is_empty() {
            return Ok(None);
        }
        let number = std::str::from_utf8(digits).ok();
        let number = number.and_then(|digits| digits.parse().ok());
        match number {
            Some(number) if number <= LEN_MAX => Ok(Some(number)),
            _ => Err("integral size overflow".into()),
        }
    }

    fn integer(&mut self, default: usize, is_signed: bool) -> Outcome<Item> {
        let len = self.number()?.unwrap_or(default);
        if len > INTEGER_LEN_MAX {
            return Err(format!("integral size {len} is larger than limit of {INTEGER_LEN_MAX}").into());
        }
        Ok(Item::Integer { len, is_signed })
    }

    /// The next item, and the padding in front of it if `at` bytes precede it.
    fn next(&mut self, at: usize) -> Outcome<Option<(Item, usize)>> {
        while let Some((&option, rest)) = self.rest.split_first() {
            self.rest = rest;
            let integer = |len, is_signed| Item::Integer { len, is_signed };
            let item = match option {
                b' ' => continue,
                b'<' | b'>' | b'=' => {
                    self.is_little = match option {
                        b'<' => true,
                        b'>' => false,
                        _ => cfg!(target_endian = "little"),
                    };
                    continue;
                }
                b'!' => {
                    self.align_max = self.number()?.unwrap_or(8);
                    if !self.align_max.is_power_of_two() {
                        return Err("alignment is not a power of 2".into());
                    }
                    continue;
                }
                b'x' => Item::Padding,
                b'b' => integer(1, true),
                b'B' => integer(1, false),
                b'h' => integer(2, true),
                b'H' => integer(2, false),
                b'l' => integer(8, true),
                b'L' | b'T' => integer(8, false),
                b'i' => self.integer(4, true)?,
                b'I' => self.integer(4, false)?,
                b'f' => Item::Float,
                b'd' | b'n' => Item::Double,
                b's' => Item::Text,
                b'c' => Item::Bytes(self.number()?.unwrap_or(1)),
                option => {
                    let option = char::from(option);
                    return Err(format!("invalid format option '{option}'").into());
                }
            };
            return Ok(Some((item, self.padding(item, at))));
        }
        Ok(None)
    }

    fn padding(&self, item: Item, at: usize) -> usize {
        let align = item.len().min(self.align_max);
        if !item.is_aligned() || align < 2 || !align.is_power_of_two() {
            return 0;
        }
        // No string is so long that the end of all numbers matters.
        let aligned = at.checked_next_multiple_of(align);
        aligned.map_or(0, |aligned| aligned - at)
    }
}

fn pack(lua: &Lua, args: &Arguments) -> Outcome {
    let format = args.text(lua, 0, "pack")?;
    let format = format.as_bytes();
    let mut format = Format::new(&format);
    let mut out: Vec<u8> = Vec::new();
    let mut index = 1;
    while let Some((item, padding)) = format.next(out.len())? {
        out.resize(out.len() + padding, 0);
        if item == Item::Padding {
            out.push(0);
            continue;
        }
        match item {
            Item::Integer { len, .. } => {
                let number = args.number(lua, index, "pack")?;
                let number = if number < 0.0 {
                    number as i64
                } else {
                    (number as u64).cast_signed()
                };
                append_integer(number, len, format.is_little, &mut out);
            }
            Item::Float => {
                let number = args.number(lua, index, "pack")? as f32;
                append(number.to_be_bytes(), format.is_little, &mut out);
            }
            Item::Double => {
                let number = args.number(lua, index, "pack")?;
                append(number.to_be_bytes(), format.is_little, &mut out);
            }
            Item::Text => {
                let text = args.text(lua, index, "pack")?;
                out.extend_from_slice(&text.as_bytes());
                out.push(0);
            }
            Item::Bytes(len) => {
                let text = args.text(lua, index, "pack")?;
                let text = text.as_bytes();
                let len = if len == 0 { text.len() } else { len };
                let taken = text.get(..len);
                out.extend_from_slice(
                    taken.ok_or_else(|| format!("bad argument #{} to 'pack' (string too short)", index + 2))?,
                );
            }
            Item::Padding => {}
        }
        index += 1;
        if out.len() > LEN_MAX {
            return Err("the result is too long".into());
        }
    }
    one(lua, lua.create_string(out)?)
}

fn append<const N: usize>(mut bytes: [u8; N], is_little: bool, out: &mut Vec<u8>) {
    if is_little {
        bytes.reverse();
    }
    out.extend_from_slice(&bytes);
}

/// Longer integers are filled up with zeros, as in Redis.
fn append_integer(number: i64, len: usize, is_little: bool, out: &mut Vec<u8>) {
    let mut bytes = [0; INTEGER_LEN_MAX];
    bytes[INTEGER_LEN_MAX - 8..].copy_from_slice(&number.to_be_bytes());
    let bytes = &mut bytes[INTEGER_LEN_MAX - len..];
    if is_little {
        bytes.reverse();
    }
    out.extend_from_slice(bytes);
}

fn unpack(lua: &Lua, args: &Arguments) -> Outcome {
    let (format, data) = (args.text(lua, 0, "unpack")?, args.text(lua, 1, "unpack")?);
    let (format, data) = (format.as_bytes(), data.as_bytes());
    let mut format = Format::new(&format);
    let mut at = match args.get(2) {
        Value::Nil => 0,
        _ => match args.number(lua, 2, "unpack")? {
            position if position >= 1.0 => position as usize - 1,
            _ => return Err("offset must be 1 or greater".into()),
        },
    };
    let mut values: Vec<Value> = Vec::new();
    let too_short = || Failure::from("data string too short");
    while let Some((item, padding)) = format.next(at)? {
        if values.len() == VALUES_MAX {
            return Err("too many results".into());
        }
        at += padding;
        let len = match item {
            Item::Text => {
                let rest = data.get(at..).ok_or_else(too_short)?;
                memchr::memchr(0, rest).ok_or("unfinished string in data")?
            }
            Item::Bytes(0) => {
                // The number before it is its length, and no value.
                let number = values.pop().and_then(|value| value.as_f64());
                number.ok_or("format 'c0' needs a previous size")? as usize
            }
            item => item.len(),
        };
        let end = at.checked_add(len).ok_or_else(too_short)?;
        let bytes = data.get(at..end).ok_or_else(too_short)?;
        at = end;
        let is_little = format.is_little;
        values.push(match item {
            Item::Padding => continue,
            Item::Integer { is_signed, .. } => integer(bytes, is_little, is_signed),
            Item::Float => Value::Number(f32::from_bits(unsigned(bytes, is_little) as u32).into()),
            Item::Double => Value::Number(f64::from_bits(unsigned(bytes, is_little))),
            Item::Text | Item::Bytes(_) => Value::String(lua.create_string(bytes)?),
        });
        at += usize::from(item == Item::Text);
    }
    values.push(Value::Number((at + 1) as f64));
    Ok(MultiValue::from_vec(values))
}

/// The last eight bytes.
fn unsigned(bytes: &[u8], is_little: bool) -> u64 {
    let add = |number, byte: &u8| number << 8 | u64::from(*byte);
    if is_little {
        bytes.iter().rev().fold(0, add)
    } else {
        bytes.iter().fold(0, add)
    }
}

fn integer(bytes: &[u8], is_little: bool, is_signed: bool) -> Value {
    let number = unsigned(bytes, is_little);
    if !is_signed {
        return Value::Number(number as f64);
    }
    let unused_bits = 64 - 8 * bytes.len().clamp(1, 8);
    Value::Number(((number << unused_bits).cast_signed() >> unused_bits) as f64)
}

fn size(lua: &Lua, args: &Arguments) -> Outcome {
    let format = args.text(lua, 0, "size")?;
    let format = format.as_bytes();
    let mut format = Format::new(&format);
    let mut at: usize = 0;
    while let Some((item, padding)) = format.next(at)? {
        if matches!(item, Item::Text | Item::Bytes(0)) {
            return Err("variable-size format in 'size'".into());
        }
        at = at.saturating_add(padding + item.len());
    }
    one(lua, at as f64)
}
