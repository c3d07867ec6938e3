//! Reading a `redis.conf`.

use std::ffi::OsStr;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};

use crate::conf_line::words_of;
use crate::glob::{Pattern, Steps};

/// How many files may include each other.
const DEPTH_MAX: usize = 16;

/// A line of a file, or what the command line says in its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Directive {
    /// In small letters.
    pub(crate) name: String,
    pub(crate) args: Vec<String>,
    /// Where it stands, for messages.
    pub(crate) at: String,
}

/// The directives of the file at `path`, or of standard input if that is `-`, and of all that it includes.
///
/// # Errors
/// A file is not readable, or a line has unbalanced quotes.
pub(crate) fn read(path: &Path) -> anyhow::Result<Vec<Directive>> {
    let mut directives = Vec::new();
    read_into(&mut directives, path, DEPTH_MAX)?;
    Ok(directives)
}

fn read_into(directives: &mut Vec<Directive>, path: &Path, depth_left: usize) -> anyhow::Result<()> {
    ensure!(depth_left > 0, "{}: files include each other", path.display());
    let text = text_of(path).with_context(|| format!("cannot read {}", path.display()))?;
    for (index, line) in text.split(|&byte| byte == b'\n').enumerate() {
        let at = || format!("{}, line {}", path.display(), index + 1);
        let Some(words) = words_of(line).with_context(at)? else {
            continue;
        };
        let mut args = words.into_iter();
        let name = args.next().unwrap_or_default().to_ascii_lowercase();
        if name != "include" {
            directives.push(Directive { name, args: args.collect(), at: at() });
            continue;
        }
        for pattern in args {
            for included in matching(Path::new(&pattern)).with_context(at)? {
                read_into(directives, &included, depth_left - 1)?;
            }
        }
    }
    Ok(())
}

fn text_of(path: &Path) -> std::io::Result<Vec<u8>> {
    if path != Path::new("-") {
        return fs::read(path);
    }
    let mut text = Vec::new();
    std::io::stdin().lock().read_to_end(&mut text)?;
    Ok(text)
}

/// The files that `pattern` names, whose last part may have stars, in order. One without stars has to be there.
fn matching(pattern: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let name = pattern.file_name().and_then(OsStr::to_str).unwrap_or_default();
    if !name.contains(['*', '?', '[']) {
        return Ok(vec![pattern.to_owned()]);
    }
    let folder = match pattern.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    if folder.to_string_lossy().contains(['*', '?', '[']) {
        bail!("{}: only the last part of a path may have stars", pattern.display());
    }
    let Ok(entries) = fs::read_dir(folder) else {
        return Ok(Vec::new());
    };
    let (name, steps) = (Pattern::new(name.as_bytes()), Steps::new());
    let mut found: Vec<_> = entries
        .filter_map(|entry| Some(entry.ok()?.file_name()))
        .filter(|file| !file.as_encoded_bytes().starts_with(b".") && name.matches(file.as_encoded_bytes(), &steps))
        .map(|file| folder.join(file))
        .collect();
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_its_lines_and_those_of_the_files_that_it_includes() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let write = |name: &str, text: &str| fs::write(path(name), text).unwrap();
        write("a.part", "hz 20\n");
        write("b.part", "\t save  3600 1 \r\n");
        let parts = path("*.part");
        write("main", &format!("# hz 7\n\nPort 7\ninclude {}\nrequirepass \"a b\"\n", parts.display()));
        let directives = read(&path("main")).unwrap();
        let texts: Vec<_> = directives.iter().map(|it| format!("{} {}", it.name, it.args.join("|"))).collect();
        assert_eq!(texts, ["port 7", "hz 20", "save 3600|1", "requirepass a b"]);
        assert!(directives[3].at.ends_with("main, line 5"), "{}", directives[3].at);
        for (text, expected) in [
            ("requirepass \"a", "line 1: unbalanced quotes"),
            ("include /nowhere", "cannot read /nowhere"),
        ] {
            write("wrong", text);
            let error = format!("{:#}", read(&path("wrong")).unwrap_err());
            assert!(error.contains(expected), "{error}");
        }
        write("circle", &format!("include {}", path("circle").display()));
        assert!(read(&path("circle")).unwrap_err().to_string().contains("include each other"));
    }
}
