//! What a connection says before its first request: who it is, and which database it uses.

use psp_protocols::Sink;

/// Commands that go first on each connection, and how many replies they have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Greeting {
    pub(crate) bytes: Vec<u8>,
    pub(crate) replies: usize,
}

impl Greeting {
    /// That of a Redis server: AUTH with the credentials of a URL, `[USER][:PASSWORD]`, and SELECT.
    pub(super) fn of_redis(credentials: Option<&str>, database: Option<u64>) -> Self {
        let mut greeting = Self::default();
        // One word is a password, as in redis-cli. Without user and password there is no AUTH.
        let (user, password) = credentials.map_or(("", ""), |it| it.split_once(':').unwrap_or(("", it)));
        match (user, password) {
            ("", "") => {}
            ("", password) => greeting.command(&[b"AUTH".to_vec(), decoded(password)]),
            (user, password) => greeting.command(&[b"AUTH".to_vec(), decoded(user), decoded(password)]),
        }
        if let Some(database) = database {
            greeting.command(&[b"SELECT".to_vec(), database.to_string().into_bytes()]);
        }
        greeting
    }

    fn command(&mut self, words: &[Vec<u8>]) {
        self.bytes.put(format!("*{}\r\n", words.len()).as_bytes());
        for word in words {
            self.bytes.put(format!("${}\r\n", word.len()).as_bytes());
            self.bytes.put(word);
            self.bytes.put(b"\r\n");
        }
        self.replies += 1;
    }
}

/// The text with its `%20` and the like decoded.
fn decoded(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('%') {
        bytes.extend_from_slice(before.as_bytes());
        let digits = after.get(..2).filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(byte.unwrap_or(b'%'));
        rest = if byte.is_some() { &after[2..] } else { after };
    }
    bytes.extend_from_slice(rest.as_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_and_a_database_are_commands() {
        for (credentials, database, expected) in [
            (None, None, ""),
            (Some(":a%20b%"), None, "*2\r\n$4\r\nAUTH\r\n$4\r\na b%\r\n"),
            (Some(":"), None, ""),
            (Some("me:"), None, "*3\r\n$4\r\nAUTH\r\n$2\r\nme\r\n$0\r\n\r\n"),
            (Some("a"), None, "*2\r\n$4\r\nAUTH\r\n$1\r\na\r\n"),
            (
                Some("me:p%3Aw"),
                Some(3),
                "*3\r\n$4\r\nAUTH\r\n$2\r\nme\r\n$3\r\np:w\r\n*2\r\n$6\r\nSELECT\r\n$1\r\n3\r\n",
            ),
        ] {
            let greeting = Greeting::of_redis(credentials, database);
            assert_eq!(String::from_utf8_lossy(&greeting.bytes), expected);
            assert_eq!(greeting.replies, expected.matches('*').count());
        }
    }
}
