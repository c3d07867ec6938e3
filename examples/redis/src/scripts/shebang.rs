//! The first line of a script may declare flags: `#!lua flags=no-writes,allow-oom`. That of a library names it:
//! `#!lua name=library`.

use psp_protocols::Framing;
use psp_protocols::resp::{Args, Resp};

use crate::error::CommandError;
use crate::parse::Result;

/// What a script or a function declares.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Flags(u8);

/// The names of the flags, by their bits.
const NAMES: [&str; 5] = ["no-writes", "allow-oom", "allow-stale", "no-cluster", "allow-cross-slot-keys"];

impl Flags {
    /// It changes no keys.
    pub const NO_WRITES: Self = Self(1);
    /// It may run while memory is short.
    pub const ALLOW_OOM: Self = Self(1 << 1);

    /// The flag whose name `is_name` finds.
    pub(crate) fn find(is_name: impl Fn(&str) -> bool) -> Option<Self> {
        let bit = NAMES.iter().position(|name| is_name(name))?;
        Some(Self(1 << bit))
    }

    /// Whether it declares a flag of `flags`.
    #[must_use]
    pub const fn has_any(self, flags: Self) -> bool {
        self.0 & flags.0 != 0
    }

    /// The flags of both.
    #[must_use]
    pub const fn with(self, flags: Self) -> Self {
        Self(self.0 | flags.0)
    }

    /// The names of all its flags.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let bits = (0..NAMES.len()).filter(move |bit| self.0 & 1 << bit != 0);
        bits.map(|bit| NAMES[bit])
    }
}

/// The flags that the first line of `body` declares; `None` without such a line.
///
/// # Errors
/// The line names another language than Lua, an option or a flag that does not exist.
pub fn flags_of(body: &[u8]) -> Result<Option<Flags>> {
    if !body.starts_with(b"#!") {
        return Ok(None);
    }
    let line = first_line(body).ok_or(CommandError::line("ERR Invalid script shebang"))?;
    let words = words_of(line).ok_or(CommandError::line("ERR Invalid engine in script shebang"))?;
    let (engine, options) = words.split_first().map_or(("", &[][..]), |(engine, rest)| (engine.as_str(), rest));
    if engine != "#!lua" {
        return Err(error("Unexpected engine in script shebang", engine));
    }
    let mut flags = Flags::default();
    for option in options {
        let Some(names) = option.strip_prefix("flags=") else {
            return Err(error("Unknown lua shebang option", option));
        };
        for given in names.split(',').filter(|_| !names.is_empty()) {
            let flag = Flags::find(|name| name == given);
            let flag = flag.ok_or_else(|| error("Unexpected flag in script shebang", given))?;
            flags = flags.with(flag);
        }
    }
    Ok(Some(flags))
}

/// The name that the first line of the library `code` declares.
///
/// # Errors
/// The line is missing, names another language than Lua, or has options that do not exist.
pub fn library_name(code: &[u8]) -> Result<String> {
    if !code.starts_with(b"#!") {
        return Err(CommandError::line("ERR Missing library metadata"));
    }
    let words = first_line(code).and_then(words_of);
    let words = words.ok_or(CommandError::line("ERR Invalid library metadata"))?;
    let mut name = None;
    for word in words.iter().skip(1) {
        let given = word.split_at_checked(OPTION.len());
        let given = given.filter(|(option, _)| option.eq_ignore_ascii_case(OPTION));
        let Some((_, given)) = given else {
            return Err(error("Invalid metadata value given", word));
        };
        if name.replace(given).is_some() {
            return Err(CommandError::line("ERR Invalid metadata value, name argument was given multiple times"));
        }
    }
    let name = name.ok_or(CommandError::line("ERR Library name was not given"))?;
    if !is_name(name) {
        return Err(CommandError::Other(format!("ERR {WRONG_NAME}").into()));
    }
    let engine = words.first().and_then(|word| word.strip_prefix("#!"));
    let engine = engine.unwrap_or_default();
    if !engine.eq_ignore_ascii_case("lua") {
        let line = format!("ERR Engine '{engine}' not found");
        return Err(CommandError::Other(line.into()));
    }
    Ok(name.to_owned())
}

const OPTION: &str = "name=";

/// What Redis says about the names of libraries and of functions.
pub(crate) const WRONG_NAME: &str = "Library names can only contain letters, numbers, or underscores(_) and must be at \
                                     least one character long";

/// Whether a library or a function can have this name.
pub(crate) fn is_name(name: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    !name.is_empty() && name.bytes().all(is_part)
}

/// The first line of `body` with its end, if it has one.
fn first_line(body: &[u8]) -> Option<&[u8]> {
    let end = memchr::memchr(b'\n', body)?;
    Some(&body[..=end])
}

/// The words of a line by the rules of inline commands; `None` if its quotes are wrong.
fn words_of(line: &[u8]) -> Option<Vec<String>> {
    let head = Resp::default().head_of(line)?;
    let mut unescaped = Vec::new();
    let words = Args::new(line, &head, &mut unescaped);
    let words = words.iter();
    Some(words.map(|word| String::from_utf8_lossy(word).into_owned()).collect())
}

/// The part of `body` that Lua reads: its lines keep their numbers.
#[must_use]
pub fn code_of(body: &[u8]) -> &[u8] {
    if !body.starts_with(b"#!") {
        return body;
    }
    let end = memchr::memchr(b'\n', body);
    end.map_or(b"", |end| &body[end..])
}

fn error(reason: &str, given: &str) -> CommandError {
    CommandError::Other(format!("ERR {reason}: {given}").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused<T: std::fmt::Debug>(result: Result<T>) -> String {
        result.expect_err("an error").to_string()
    }

    #[test]
    fn flags_are_read_and_lines_keep_their_numbers() {
        let body = b"#!lua flags=no-writes,allow-oom\nreturn 1";
        let flags = Flags::NO_WRITES.with(Flags::ALLOW_OOM);
        assert_eq!(flags_of(body), Ok(Some(flags)));
        let names: Vec<_> = flags.names().collect();
        assert_eq!(names, ["no-writes", "allow-oom"]);
        assert_eq!(code_of(body), b"\nreturn 1");
        assert_eq!(flags_of(b"return 1"), Ok(None));
        assert_eq!(flags_of(b"#!lua flags=\n"), Ok(Some(Flags::default())));
        for (body, message) in [
            ("#!lua", "ERR Invalid script shebang"),
            ("#!lua \"\n", "ERR Invalid engine in script shebang"),
            ("#!js\n", "ERR Unexpected engine in script shebang: #!js"),
            ("#!LUA\n", "ERR Unexpected engine in script shebang: #!LUA"),
            ("#!lua name=x\n", "ERR Unknown lua shebang option: name=x"),
            ("#!lua flags=fast\n", "ERR Unexpected flag in script shebang: fast"),
            ("#!lua flags=no-writes,\n", "ERR Unexpected flag in script shebang: "),
        ] {
            assert_eq!(refused(flags_of(body.as_bytes())), message);
        }
    }

    #[test]
    fn libraries_have_a_name() {
        for line in ["#!lua name=lib_1", "#!LUA NAME=lib_1", "#!lua  name=\"lib_1\" "] {
            let code = format!("{line}\nreturn 1");
            assert_eq!(library_name(code.as_bytes()).as_deref(), Ok("lib_1"));
        }
        for (code, message) in [
            ("return 1", "ERR Missing library metadata"),
            ("#!lua name=a", "ERR Invalid library metadata"),
            ("#!lua name=\"a\n", "ERR Invalid library metadata"),
            ("#!lua\n", "ERR Library name was not given"),
            ("#!lua foo=b\n", "ERR Invalid metadata value given: foo=b"),
            (
                "#!lua name=a name=b\n",
                "ERR Invalid metadata value, name argument was given multiple times",
            ),
            ("#! name=a\n", "ERR Engine '' not found"),
            ("#!js name=a\n", "ERR Engine 'js' not found"),
            ("#!js name=a.b\n", &format!("ERR {WRONG_NAME}")),
        ] {
            assert_eq!(refused(library_name(code.as_bytes())), message, "{code}");
        }
    }
}
