//! Redis's own command line and configuration file: `psp-redis redis.conf --appendonly yes --hz 20`.
//!
//! ```text
//!   redis.conf ─► directives ┐                     ┌─► --port=7000           a flag of the program
//!                            ├─► the last of each ─┤
//!   command line ────────────┘                     └─► --setting='hz 20'     what CONFIG SET knows besides
//! ```
//!
//! The first word may be a `redis.conf`, or `-` for standard input; one that ends with `.toml` is the configuration
//! file of [`crate::config`]. All other words that are no directives of Redis are flags as always.

mod file;

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::net::{IpAddr, UdpSocket};
use std::path::Path;

use anyhow::{Context as _, anyhow, bail};
use psp_program::CommandLine;

use crate::commands::is_parameter;
use crate::config::{Config, log_level};

use file::Directive;

/// Directives whose values of all lines count.
const ALL_LINES: [&str; 2] = ["save", "client-output-buffer-limit"];
/// Directives of which each line is a flag.
const EACH_LINE: [&str; 2] = ["user", "setting"];
/// Flags that are there without a value, too.
const MAY_BE_EMPTY: [&str; 2] = ["save", "notify-keyspace-events"];
/// Directives without which a server would be something else than what was asked for.
const NOT_IGNORED: [(&str, &str); 2] = [
    ("rename-command", "rules of users (ACL SETUSER) say who may run a command"),
    ("loadmodule", "there are no modules"),
];

/// What the words of a command line say.
#[derive(Default)]
struct Given {
    /// What the first word names.
    file: Vec<Directive>,
    /// Directives on the command line.
    directives: Vec<Directive>,
    /// All other words.
    flags: Vec<OsString>,
}

impl Given {
    /// Reads the file, which CONFIG REWRITE finds under the same path wherever the process goes.
    fn read(&mut self, path: &OsStr) -> anyhow::Result<()> {
        self.file.extend(file::read(Path::new(path))?);
        let absolute = match path.as_encoded_bytes() {
            b"-" => path.to_owned(),
            _ => std::path::absolute(path)?.into_os_string(),
        };
        self.flags.extend(["--redis-conf".into(), absolute]);
        Ok(())
    }
}

/// The words of a command line, with flags in the place of a `redis.conf` and of Redis's directives.
///
/// # Errors
/// The file is not readable, or has a line that neither Redis nor this program knows.
pub fn as_flags(words: Vec<OsString>) -> anyhow::Result<Vec<OsString>> {
    let mut words = words.into_iter();
    let program: Vec<_> = words.by_ref().take(1).collect();
    let known = Known::default();
    let Given { file, directives, flags } = given(words, &known)?;
    let mut translated = program;
    let is_replaced: HashSet<&str> = directives.iter().map(|directive| &*directive.name).collect();
    let kept = file.iter().filter(|directive| !is_replaced.contains(&*directive.name));
    let all: Vec<_> = kept.chain(&directives).collect();
    for (index, directive) in all.iter().enumerate() {
        let same = |other: &&&Directive| other.name == directive.name;
        let is_last = !all[index + 1..].iter().any(|other| same(&other));
        let value = match &*directive.name {
            name if EACH_LINE.contains(&name) => directive.args.join(" "),
            _ if !is_last => continue,
            name if ALL_LINES.contains(&name) => all_lines(all.iter().filter(same).copied()),
            _ => directive.args.join(" "),
        };
        translated.extend(known.flag(directive, &value)?.map(OsString::from));
    }
    translated.extend(flags);
    Ok(translated)
}

/// The values of all lines; an empty one forgets those before it.
fn all_lines<'a>(lines: impl Iterator<Item = &'a Directive>) -> String {
    lines.fold(String::new(), |before, line| match line.args.join(" ") {
        line if line.is_empty() || before.is_empty() => line,
        line => format!("{before} {line}"),
    })
}

/// Sorts the words behind the program's name.
fn given(words: impl Iterator<Item = OsString>, known: &Known) -> anyhow::Result<Given> {
    let mut words = words.peekable();
    let mut given = Given::default();
    let first = words.next_if(|word| !word.as_encoded_bytes().starts_with(b"-") || word == "-");
    if let Some(path) = first {
        if Path::new(&path).extension().is_some_and(|extension| extension == "toml") {
            given.flags.extend(["--config".into(), path]);
        } else {
            given.read(&path)?;
        }
    }
    while let Some(word) = words.next() {
        let text = word.to_str().and_then(|word| word.strip_prefix("--")).unwrap_or_default();
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (text, None),
        };
        if name == "redis-conf" {
            let path = value.map(OsString::from).or_else(|| words.next());
            given.read(&path.context("--redis-conf has no value")?)?;
            continue;
        }
        if !known.is_directive(name) {
            given.flags.push(word);
            continue;
        }
        let mut args: Vec<String> = value.into_iter().map(str::to_owned).collect();
        // Values may be negative numbers, and addresses behind a `-`.
        let is_value = |word: &OsString| !matches!(word.as_encoded_bytes(), [b'-', b'-' | b'a'..=b'z', ..]);
        while value.is_none()
            && let Some(arg) = words.next_if(is_value)
        {
            let arg = arg.into_string();
            args.push(arg.ok().with_context(|| format!("the value of --{name} is not UTF-8"))?);
        }
        if args.is_empty() {
            given.flags.push(word);
            continue;
        }
        let name = match name {
            "log-level" => "loglevel".to_owned(),
            name => name.to_ascii_lowercase(),
        };
        given.directives.push(Directive { name, args, at: "the command line".to_owned() });
    }
    Ok(given)
}

/// The names that there are.
struct Known {
    /// Flags of the program that have a value.
    flags: HashSet<String>,
}

impl Default for Known {
    fn default() -> Self {
        let command = CommandLine::<Config>::command();
        let valued = command.get_arguments().filter(|arg| arg.get_action().takes_values());
        Self {
            flags: valued.filter_map(clap::Arg::get_long).map(str::to_owned).collect(),
        }
    }
}

impl Known {
    /// Whether a flag of this name on the command line may have Redis's form, and stands for a line of the file.
    fn is_directive(&self, name: &str) -> bool {
        self.flags.contains(name) || is_parameter(name) || NOT_IGNORED.iter().any(|(other, _)| *other == name)
    }

    /// The flag that stands for a directive with this value, if one has to.
    fn flag(&self, directive: &Directive, value: &str) -> anyhow::Result<Option<String>> {
        let Directive { name, args, at } = directive;
        if let Some((_, instead)) = NOT_IGNORED.iter().find(|(other, _)| other == name) {
            bail!("{at}: '{name}' is not supported: {instead}");
        }
        if args.is_empty() {
            bail!("{at}: '{name}' has no value");
        }
        let flag = match &**name {
            "bind" => format!("--bind={}", addresses(args)),
            "loglevel" => {
                let level = log_level(value).map_err(|reason| anyhow!("{at}: '{name}': {reason}"))?;
                format!("--log-level={level}")
            }
            _ if self.flags.contains(name) => match value {
                "" if !MAY_BE_EMPTY.contains(&&**name) => return Ok(None),
                _ => format!("--{name}={value}"),
            },
            _ if is_parameter(name) => format!("--setting={name} {value}"),
            _ => bail!("{at}: '{name}' is no setting of Redis or psp-redis"),
        };
        Ok(Some(flag))
    }
}

/// The addresses of `bind`, separated by commas. One behind a `-` need not be there.
fn addresses(args: &[String]) -> String {
    let words = args.iter().flat_map(|arg| arg.split([' ', ','])).filter(|word| !word.is_empty());
    let addresses = words.filter_map(|word| {
        let (is_optional, address) = match word.strip_prefix('-') {
            Some(address) => (true, address),
            None => (false, word),
        };
        let address = match address {
            "*" => "0.0.0.0",
            "::*" => "::",
            other => other,
        };
        let is_there = || address.parse().is_ok_and(|ip: IpAddr| UdpSocket::bind((ip, 0)).is_ok());
        (!is_optional || is_there()).then_some(address)
    });
    addresses.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(file: &str, words: &[&str]) -> anyhow::Result<Vec<String>> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("redis.conf");
        std::fs::write(&path, file)?;
        let words = std::iter::once("psp-redis".into())
            .chain((!file.is_empty()).then(|| path.clone().into_os_string()))
            .chain(words.iter().map(OsString::from));
        let flags = as_flags(words.collect())?;
        let flags = flags.into_iter().map(|flag| flag.into_string().unwrap());
        Ok(flags.map(|flag| flag.replace(path.to_str().unwrap(), "FILE")).collect())
    }

    #[test]
    fn directives_become_flags_of_which_the_last_counts() {
        for (file, words, expected) in [
            ("", "--port 7 -p 8 --policy sjf --workers 2", "--port=7|--policy=sjf|--workers=2|-p|8"),
            ("port 1\nport 2", "", "--port=2|--redis-conf|FILE"),
            ("port 1", "--port 3", "--port=3|--redis-conf|FILE"),
            ("hz 20\ntimeout 5", "", "--setting=hz 20|--timeout=5|--redis-conf|FILE"),
            ("loglevel notice", "--loglevel verbose", "--log-level=debug|--redis-conf|FILE"),
            (
                "loglevel notice\nworkers 3",
                "--log-level warn --workers 2",
                "--log-level=warn|--workers=2|--redis-conf|FILE",
            ),
            ("bind * -::*\nrequirepass \"\"", "", "--bind=0.0.0.0,::|--redis-conf|FILE"),
            ("save 9 1\nsave 8 2", "", "--save=9 1 8 2|--redis-conf|FILE"),
            ("save 9 1\nsave \"\"\nsave 8 2", "", "--save=8 2|--redis-conf|FILE"),
            ("save 9 1", "--save 7 1 6 2", "--save=7 1 6 2|--redis-conf|FILE"),
            ("user a on\nuser b off", "", "--user=a on|--user=b off|--redis-conf|FILE"),
            (
                "policy darc delta=2\nworkers 3",
                "",
                "--policy=darc delta=2|--workers=3|--redis-conf|FILE",
            ),
            ("", "--appendonly", "--appendonly"),
            ("", "--print-config --strict", "--print-config|--strict"),
        ] {
            let words: Vec<_> = words.split_ascii_whitespace().collect();
            assert_eq!(flags(file, &words).unwrap()[1..].join("|"), expected, "{file} {words:?}");
        }
        assert_eq!(flags("", &["--save", ""]).unwrap()[1..], ["--save="]);
        assert_eq!(
            flags("", &["psp.toml", "--hz=3"]).unwrap()[1..],
            ["--setting=hz 3", "--config", "psp.toml"]
        );
    }

    #[test]
    fn what_is_no_setting_is_refused_with_its_place() {
        for (file, expected) in [
            ("port 1\nprot 2", "line 2: 'prot' is no setting"),
            ("rename-command KEYS \"\"", "'rename-command' is not supported: rules of users"),
            ("loadmodule a.so", "there are no modules"),
            ("loglevel loud", "must be one of the following"),
            ("port", "'port' has no value"),
        ] {
            let error = format!("{:#}", flags(file, &[]).unwrap_err());
            assert!(error.contains(expected), "{error}");
        }
    }
}
