//! `psp-loadgen preload`.

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use psp_loadgen::command::Keyspace;
use psp_loadgen::preload::{self as library, Collection, CollectionKind, PreloadPlan};
use psp_loadgen::target::Target;

use super::Failure;

#[derive(Debug, Args)]
pub(super) struct PreloadArgs {
    /// The server: redis://HOST[:PORT]
    #[arg(long, value_name = "URL")]
    target: String,
    /// Keys to set: key:000000000000 and up
    #[arg(long, value_name = "N")]
    keys: Option<u64>,
    /// Bytes of each value
    #[arg(long, value_name = "BYTES", default_value_t = 64)]
    value_bytes: usize,
    /// Create a list of LEN numbers in scattered order; may be repeated
    #[arg(long, value_name = "KEY:LEN", value_parser = key_and_len)]
    list: Vec<(String, u64)>,
    /// Create a sorted set of LEN members; may be repeated
    #[arg(long, value_name = "KEY:LEN", value_parser = key_and_len)]
    zset: Vec<(String, u64)>,
}

fn key_and_len(text: &str) -> Result<(String, u64), String> {
    text.rsplit_once(':')
        .and_then(|(key, len)| Some((key.to_owned(), len.parse().ok()?)))
        .filter(|(key, len)| !key.is_empty() && *len > 0)
        .ok_or_else(|| "expected KEY:LEN, such as biglist:10000".to_owned())
}

pub(super) fn preload(args: &PreloadArgs) -> Result<(), Failure> {
    let target: Target = args.target.parse().map_err(Failure::usage)?;
    let of_kind = |kind, named: &[(String, u64)]| -> Vec<Collection> {
        let collection = |(key, len): &(String, u64)| Collection {
            kind,
            key: key.clone(),
            len: *len,
        };
        named.iter().map(collection).collect()
    };
    let collections = [
        of_kind(CollectionKind::List, &args.list),
        of_kind(CollectionKind::SortedSet, &args.zset),
    ]
    .concat();
    if args.keys.is_none() && collections.is_empty() {
        let nothing = anyhow::anyhow!("nothing to create: give --keys, --list or --zset");
        return Err(Failure::usage(nothing));
    }
    with_progress(&PreloadPlan {
        target,
        keyspace: args.keys.map(|keys| Keyspace::new(keys, args.value_bytes)),
        collections,
    })
}

/// Carries out a plan behind a progress bar.
pub(super) fn with_progress(plan: &PreloadPlan) -> Result<(), Failure> {
    let bar = ProgressBar::new(plan.values());
    let style = ProgressStyle::with_template("preload {bar:40} {human_pos}/{human_len} {per_sec}")
        .expect("the template is fixed");
    bar.set_style(style);
    let outcome = library::preload(plan, &mut |values| bar.set_position(values));
    bar.finish_and_clear();
    outcome.map_err(Failure::work)
}
