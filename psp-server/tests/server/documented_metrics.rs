//! Metrics that pages, alerts and the dashboard name are those of the code.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The lists of a server's figures and of a layer's, which are the documentation of the code that has them. Unit tests
/// and end-to-end tests compare them with that.
const LISTS: [&str; 2] = [include_str!("../../src/lib.rs"), include_str!("../../tower/src/publish.rs")];
/// Fields of INFO of psp-redis and crates.
const NO_METRICS: [&str; 8] = [
    "psp_contended_updates",
    "psp_workers",
    "psp_workers_min",
    "psp_workers_came",
    "psp_workers_went",
    "psp_",
    "psp_server",
    "psp_rpc_service",
];
const PARTS_OF_HISTOGRAMS: [&str; 3] = ["_bucket", "_sum", "_count"];

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn files(folder: &str, extensions: &[&str]) -> Vec<(String, String)> {
    let entries = fs::read_dir(repository().join(folder)).unwrap().map(|entry| entry.unwrap().path());
    let of_kind = entries.filter(|path| extensions.iter().any(|kind| path.extension().is_some_and(|it| it == *kind)));
    let read: Vec<_> = of_kind
        .map(|path| (path.display().to_string(), fs::read_to_string(&path).unwrap()))
        .collect();
    assert!(!read.is_empty(), "{folder}");
    read
}

/// The names that begin with `psp_`, each with what stands before it and behind it.
fn names(text: &str) -> impl Iterator<Item = (&str, &str, &str)> {
    text.match_indices("psp_").map(|(at, _)| {
        let rest = &text[at..];
        let end = rest.find(|c: char| c != '_' && !c.is_ascii_lowercase()).unwrap_or(rest.len());
        (&text[..at], &rest[..end], &rest[end..])
    })
}

fn known() -> BTreeSet<&'static str> {
    let rows = LISTS
        .into_iter()
        .flat_map(str::lines)
        .filter_map(|line| line.trim_start_matches('/').split_once("| `psp_"));
    let known: BTreeSet<_> = rows.map(|(_, row)| row.split('`').next().unwrap()).collect();
    assert!(known.len() > 70, "{}", known.len());
    known
}

#[test]
fn every_metric_that_is_named_exists() {
    let known = known();
    let exists = |name: &str| {
        let of_histogram = PARTS_OF_HISTOGRAMS.iter().find_map(|part| name.strip_suffix(part));
        let is_known = |name: &str| name.strip_prefix("psp_").is_some_and(|name| known.contains(name));
        is_known(name) || of_histogram.is_some_and(is_known) || NO_METRICS.contains(&name)
    };
    let mut seen = 0;
    for (file, text) in files("docs", &["md"]) {
        // A name in a listing is that of a crate.
        let quoted = |(before, _, behind): &(&str, &str, &str)| before.ends_with('`') && behind.starts_with(['`', '{']);
        for (_, name, _) in names(&text).filter(quoted) {
            assert!(exists(name), "{file}: {name}");
            seen += 1;
        }
    }
    for (file, text) in files("examples/operations", &["yml", "json"]) {
        for (_, name, _) in names(&text) {
            assert!(exists(name), "{file}: {name}");
            seen += 1;
        }
    }
    assert!(seen > 40, "{seen}");
}
