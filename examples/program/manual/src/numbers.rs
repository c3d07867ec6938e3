//! Numbers below 0 are values. Those of flags that take none say so, rather than that there is no such flag.

use std::error::Error as _;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, Error};

/// Lets the flags of a command have values such as `-5`.
#[must_use]
pub fn take_negative_numbers(command: Command) -> Command {
    command.mut_args(|flag| {
        let takes_values = flag.get_action().takes_values();
        flag.allow_negative_numbers(takes_values)
    })
}

/// The error, in words that say that a number is below 0 where that is why it is refused.
#[must_use]
pub fn in_words(error: Error, command: &mut Command) -> Error {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.as_str(),
        _ => "",
    };
    let (flag, value) = (text(ContextKind::InvalidArg), text(ContextKind::InvalidValue));
    // What the standard library says of a sign that has no place.
    let reason = error.source().map(ToString::to_string);
    let is_sign = reason.is_some_and(|reason| reason == "invalid digit found in string");
    if !is_sign || !value.parse().is_ok_and(|number: i128| number < 0) {
        return error;
    }
    let message = format!("'{value}' is out of range for '{flag}': it must be at least 0");
    command.error(ErrorKind::ValueValidation, message)
}
