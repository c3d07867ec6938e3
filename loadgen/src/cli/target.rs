//! The options that say what is measured.

use clap::Args;
use psp_loadgen::sim_target::SimTarget;
use psp_loadgen::target::{Protocol, Target, TargetError};

/// What can be measured, for the end of `--help`.
pub(super) const TARGETS: &str = "\
Targets:
  redis://HOST[:PORT]             RESP2; port 6379 unless given
  memcached://HOST[:PORT]         memcached's text protocol; port 11211 unless given
  memcached+meta://HOST[:PORT]    memcached's meta protocol, likewise
  memcached+udp://HOST[:PORT]     memcached's text protocol in datagrams; --preload takes TCP on the
                                  same port
  protobuf://HOST:PORT            psp's RPC, protocols/proto/psp_rpc.proto: protobuf messages behind
                                  their length; replies may come in any order
  psp://HOST:PORT                 the psp header over UDP, for --workload
  SCHEME+unix:PATH                a local socket, as in redis+unix:/run/redis.sock
  unix:PATH                       the same, which speaks what --protocol says
  sim:POLICY?workers=N[&KEY=VALUE...]
                                  a simulated server, for --workload; keys are the settings of
                                  `psp-loadgen sim --set`, as in sim:darc?workers=14&darc.delta=3";

/// What mixes may hold, for the end of `--help`.
pub(super) const COMMANDS: &str = "\
Commands of a mix, by target; a command without arguments gets those in brackets:
  redis      any. GET [{key}], SET [{key} {value}], DEL [{key}], EXISTS [{key}], KEYS [*]
  memcached  GET [{key}] and more keys, MGET N (N random keys), GAT [0 {key}], TOUCH [{key} 0],
             SET ADD REPLACE APPEND PREPEND [{key} {value}] and seconds to live, DELETE [{key}],
             INCR DECR [{key} 1]
  protobuf   METHOD [{value}]: the name of a method, and the payload";

#[derive(Debug, Clone, Default, Args)]
pub(super) struct ProtocolArgs {
    /// What targets of the form unix:PATH speak: redis, memcached, memcached-meta or protobuf
    #[arg(long, value_name = "NAME", value_parser = str::parse::<Protocol>)]
    protocol: Option<Protocol>,
}

/// What is measured.
#[derive(Debug, Clone)]
pub(super) enum Subject {
    Live(Target),
    Simulated(Box<SimTarget>),
}

impl ProtocolArgs {
    /// The live server that `url` means.
    pub(super) fn target(&self, url: &str) -> Result<Target, TargetError> {
        Target::parse(url, self.protocol)
    }

    /// The server that `url` means, live or simulated.
    pub(super) fn subject(&self, url: &str) -> anyhow::Result<Subject> {
        if SimTarget::is_meant(url) {
            return Ok(Subject::Simulated(Box::new(url.parse()?)));
        }
        Ok(Subject::Live(self.target(url)?))
    }
}
