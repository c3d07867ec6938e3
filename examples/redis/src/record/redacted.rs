//! Arguments as others may see them: without passwords.

use crate::parse;

/// What stands for a secret.
const SECRET: &[u8] = b"(redacted)";
/// Settings whose values are secrets.
const SECRET_SETTINGS: &[&str] = &["requirepass", "masterauth", "tls-key-file-pass"];

/// The arguments of a call, with those hidden that are secrets.
pub(crate) fn redacted<'a>(args: &[&'a [u8]]) -> Vec<&'a [u8]> {
    let mut shown = args.to_vec();
    let is = |index: usize, word: &str| args.get(index).is_some_and(|arg| parse::is(arg, word));
    if is(0, "auth") {
        shown.iter_mut().skip(1).for_each(|arg| *arg = SECRET);
    } else if is(0, "hello") {
        let auth = (2..args.len()).find(|index| is(*index, "auth"));
        let first = auth.map_or(args.len(), |auth| auth + 1);
        shown.iter_mut().skip(first).take(2).for_each(|arg| *arg = SECRET);
    } else if is(0, "acl") && is(1, "setuser") {
        shown.iter_mut().skip(2).for_each(|arg| *arg = SECRET);
    } else if is(0, "config") && is(1, "set") {
        for index in (2..args.len().saturating_sub(1)).step_by(2) {
            if SECRET_SETTINGS.iter().any(|setting| is(index, setting)) {
                shown[index + 1] = SECRET;
            }
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_hidden() {
        for (line, expected) in [
            ("get auth", "get auth"),
            ("AUTH x", "AUTH (redacted)"),
            ("auth", "auth"),
            ("auth u x", "auth (redacted) (redacted)"),
            ("hello 3 AUTH u x SETNAME n", "hello 3 AUTH (redacted) (redacted) SETNAME n"),
            ("hello 3 SETNAME n", "hello 3 SETNAME n"),
            ("CONFIG SET requirepass x maxmemory 1", "CONFIG SET requirepass (redacted) maxmemory 1"),
            ("CONFIG SET maxmemory 1 requirepass", "CONFIG SET maxmemory 1 requirepass"),
            ("config set", "config set"),
            ("ACL SETUSER a on >x", "ACL SETUSER (redacted) (redacted) (redacted)"),
            ("acl getuser a", "acl getuser a"),
        ] {
            let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            let shown = redacted(&args).join(&b" "[..]);
            assert_eq!(String::from_utf8_lossy(&shown), expected);
        }
    }
}
