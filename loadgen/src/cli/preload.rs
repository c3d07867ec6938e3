//! `psp-loadgen preload`.

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use psp_loadgen::preload::{self as library, Collection, CollectionKind, PreloadPlan};

use super::Failure;
use super::keyspace::KeyspaceArgs;
use super::target::ProtocolArgs;

#[derive(Debug, Args)]
pub(super) struct PreloadArgs {
    /// The server: redis://, memcached://, memcached+meta:// or memcached+udp://HOST[:PORT],
    /// protobuf://HOST:PORT, or SCHEME+unix:PATH for a local socket
    #[arg(long, value_name = "URL")]
    target: String,
    #[command(flatten)]
    protocol: ProtocolArgs,
    #[command(flatten)]
    keyspace: KeyspaceArgs,
    /// Create a list, in Redis, of LEN numbers in scattered order; may be repeated
    #[arg(long, value_name = "KEY:LEN", value_parser = key_and_len)]
    list: Vec<(String, u64)>,
    /// Create a sorted set, in Redis, of LEN members; may be repeated
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
    let target = args.protocol.target(&args.target);
    let target = target.map_err(Failure::usage)?;
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
    let keys = args.keyspace.keys;
    if keys.is_none() && collections.is_empty() {
        let nothing = anyhow::anyhow!("nothing to create: give --keys, --list or --zset");
        return Err(Failure::usage(nothing));
    }
    with_progress(&PreloadPlan {
        target,
        keyspace: keys
            .map(|keys| args.keyspace.keyspace(keys))
            .transpose()
            .map_err(Failure::usage)?,
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
