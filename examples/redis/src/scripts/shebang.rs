//! The first line of a script may declare flags: `#!lua flags=no-writes,allow-oom`.

use crate::error::CommandError;
use crate::parse::Result;

/// What a script declares.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Flags {
    /// The script changes no keys.
    pub no_writes: bool,
    /// The script may run while memory is short.
    pub allow_oom: bool,
}

/// The flags that the first line of `body` declares.
///
/// # Errors
/// The line names another language than Lua, an option or a flag that does not exist.
pub fn flags_of(body: &[u8]) -> Result<Flags> {
    let mut flags = Flags::default();
    let Some(rest) = body.strip_prefix(b"#!") else {
        return Ok(flags);
    };
    let end = memchr::memchr(b'\n', rest);
    let end = end.ok_or(CommandError::line("ERR Invalid script shebang"))?;
    let line = String::from_utf8_lossy(&rest[..end]);
    let mut words = line.split_ascii_whitespace();
    let engine = words.next().unwrap_or_default();
    if engine != "lua" {
        return Err(error(format!(
            "ERR Unexpected engine in script shebang: {engine}"
        )));
    }
    for word in words {
        let Some(names) = word.strip_prefix("flags=") else {
            return Err(error(format!("ERR Unknown lua shebang option: {word}")));
        };
        for name in names.split(',').filter(|name| !name.is_empty()) {
            match name {
                "no-writes" => flags.no_writes = true,
                "allow-oom" => flags.allow_oom = true,
                "allow-stale" | "no-cluster" | "allow-cross-slot-keys" => {}
                _ => {
                    return Err(error(format!(
                        "ERR Unexpected flag in script shebang: {name}"
                    )));
                }
            }
        }
    }
    Ok(flags)
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

fn error(line: String) -> CommandError {
    CommandError::Other(line.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_read_and_lines_keep_their_numbers() {
        let body = b"#!lua flags=no-writes,allow-oom\nreturn 1";
        let flags = Flags {
            no_writes: true,
            allow_oom: true,
        };
        assert_eq!(flags_of(body), Ok(flags));
        assert_eq!(code_of(body), b"\nreturn 1");
        assert_eq!(flags_of(b"return 1"), Ok(Flags::default()));
        for (body, message) in [
            ("#!lua", "ERR Invalid script shebang"),
            ("#!js\n", "ERR Unexpected engine in script shebang: js"),
            ("#!lua name=x\n", "ERR Unknown lua shebang option: name=x"),
            (
                "#!lua flags=fast\n",
                "ERR Unexpected flag in script shebang: fast",
            ),
        ] {
            let found = flags_of(body.as_bytes()).map_err(|error| error.to_string());
            assert_eq!(found, Err(message.to_owned()));
        }
    }
}
