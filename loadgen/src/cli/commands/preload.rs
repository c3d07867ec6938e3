//! `psp-loadgen preload`.

use clap::Args;
use psp_loadgen::clients::{Collection, CollectionKind, PreloadPlan};

use crate::cli::args::keyspace::KeyspaceArgs;
use crate::cli::args::target::ProtocolArgs;
use crate::cli::failure::Failure;
use crate::cli::preloading::with_progress;

#[derive(Debug, Args)]
pub(crate) struct PreloadArgs {
    /// The server: redis://, memcached://, memcached+meta:// or memcached+udp://HOST[:PORT],
    /// protobuf://HOST:PORT, or SCHEME+unix:PATH for a local socket
    #[arg(long, value_name = "URL")]
    target: String,
    #[command(flatten)]
    protocol: ProtocolArgs,
    #[command(flatten)]
    keyspace: KeyspaceArgs,
    /// Create a list of LEN numbers in scattered order, in Redis; may be repeated
    #[arg(long, value_name = "KEY:LEN", value_parser = key_and_len)]
    list: Vec<(String, u64)>,
    /// Create a sorted set of LEN members, in Redis; may be repeated
    #[arg(long, value_name = "KEY:LEN", value_parser = key_and_len)]
    zset: Vec<(String, u64)>,
}

fn key_and_len(text: &str) -> Result<(String, u64), String> {
    text.rsplit_once(':')
        .and_then(|(key, len)| Some((key.to_owned(), len.parse().ok()?)))
        .filter(|(key, len)| !key.is_empty() && *len > 0)
        .ok_or_else(|| "expected KEY:LEN, such as biglist:10000".to_owned())
}

pub(crate) fn preload(args: &PreloadArgs) -> Result<(), Failure> {
    let target = args.protocol.target(&args.target);
    let target = target.map_err(Failure::usage)?;
    let of_kind = |kind, named: &[(String, u64)]| -> Vec<Collection> {
        let collection = |(key, len): &(String, u64)| Collection { kind, key: key.clone(), len: *len };
        named.iter().map(collection).collect()
    };
    let collections =
        [of_kind(CollectionKind::List, &args.list), of_kind(CollectionKind::SortedSet, &args.zset)].concat();
    let keys = args.keyspace.keys;
    if keys.is_none() && collections.is_empty() {
        let nothing = anyhow::anyhow!("nothing to create: give --keys, --list or --zset");
        return Err(Failure::usage(nothing));
    }
    with_progress(&PreloadPlan {
        target,
        keyspace: keys.map(|keys| args.keyspace.keyspace(keys)).transpose().map_err(Failure::usage)?,
        collections,
    })
}
