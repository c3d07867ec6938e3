//! Reads the commands of a file of the log, and says how far it is whole.

use std::io::{self, BufRead, BufReader, Read};

/// Most words of a command.
const WORDS_MAX: usize = 1 << 20;
/// Longest line of a number.
const LINE_LEN_MAX: u64 = 1024;
/// Bytes that are read at a time.
const BUFFER_BYTES: usize = 128 * 1024;

/// A command, with its name first.
pub(super) type Command = Vec<Vec<u8>>;

/// Why there is no further command.
#[derive(Debug)]
pub(super) enum LogError {
    /// The file ends within a command.
    Truncated,
    /// There is something else than a command.
    Damaged(&'static str),
    System(io::Error),
}

impl From<io::Error> for LogError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Self::Truncated,
            _ => Self::System(error),
        }
    }
}

/// A file, as far as it was read.
pub(super) struct LogReader<R> {
    file: BufReader<R>,
    offset: u64,
    line: Vec<u8>,
}

impl<R: Read> LogReader<R> {
    /// Reads a file from `offset` on, where it stands.
    pub(super) fn new(file: R, offset: u64) -> Self {
        Self {
            file: BufReader::with_capacity(BUFFER_BYTES, file),
            offset,
            line: Vec::new(),
        }
    }

    /// Bytes of the file up to the end of the last command.
    pub(super) const fn offset(&self) -> u64 {
        self.offset
    }

    /// The next command; `None` at the end of the file.
    ///
    /// # Errors
    /// There is no whole one.
    pub(super) fn next(&mut self) -> Result<Option<Command>, LogError> {
        let mut read = 0;
        let words = loop {
            if self.file.fill_buf()?.is_empty() {
                self.offset += read;
                return Ok(None);
            }
            read += self.line()?;
            match self.line.first() {
                // A time, or another note.
                Some(b'#') => {}
                Some(b'*') => break number(&self.line, WORDS_MAX as u64)?,
                _ => return Err(LogError::Damaged("a command does not begin with *")),
            }
        };
        let mut command = Vec::new();
        for _ in 0..words {
            read += self.line()?;
            if self.line.first() != Some(&b'$') {
                return Err(LogError::Damaged("an argument does not begin with $"));
            }
            let len = number(&self.line, isize::MAX as u64)?;
            // A length that lies takes no memory until the bytes come.
            let mut word = Vec::new();
            self.file.by_ref().take(len).read_to_end(&mut word)?;
            let mut end = [0; 2];
            if (word.len() as u64) < len {
                return Err(LogError::Truncated);
            }
            self.file.read_exact(&mut end)?;
            if end != *b"\r\n" {
                return Err(LogError::Damaged("an argument is longer than it says"));
            }
            read += len + 2;
            command.push(word);
        }
        if command.is_empty() {
            return Err(LogError::Damaged("a command has no words"));
        }
        self.offset += read;
        Ok(Some(command))
    }

    /// Reads a line without its end. Returns its length with the end.
    fn line(&mut self) -> Result<u64, LogError> {
        self.line.clear();
        let read = self.file.by_ref().take(LINE_LEN_MAX).read_until(b'\n', &mut self.line)?;
        match &self.line[..] {
            [.., b'\r', b'\n'] => self.line.truncate(read - 2),
            [.., b'\n'] => return Err(LogError::Damaged("a line does not end with CR LF")),
            line if line.len() as u64 == LINE_LEN_MAX => return Err(LogError::Damaged("a line is too long")),
            _ => return Err(LogError::Truncated),
        }
        Ok(read as u64)
    }
}

fn number(line: &[u8], most: u64) -> Result<u64, LogError> {
    let digits = str::from_utf8(&line[1..]).ok();
    let number: Option<u64> = digits.and_then(|digits| digits.parse().ok());
    number.filter(|number| *number <= most).ok_or(LogError::Damaged("a number cannot be"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SET: &[u8] = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$2\r\nv\n\r\n";

    #[test]
    fn commands_are_read_with_the_notes_between_them() {
        let file = [SET, b"#TS:1700000000\r\n", b"*1\r\n$4\r\nEXEC\r\n"].concat();
        let mut reader = LogReader::new(&file[..], 0);
        assert_eq!(reader.next().unwrap().unwrap(), [b"SET".as_slice(), b"k", b"v\n"]);
        assert_eq!(reader.offset(), SET.len() as u64);
        assert_eq!(reader.next().unwrap().unwrap(), [b"EXEC"]);
        assert!(reader.next().unwrap().is_none());
        assert_eq!(reader.offset(), file.len() as u64);
    }

    #[test]
    fn every_prefix_ends_at_its_last_whole_command() {
        let file = [SET, SET].concat();
        for len in 0..file.len() {
            let mut reader = LogReader::new(&file[..len], 0);
            let whole = len / SET.len();
            for _ in 0..whole {
                assert!(reader.next().unwrap().is_some());
            }
            match reader.next() {
                Ok(None) => assert_eq!(len % SET.len(), 0),
                Err(LogError::Truncated) => assert_ne!(len % SET.len(), 0),
                other => panic!("{len}: {other:?}"),
            }
            assert_eq!(reader.offset(), (whole * SET.len()) as u64);
        }
    }

    #[test]
    fn what_is_no_command_is_damage_and_takes_no_memory() {
        for file in [
            b"SET k v\r\n".as_slice(),
            b"*x\r\n",
            b"*1\n$1\r\na\r\n",
            b"*0\r\n",
            b"*1\r\n:1\r\n",
            b"*99999999999\r\n",
            b"*1\r\n$1\r\nabc\r\n",
            &[b'*'; 5000],
        ] {
            let read = LogReader::new(file, 0).next();
            assert!(matches!(read, Err(LogError::Damaged(_))), "{read:?}");
        }
        let lie = LogReader::new(&b"*1\r\n$9000000000000000000\r\nab"[..], 0).next();
        assert!(matches!(lie, Err(LogError::Truncated)));
    }
}
