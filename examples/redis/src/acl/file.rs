//! ACL files: one user a line, as ACL LIST shows them.

use std::path::Path;
use std::sync::Arc;
use std::{fs, io};

use crate::replace_file::replace_file;

use super::Users;
use super::definition::{DefinitionError, apply_all};
use super::rule_error::RuleError;
use super::selector::{PubSubDefault, has_spaces};
use super::user::User;

/// Reads the users of a file. Without the default user there, it is as it is without rules.
///
/// # Errors
/// A message with all lines that are wrong.
pub(super) fn load(path: &Path, default: PubSubDefault) -> Result<Users, String> {
    let shown = path.display();
    let text = fs::read(path).map_err(|error| format!("Error loading ACLs, opening file '{shown}': {error}"))?;
    let (mut users, mut errors) = (Users::new(), String::new());
    for (number, line) in (1..).zip(text.split(|byte| *byte == b'\n')) {
        let line = line.trim_ascii();
        if line.is_empty() {
            continue;
        }
        match parse(line, default) {
            Err(reason) => errors.push_str(&format!("{shown}:{number}: {reason}. ")),
            Ok(user) if users.contains_key(user.name()) => {
                let name = String::from_utf8_lossy(user.name());
                errors.push_str(&format!("WARNING: Duplicate user '{name}' found on line {number}. "));
            }
            Ok(user) => drop(users.insert(user.name().into(), Arc::new(user))),
        }
    }
    if errors.is_empty() {
        Ok(users)
    } else {
        Err(errors + "WARNING: ACL errors detected, no change to the previously active ACL rules was performed")
    }
}

/// The user of a line.
fn parse(line: &[u8], default: PubSubDefault) -> Result<User, String> {
    let words: Vec<_> = line.split(|byte| *byte == b' ').collect();
    let [b"user", name, rules @ ..] = &words[..] else {
        return Err("should start with user keyword followed by the username".to_owned());
    };
    if has_spaces(name) {
        let name = String::from_utf8_lossy(name);
        return Err(format!("username '{name}' contains invalid characters"));
    }
    let rules: Vec<_> = rules.iter().map(|rule| rule.trim_ascii()).collect();
    let mut user = User::new(name, default);
    match apply_all(&mut user, &rules, default) {
        Ok(()) => Ok(user),
        Err(DefinitionError::Rule { rule, error }) if error == RuleError::Unknown => {
            let rule = String::from_utf8_lossy(&rule);
            Err(format!("Error in applying operation '{rule}': {error}"))
        }
        // The rule may have a password.
        Err(DefinitionError::Rule { error, .. }) => Err(error.to_string()),
        Err(error) => Err(error.to_string()),
    }
}

/// Puts the users in the place of what the file has. Whoever reads it meanwhile finds the old users or the new ones.
///
/// # Errors
/// Those of the file system.
pub(super) fn save(path: &Path, users: &Users) -> io::Result<()> {
    let mut text = Vec::new();
    for user in users.values() {
        text.extend(user.line());
        text.push(b'\n');
    }
    replace_file(path, &text)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use proptest::collection::vec;
    use proptest::sample::select;
    use proptest::{prop_assert_eq, proptest};

    use super::*;

    const NONE: PubSubDefault = PubSubDefault::ResetChannels;

    const RULES: &[&str] = &[
        "on",
        "off",
        "nopass",
        ">x",
        "<x",
        ">y",
        "reset",
        "~*",
        "~a*",
        "%R~r",
        "%W~r",
        "%W~w*",
        "resetkeys",
        "&*",
        "&c*",
        "&d",
        "resetchannels",
        "+@all",
        "-@all",
        "+@read",
        "-@dangerous",
        "+get",
        "-get",
        "+client|id",
        "-client|id",
        "-client",
        "+select|0",
        "+config",
        "(+get ~a)",
        "(~* +@all -set)",
        "()",
        "clearselectors",
        "skip-sanitize-payload",
        "nonsense",
        "+shutdown",
        "-memory|doctor",
    ];

    proptest! {
        #[test]
        fn any_user_is_what_its_line_says(rules in vec(select(RULES), 0..20)) {
            let mut user = User::new(b"alice", NONE);
            for rule in rules {
                let _right_or_wrong = user.apply(rule.as_bytes(), NONE);
            }
            let again = parse(&user.line(), NONE).expect("a right line");
            prop_assert_eq!(user.line(), again.line());
        }

        #[test]
        fn arbitrary_lines_are_read_or_refused(line in "user a( [-+~%&#<>!(][ -~]{0,6}){0,4}") {
            if let Ok(user) = parse(line.as_bytes(), NONE) {
                let again = parse(&user.line(), NONE).expect("a right line");
                prop_assert_eq!(user.line(), again.line());
            }
        }
    }

    #[test]
    fn what_is_saved_is_loaded_again() {
        let directory = tempfile::tempdir().expect("a folder");
        let path = directory.path().join("users.acl");
        let text = "user bob  on >x ~* +@all\n\r\nuser alice on (+get ~rw*)\r\n";
        fs::write(&path, text).expect("a file");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("permissions");
        let users = load(&path, NONE).expect("users");
        assert_eq!(users.len(), 2);
        save(&path, &users).expect("it is saved");
        let saved = fs::read_to_string(&path).expect("a file");
        assert!(
            saved.starts_with(
                "user alice on sanitize-payload resetchannels -@all (~rw* resetchannels -@all +get)\n\
                 user bob on sanitize-payload #"
            ),
            "{saved}"
        );
        assert_eq!(load(&path, NONE), Ok(users));
        let mode = fs::metadata(&path).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
        assert_eq!(fs::read_dir(directory.path()).expect("a folder").count(), 1);
        let nowhere = directory.path().join("none/users.acl");
        assert!(save(&nowhere, &Users::new()).is_err());
    }

    #[test]
    fn errors_name_the_file_and_the_line() {
        let directory = tempfile::tempdir().expect("a folder");
        let path = directory.path().join("users.acl");
        for (text, expected) in [
            (
                "user a on\n\nuser b +nope\n",
                ":3: Error in applying operation '+nope': Unknown command or category name in ACL. ",
            ),
            ("user a #x", ":1: The password hash must be exactly 64"),
            ("usr a", ":1: should start with user keyword followed by the username. "),
            ("# text", ":1: should start with user keyword followed by the username. "),
            ("user", ":1: should start with user"),
            ("user a\nuser a on", "WARNING: Duplicate user 'a' found on line 2. "),
            (
                "user a (+get\nuser b )",
                ":1: Unmatched parenthesis in acl selector starting at '(+get'.. ",
            ),
        ] {
            fs::write(&path, text).expect("a file");
            let error = load(&path, NONE).expect_err(text);
            assert!(error.contains(expected), "{error}");
            assert!(error.ends_with("no change to the previously active ACL rules was performed"));
        }
        let error = load(&directory.path().join("none"), NONE).expect_err("no file");
        assert!(error.contains("opening file"), "{error}");
    }
}
