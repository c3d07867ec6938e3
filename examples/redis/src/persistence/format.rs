//! What RDB files are made of, beside values.
//!
//! ```text
//!   REDIS0010  aux fields  functions  │ database │ sizes │ expiry, idle time, type, key, value │ .. │ end  CRC-64
//!                                       └ each that has keys       └ each key
//! ```

use std::ops::RangeInclusive;

/// The file begins with one of these, and the version in digits.
pub(super) const REDIS: &[u8] = b"REDIS";
pub(super) const VALKEY: &[u8] = b"VALKEY";
/// Bytes of both together.
pub(super) const HEAD_LEN: usize = 9;

/// The version that is written: that of Redis 7.0.
pub(super) const VERSION: &[u8] = b"REDIS0010";
/// The last version that can be read: that of Redis 7.4.
pub(super) const REDIS_VERSION_MAX: u32 = 12;
/// That of Valkey 9.
pub(super) const VALKEY_VERSION_MAX: u32 = 80;
/// Types that mean something else in Valkey's files than in those of Redis.
pub(super) const OTHER_IN_VALKEY: RangeInclusive<u8> = 22..=25;
/// Older files have no checksum.
pub(super) const CHECKSUM_SINCE: u32 = 5;

/// What stands before something that is no key.
pub(super) mod opcode {
    pub(crate) const SLOT_INFO: u8 = 244;
    pub(crate) const FUNCTION: u8 = 245;
    pub(crate) const FUNCTION_OF_PREVIEW: u8 = 246;
    pub(crate) const MODULE_AUX: u8 = 247;
    pub(crate) const IDLE: u8 = 248;
    pub(crate) const FREQUENCY: u8 = 249;
    pub(crate) const AUX: u8 = 250;
    pub(crate) const SIZES: u8 = 251;
    pub(crate) const EXPIRES_AT_MS: u8 = 252;
    pub(crate) const EXPIRES_AT_S: u8 = 253;
    pub(crate) const DATABASE: u8 = 254;
    pub(crate) const END: u8 = 255;
}

/// What cannot be read, by its first byte.
pub(super) fn name_of(ty: u8) -> &'static str {
    match ty {
        6 => "a value of a module in the form of a preview of Redis 4",
        9 => "a hash in the form of Redis before 2.6 (zipmap)",
        22..=25 => "a hash whose fields expire, as Valkey 9 writes it",
        _ => "a value or an opcode of a later version",
    }
}

/// A type of value that follows its module's number.
pub(super) const MODULE_VALUE: u8 = 7;

/// The name of a module's type, by its number: nine letters of 6 bits, and the version.
pub(super) fn module_name(number: u64) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    const NAME_LEN: u32 = 9;
    let letter = |place| char::from(LETTERS[(number >> (10 + 6 * (NAME_LEN - 1 - place))) as usize & 63]);
    (0..NAME_LEN).map(letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_have_names_of_nine_letters() {
        let number = |name: &str| {
            let place = |letter: char| match letter {
                'A'..='Z' => letter as u64 - 65,
                'a'..='z' => letter as u64 - 97 + 26,
                '0'..='9' => letter as u64 - 48 + 52,
                '-' => 62,
                _ => 63,
            };
            name.chars().fold(0, |number, letter| number << 6 | place(letter)) << 10 | 3
        };
        for name in ["ReJSON-RL", "MBbloom--", "trietype0", "_________"] {
            assert_eq!(module_name(number(name)), name);
        }
    }
}
