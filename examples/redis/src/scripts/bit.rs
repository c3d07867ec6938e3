//! The library `bit`: operations on the 32 low bits of numbers, as in LuaJIT.

use mlua::Lua;

use super::native::{Arguments, NativeFn, Outcome, one};

pub(super) const FUNCTIONS: &[(&str, NativeFn)] = &[
    ("tobit", |lua, args| one(lua, bits(lua, args, 0, "tobit")?)),
    ("bnot", |lua, args| one(lua, !bits(lua, args, 0, "bnot")?)),
    ("bswap", |lua, args| one(lua, bits(lua, args, 0, "bswap")?.swap_bytes())),
    ("band", |lua, args| fold(lua, args, "band", |a, b| a & b)),
    ("bor", |lua, args| fold(lua, args, "bor", |a, b| a | b)),
    ("bxor", |lua, args| fold(lua, args, "bxor", |a, b| a ^ b)),
    ("lshift", |lua, args| shift(lua, args, "lshift", |bits, by| bits << by)),
    ("rshift", |lua, args| {
        shift(lua, args, "rshift", |bits, by| (bits.cast_unsigned() >> by).cast_signed())
    }),
    ("arshift", |lua, args| shift(lua, args, "arshift", |bits, by| bits >> by)),
    ("rol", |lua, args| shift(lua, args, "rol", i32::rotate_left)),
    ("ror", |lua, args| shift(lua, args, "ror", i32::rotate_right)),
    ("tohex", tohex),
];

/// The low bits of an argument, as LuaJIT's library takes them: rounded to the nearest integer, ties to even.
fn bits(lua: &Lua, args: &Arguments, index: usize, function: &str) -> Outcome<i32> {
    const MODULUS: f64 = 4_294_967_296.0;
    let number = args.number(lua, index, function)?;
    if !number.is_finite() {
        return Ok(0);
    }
    let low = number.round_ties_even().rem_euclid(MODULUS);
    Ok((low as u32).cast_signed())
}

fn fold(lua: &Lua, args: &Arguments, name: &str, apply: fn(i32, i32) -> i32) -> Outcome {
    let mut folded = bits(lua, args, 0, name)?;
    for index in 1..args.len() {
        folded = apply(folded, bits(lua, args, index, name)?);
    }
    one(lua, folded)
}

fn shift(lua: &Lua, args: &Arguments, name: &str, apply: fn(i32, u32) -> i32) -> Outcome {
    let shifted = bits(lua, args, 0, name)?;
    let by = bits(lua, args, 1, name)?.cast_unsigned() & 31;
    one(lua, apply(shifted, by))
}

fn tohex(lua: &Lua, args: &Arguments) -> Outcome {
    let number = bits(lua, args, 0, "tohex")?;
    let digits = match args.len() {
        ..2 => 8,
        _ => bits(lua, args, 1, "tohex")?,
    };
    let hex = if digits < 0 {
        format!("{number:08X}")
    } else {
        format!("{number:08x}")
    };
    let count = digits.unsigned_abs().min(8) as usize;
    one(lua, &hex[8 - count..])
}
