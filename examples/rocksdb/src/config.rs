//! The configuration: built-in defaults, then a TOML file, then flags.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use anyhow::{Context as _, bail, ensure};
use clap::{ArgAction, Parser};
use psp_program::{CommonSettings, LogLevel, ProgramConfig, SocketConfig, TransportConfig};
use psp_server::{Policy, TypeSpec};
use serde::{Deserialize, Serialize};

use crate::engine::{EngineKind, Storage};
use crate::limits::Limits;

/// A key-value server over psp's RPC whose GETs stay fast while SCANs run.
///
/// Methods and messages are in psp_kv.proto. Flags take precedence over the configuration file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Parser)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[command(name = "psp-rocksdb", version)]
pub struct Config {
    /// Address to listen on; several are separated by commas [default: 127.0.0.1].
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',')]
    #[serde(deserialize_with = "psp_program::one_or_many")]
    pub bind: Vec<IpAddr>,
    /// TCP port [default: 9200].
    #[arg(long, short)]
    pub port: u16,
    /// A Unix socket, and sockets of a service manager.
    #[command(flatten)]
    pub sockets: SocketConfig,
    /// Also serve UDP on the same port, one message per datagram; --transport dpdk implies it.
    #[arg(long)]
    pub udp: bool,
    /// Transport of datagrams: sockets, or a polled port.
    #[command(flatten)]
    pub transport: TransportConfig,
    /// Engine that holds the entries [default: memory].
    #[arg(long, value_enum)]
    pub engine: EngineKind,
    /// RocksDB's directory; created if it does not exist.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Sync each write to the medium before acknowledging it (RocksDB) [default: true].
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", action = ArgAction::Set)]
    pub sync: bool,
    /// MiB of RocksDB's block cache [default: RocksDB's own default].
    #[serde(skip_serializing_if = "Option::is_none")]
    #[arg(long, value_name = "MIB")]
    pub block_cache_mb: Option<u32>,
    /// Set this many keys at the start: the keys that psp-loadgen uses with --keys N [default: 0].
    #[arg(long, value_name = "N")]
    pub preload: u64,
    /// Length of their values in bytes [default: 64].
    #[arg(long, value_name = "BYTES")]
    pub preload_value_len: usize,
    /// The least severe level of log messages.
    #[arg(skip)]
    pub log_level: LogLevel,
    /// Limits on requests.
    #[arg(skip)]
    pub limits: Limits,
    /// The scheduling policy.
    #[arg(skip)]
    pub policy: Policy,
    /// Workers, topology, connections and buffers.
    #[arg(skip)]
    pub server: psp_server::Config,
    /// Hints for request types, by their names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[arg(skip)]
    pub types: Vec<TypeSpec>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            bind: vec![Ipv4Addr::LOCALHOST.into()],
            port: 9200,
            engine: EngineKind::default(),
            data_dir: None,
            sync: true,
            block_cache_mb: None,
            preload: 0,
            preload_value_len: 64,
            log_level: LogLevel::default(),
            sockets: SocketConfig::default(),
            udp: false,
            transport: TransportConfig::default(),
            limits: Limits::default(),
            policy: Policy::darc(),
            server: psp_server::Config::default()
                // A request may open a RocksDB file, which needs large stack frames.
                .stack_bytes(1 << 20),
            types: Vec::new(),
        }
    }
}

impl Config {
    /// The engine and its storage.
    ///
    /// # Errors
    /// RocksDB has no directory, or memory has a directory or a block cache.
    pub fn storage(&self) -> anyhow::Result<Storage> {
        match (self.engine, &self.data_dir, self.block_cache_mb) {
            (EngineKind::Memory, None, None) => Ok(Storage::Memory),
            (EngineKind::Memory, Some(_), _) => {
                bail!("--data-dir needs --engine rocksdb: the engine `memory` has no files")
            }
            (EngineKind::Memory, None, Some(_)) => {
                bail!("--block-cache-mb needs --engine rocksdb: the engine `memory` has no blocks")
            }
            (EngineKind::RocksDb, directory, block_cache_mb) => Ok(Storage::RocksDb {
                directory: directory.clone().context("--engine rocksdb needs --data-dir")?,
                sync: self.sync,
                block_cache_mb,
            }),
        }
    }
}

impl ProgramConfig for Config {
    fn common(&mut self) -> CommonSettings<'_> {
        CommonSettings::new(&mut self.log_level, &mut self.policy, &mut self.server)
    }

    fn settle(&mut self) -> anyhow::Result<()> {
        self.udp |= self.transport.is_polled();
        Ok(())
    }

    fn validate(&self) -> anyhow::Result<()> {
        self.limits.validate()?;
        ensure!(
            self.preload_value_len <= self.limits.value_len_max,
            "preload_value_len must be at most limits.value_len_max"
        );
        self.storage().map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use psp_program::CommandLine;

    fn resolve(flags: &str) -> anyhow::Result<Config> {
        let words = std::iter::once("psp-rocksdb").chain(flags.split_whitespace());
        CommandLine::<Config>::try_parse_from(words)?.resolve()
    }

    #[test]
    fn a_printed_configuration_reads_back_the_same() {
        let flags = "--engine rocksdb --data-dir /dev/shm/x --sync false --block-cache-mb 100 \
                     --policy c-fcfs --workers 2 --preload 5000 --bind 127.0.0.1,::1 --port 0 --udp --log-level warn";
        let config = resolve(flags).unwrap();
        let printed = toml::to_string(&config).unwrap();
        assert_eq!(toml::from_str::<Config>(&printed).unwrap(), config);
        let storage = Storage::RocksDb {
            directory: "/dev/shm/x".into(),
            sync: false,
            block_cache_mb: Some(100),
        };
        assert_eq!(config.storage().unwrap(), storage);
        assert_eq!((config.bind.len(), config.udp, config.preload), (2, true, 5_000));
        assert_eq!(resolve("").unwrap(), Config::default());
    }

    #[test]
    fn writes_are_synced_by_default() {
        for (flags, sync) in [("", true), ("--sync", true), ("--sync false", false)] {
            assert_eq!(resolve(flags).unwrap().sync, sync, "{flags}");
        }
    }

    #[test]
    fn contradictory_settings_are_refused() {
        for (flags, word) in [
            ("--engine rocksdb", "--data-dir"),
            ("--data-dir /tmp/x", "--engine rocksdb"),
            ("--block-cache-mb 64", "--engine rocksdb"),
            ("--preload-value-len 2000000", "value_len_max"),
            ("--engine disk", "rocksdb"),
            ("--policy best", "darc"),
        ] {
            let message = format!("{:#}", resolve(flags).unwrap_err());
            assert!(message.contains(word), "{message}");
        }
        assert!(toml::from_str::<Config>("[limits]\ncolour = 1").is_err());
    }
}
