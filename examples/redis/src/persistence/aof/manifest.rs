//! The manifest: which files the log consists of, in the form of Redis 7.
//!
//! ```text
//!   file appendonly.aof.2.base.rdb seq 2 type b      what there was at one instant
//!   file appendonly.aof.5.incr.aof seq 5 type i      what has changed since, one file after the other
//!   file appendonly.aof.4.incr.aof seq 4 type h      no longer needed, to be removed
//! ```

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::PathBuf;

use crate::conf_line::{quoted, words_of};
use crate::replace_file::sync_folder;

/// Bytes of a line at most, as in Redis.
const LINE_LEN_MAX: usize = 1024;

/// One file of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) name: String,
    pub(super) number: u64,
}

/// All files of the log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Manifest {
    pub(super) base: Option<Part>,
    pub(super) increments: Vec<Part>,
    /// Files that were replaced, and may be there still.
    pub(super) history: Vec<Part>,
}

impl Manifest {
    /// Reads a manifest.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut manifest = Self::default();
        for (number, line) in text.lines().enumerate() {
            let wrong = |what: &str| format!("line {}: {what}", number + 1);
            if line.len() > LINE_LEN_MAX {
                return Err(wrong("The AOF manifest file contains too long line"));
            }
            if line.starts_with('#') {
                continue;
            }
            let words = words_of(line.as_bytes()).map_err(|error| wrong(&error.to_string()))?.unwrap_or_default();
            let (pairs, rest) = words.as_chunks::<2>();
            // Pairs that a later Redis may add are passed over, as Redis does.
            let value = |key: &str| {
                let pair = pairs.iter().find(|[name, _]| name.eq_ignore_ascii_case(key));
                pair.map(|[_, value]| &**value)
            };
            let (Some(name), Some(sequence), Some(kind), []) = (value("file"), value("seq"), value("type"), rest)
            else {
                return Err(wrong("Invalid AOF manifest file format: it needs the pairs `file`, `seq` and `type`"));
            };
            if name.contains('/') || name.is_empty() {
                return Err(wrong("a file's name is a path"));
            }
            let sequence = sequence.parse().map_err(|_text| wrong("its sequence is no number"))?;
            let part = Part { name: name.to_owned(), number: sequence };
            match kind {
                "b" if manifest.base.is_some() => return Err(wrong("Found duplicate base file information")),
                "b" => manifest.base = Some(part),
                "h" => manifest.history.push(part),
                "i" if manifest.increments.last().is_some_and(|last| last.number >= sequence) => {
                    return Err(wrong("Found a non-monotonic sequence number"));
                }
                "i" => manifest.increments.push(part),
                _ => return Err(wrong("Unknown AOF file type, it is none of b, h and i")),
            }
        }
        match manifest.base.is_none() && manifest.increments.is_empty() {
            true => Err("Found an empty AOF manifest".to_owned()),
            false => Ok(manifest),
        }
    }

    /// The text of the manifest.
    fn text(&self) -> String {
        let mut text = String::new();
        let lines = [(&self.base.iter().collect::<Vec<_>>(), 'b')];
        let history: Vec<&Part> = self.history.iter().collect();
        let increments: Vec<&Part> = self.increments.iter().collect();
        for (parts, kind) in lines.into_iter().chain([(&history, 'h'), (&increments, 'i')]) {
            for Part { name, number } in parts {
                writeln!(text, "file {} seq {number} type {kind}", quoted(name)).expect("a String takes all");
            }
        }
        text
    }

    /// The number of the next base file.
    pub(super) fn next_base(&self) -> u64 {
        self.base.iter().chain(&self.history).map(|part| part.number).max().unwrap_or(0) + 1
    }

    /// The number of the next increment.
    pub(super) fn next_increment(&self) -> u64 {
        self.increments.iter().chain(&self.history).map(|part| part.number).max().unwrap_or(0) + 1
    }
}

/// Where the files are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Folder {
    pub(super) path: PathBuf,
    /// What their names begin with.
    pub(super) prefix: String,
}

impl Folder {
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub(super) fn base_name(&self, number: u64) -> String {
        format!("{}.{number}.base.rdb", self.prefix)
    }

    pub(super) fn increment_name(&self, number: u64) -> String {
        format!("{}.{number}.incr.aof", self.prefix)
    }

    pub(super) fn manifest_path(&self) -> PathBuf {
        self.file(&format!("{}.manifest", self.prefix))
    }

    /// The manifest, if there is one.
    ///
    /// # Errors
    /// It cannot be read.
    pub(super) fn read(&self) -> io::Result<Option<Manifest>> {
        let path = self.manifest_path();
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return self.check_for_parts().map(|()| None),
            text => text?,
        };
        let wrong = |what| io::Error::new(io::ErrorKind::InvalidData, format!("{}, {what}", path.display()));
        Manifest::parse(&text).map(Some).map_err(wrong)
    }

    /// Without a manifest there must be no log with changes: a new one would take its place. A server that was killed
    /// before its first manifest leaves a base, or an increment that nothing needs.
    fn check_for_parts(&self) -> io::Result<()> {
        let files = match fs::read_dir(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            files => files?,
        };
        let (mut has_base, mut has_changes) = (false, false);
        for file in files {
            let file = file?;
            let name = file.file_name().to_string_lossy().into_owned();
            if let Some(name) = name.strip_prefix(&self.prefix) {
                has_base |= name.contains(".base.");
                has_changes |= name.ends_with(".incr.aof") && file.metadata()?.len() > 0;
            }
        }
        match has_base && has_changes {
            true => {
                let what = format!("{} has a log, and no manifest that names its files", self.path.display());
                Err(io::Error::new(io::ErrorKind::InvalidData, what))
            }
            false => Ok(()),
        }
    }

    /// Has this manifest take the place of the one before, once the disk has it.
    ///
    /// # Errors
    /// The system refuses something. The manifest is the one before.
    pub(super) fn write(&self, manifest: &Manifest) -> io::Result<()> {
        let path = self.manifest_path();
        let temporary = self.file(&format!("temp-{}.manifest", self.prefix));
        let mut file = File::create(&temporary)?;
        file.write_all(manifest.text().as_bytes())?;
        file.sync_all()?;
        drop(file);
        fs::rename(&temporary, &path)?;
        self.sync()
    }

    /// Has the disk know the names of the files.
    pub(super) fn sync(&self) -> io::Result<()> {
        sync_folder(&self.path)
    }

    /// Bytes of all files.
    pub(super) fn bytes_of(&self, manifest: &Manifest) -> u64 {
        let parts = manifest.base.iter().chain(&manifest.increments);
        parts.filter_map(|part| Some(fs::metadata(self.file(&part.name)).ok()?.len())).sum()
    }

    /// Removes what the manifest no longer needs. A file that stays is tried again the next time.
    pub(super) fn remove_history(&self, manifest: &mut Manifest) {
        manifest.history.retain(|part| match fs::remove_file(self.file(&part.name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!("cannot remove {}: {error}", part.name);
                true
            }
            _ => false,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_redis_writes_is_read_and_written_as_redis_does() {
        let text = "file appendonly.aof.2.base.rdb seq 2 type b\nfile appendonly.aof.1.base.rdb seq 1 type h\n\
                    file appendonly.aof.4.incr.aof seq 4 type i\nfile appendonly.aof.5.incr.aof seq 5 type i\n";
        let manifest = Manifest::parse(text).unwrap();
        assert_eq!(manifest.text(), text);
        assert_eq!((manifest.next_base(), manifest.next_increment()), (3, 6));
        let quoted = "file \"a \\\"b.1.incr.aof\" seq 1 type i\n";
        assert_eq!(Manifest::parse(quoted).unwrap().text(), quoted);
        let later = "# a comment\nseq 7 TYPE i startoffset 5 File a.7.incr.aof\n";
        assert_eq!(Manifest::parse(later).unwrap().text(), "file a.7.incr.aof seq 7 type i\n");
    }

    #[test]
    fn a_manifest_that_cannot_be_is_refused_with_its_line() {
        for (text, error) in [
            ("", "Found an empty AOF manifest"),
            ("# a comment", "Found an empty AOF manifest"),
            (
                "hello",
                "line 1: Invalid AOF manifest file format: it needs the pairs `file`, `seq` and `type`",
            ),
            (
                "file a seq 1 type b\nfile b seq 2 type b",
                "line 2: Found duplicate base file information",
            ),
            (
                "file a seq 2 type i\nfile b seq 2 type i",
                "line 2: Found a non-monotonic sequence number",
            ),
            ("file a seq x type i", "line 1: its sequence is no number"),
            ("file a seq 1 type q", "line 1: Unknown AOF file type, it is none of b, h and i"),
            ("file ../a seq 1 type i", "line 1: a file's name is a path"),
            ("file \"a seq 1 type i", "line 1: unbalanced quotes"),
        ] {
            assert_eq!(Manifest::parse(text).unwrap_err(), error, "{text}");
        }
    }
}
