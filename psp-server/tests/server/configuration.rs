//! The tables of `docs/configuration.md` are those of the code.

use std::collections::BTreeSet;
use std::time::Duration;

use psp_server::reload::differences;
use psp_server::{Config, PreemptPolicy, Settings, TypeSpec};
use toml::{Table, Value};

const PAGE: &str = include_str!("../../../docs/configuration.md");

/// The cells of the table behind a heading, a row a vector.
fn rows(heading: &str) -> Vec<Vec<&'static str>> {
    let (_, section) = PAGE.split_once(&format!("## `{heading}`\n")).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let lines = section.lines().filter(|line| line.starts_with("| `"));
    lines.map(|line| line.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

fn key<'a>(row: &[&'a str]) -> &'a str {
    row[0].trim_matches('`')
}

/// Settings without a default have one, too.
fn with_every_setting() -> Config {
    Config::default()
        .workers(1)
        .contexts_per_worker(2)
        .buffered_bytes_max(1)
        .arbiter("/run/psp-arbiter/socket")
        .admin("9100")
        .admin_token_file("/run/token")
        .admin_tls("/run/chain", "/run/key")
}

pub(crate) fn server_table(config: &Config) -> Table {
    Table::try_from(config).unwrap()
}

#[test]
fn the_table_has_every_setting_with_its_default() {
    let rows = rows("[server]");
    let defaults = server_table(&Config::default());
    let keys: BTreeSet<&str> = rows.iter().map(|row| key(row)).collect();
    let known = server_table(&with_every_setting());
    assert_eq!(keys, known.keys().map(String::as_str).collect());
    for row in &rows {
        let default = match defaults.get(key(row)) {
            Some(value) => format!("`{value}`"),
            None => match key(row) {
                "workers" => "by the cores",
                "contexts-per-worker" => "by the stacks",
                "buffered-bytes-max" => "by the memory",
                _ => "none",
            }
            .to_owned(),
        };
        assert_eq!(row[1], default, "{}", key(row));
    }
}

#[test]
fn the_ranges_are_those_that_are_checked() {
    for row in rows("[server]") {
        let is_valid = |value: i64| {
            let text = format!("[server]\n{} = {value}", key(&row));
            Settings::from_toml(&text).is_ok()
        };
        let range = row[3].split(';').next().unwrap();
        if range == "a path" {
            let text = format!("[server]\nworkers = '1..2'\n{} = '/'", key(&row));
            Settings::from_toml(&text).unwrap();
        } else if range == "any" {
            assert!(is_valid(0) && is_valid(i64::MAX), "{}", key(&row));
        } else if let Some(min) = range.strip_prefix("above ") {
            let min: i64 = min.parse().unwrap();
            assert!(!is_valid(min) && is_valid(min + 1), "{}", key(&row));
        } else if let Some(min) = range.strip_prefix("0, or at least ") {
            let min: i64 = min.parse().unwrap();
            assert!(is_valid(0) && is_valid(min), "{}", key(&row));
            assert!(!is_valid(-1), "{}", key(&row));
        } else if let Some(min) = range.strip_prefix("at least ") {
            let min: i64 = min.parse().unwrap();
            assert!(!is_valid(min - 1) && is_valid(min), "{}", key(&row));
        } else if let Some((min, end)) = range.split_once(" to below ") {
            let (min, end): (i64, i64) = (min.parse().unwrap(), end.parse().unwrap());
            assert!(is_valid(min) && !is_valid(end), "{}", key(&row));
            assert!(!is_valid(min - 1), "{}", key(&row));
        } else if let Some((min, max)) = range.split_once(" to ") {
            let (min, max): (i64, i64) = (min.parse().unwrap(), max.parse().unwrap());
            assert!(is_valid(min) && is_valid(max), "{}", key(&row));
            let above = max.checked_add(1).is_some_and(is_valid);
            assert!(!is_valid(min - 1) && !above, "{}", key(&row));
        } else {
            for word in range.split(", ") {
                let text = format!("[server]\n{} = '{}'", key(&row), word.trim_matches('`'));
                Settings::from_toml(&text).unwrap();
            }
        }
    }
}

/// A configuration in which every setting has another value.
pub(crate) fn changed(config: &Config) -> Config {
    let changed = server_table(config).into_iter().map(|(key, value)| {
        let value = match (key.as_str(), value) {
            ("topology", _) => "inline".into(),
            ("admission", _) => "on".into(),
            ("preempt", _) => "none".into(),
            ("arbiter", _) => "/run/other".into(),
            ("admin", _) => "9101".into(),
            ("admin-token-file" | "admin-tls-cert-file" | "admin-tls-key-file", _) => "/run/other".into(),
            // The default is the most that may be.
            ("requests-per-connection-max", Value::Integer(number)) => (number - 1).into(),
            (_, Value::Integer(number)) => (number + 1).into(),
            (_, Value::Float(number)) => (number / 2.0).into(),
            (key, value) => panic!("{key} = {value}"),
        };
        (key, value)
    });
    changed.collect::<Table>().try_into().unwrap()
}

#[test]
fn what_changes_at_run_time_is_marked() {
    let started = with_every_setting();
    let other = changed(&started);
    let restart = differences(&started.reloaded(&other), &other);
    assert!(differences(&started, &other).len() > restart.len());
    for row in rows("[server]") {
        let changes = !restart.iter().any(|name| name == key(&row));
        assert_eq!(row[4], if changes { "yes" } else { "no" }, "{}", key(&row));
    }
}

#[test]
fn the_table_of_types_has_every_hint() {
    let spec = TypeSpec::new("a")
        .service_time(Duration::from_micros(1))
        .slo(Duration::from_micros(1))
        .max_wait(Duration::from_micros(1))
        .share(0.5)
        .weight(1)
        .queue_capacity(1)
        .preempt(PreemptPolicy::None)
        .slow(Duration::from_micros(1))
        .control()
        .never_grouped();
    let known = Table::try_from(spec).unwrap();
    let rows = rows("[[types]]");
    let keys: BTreeSet<&str> = rows.iter().map(|row| key(row)).collect();
    assert_eq!(keys, known.keys().map(String::as_str).collect());
}

/// The file of the page is one that a server takes.
#[test]
fn the_file_of_the_page_is_valid() {
    let (_, file) = PAGE.split_once("```toml\n").unwrap();
    let settings = Settings::from_toml(file.split("```").next().unwrap()).unwrap();
    assert_eq!(settings.policy.name(), "darc");
    assert_eq!(settings.types.len(), 1);
}
