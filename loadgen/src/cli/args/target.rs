//! The options for the target.

use std::path::PathBuf;

use clap::Args;
use psp_loadgen::simulated::SimTarget;
use psp_loadgen::wire::{Protocol, Target, TargetError, TlsOptions};

/// The forms of targets, for the end of `--help`.
pub(crate) const TARGETS: &str = "\
Targets:
  redis://HOST[:PORT]             RESP2; port 6379 unless given; as in redis://USER:PASSWORD@HOST/3, each
                                  connection begins with AUTH and SELECT
  memcached://HOST[:PORT]         memcached's text protocol; port 11211 unless given
  memcached+meta://HOST[:PORT]    memcached's meta protocol, likewise
  memcached+udp://HOST[:PORT]     memcached's text protocol in datagrams; --preload takes TCP on the
                                  same port
  protobuf://HOST:PORT            psp's RPC, protocols/proto/psp_rpc.proto: protobuf messages behind
                                  their length; replies may come in any order
  http://HOST[:PORT][/PATH]       HTTP/1.1; port 80 unless given; without a mix, requests are GET PATH;
                                  statuses other than 2xx and 3xx are errors
  lines+tcp://HOST:PORT           a request line, a reply line; ERR, ERROR or BUSY begins an error
  psp://HOST:PORT                 the psp header over UDP, for --workload
  rediss:// https:// SCHEME+tls:// the same over TLS, as in memcached+tls://HOST; port 443 for https
  SCHEME+unix:PATH                a local socket, as in redis+unix:/run/redis.sock
  unix:PATH                       the same, with the protocol of --protocol
  sim:POLICY?workers=N[&KEY=VALUE...]
                                  a simulated server, for --workload; keys are the settings of
                                  `psp-loadgen sim --set`, as in sim:darc?workers=14&darc.delta=3";

/// The commands of mixes, for the end of `--help`.
pub(crate) const COMMANDS: &str = "\
Commands of a mix, by target. A command without arguments gets the arguments in brackets:
  redis      any. GET [{key}], SET [{key} {value}], DEL [{key}], EXISTS [{key}], KEYS [*]
  memcached  GET [{key}] and more keys, MGET N (N random keys), GAT [0 {key}], TOUCH [{key} 0],
             SET ADD REPLACE APPEND PREPEND [{key} {value}] and seconds to live, DELETE [{key}],
             INCR DECR [{key} 1]
  protobuf   METHOD [{value}]: the name of a method, and the payload
  http       METHOD [/] [BODY ['NAME: VALUE']...], as in GET /page?n={n} or POST /a '{\"b\": 1}' 'Accept: c';
             reports name it by its path
  lines      any words: the request line";

#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ProtocolArgs {
    /// The protocol of targets of the form unix:PATH: redis, memcached, memcached-meta, protobuf, http
    /// or lines-tcp
    #[arg(long, value_name = "NAME", value_parser = str::parse::<Protocol>)]
    protocol: Option<Protocol>,
    #[command(flatten)]
    tls: TlsArgs,
}

/// How connections to `rediss://` and its like are encrypted.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "TLS")]
struct TlsArgs {
    /// A PEM file of the authorities that may have issued the server's certificate, instead of the system's
    #[arg(long = "ca", value_name = "FILE")]
    authorities: Option<PathBuf>,
    /// A PEM file of the client's certificate
    #[arg(long = "cert", value_name = "FILE", requires = "key")]
    certificate: Option<PathBuf>,
    /// A PEM file of its private key
    #[arg(long, value_name = "FILE", requires = "certificate")]
    key: Option<PathBuf>,
    /// The name that the server's certificate is for, if it is not the URL's
    #[arg(long, value_name = "NAME")]
    server_name: Option<String>,
    /// Take any certificate
    #[arg(long, conflicts_with = "authorities")]
    insecure: bool,
}

impl TlsArgs {
    fn are_given(&self) -> bool {
        self.options() != TlsOptions::default()
    }

    fn options(&self) -> TlsOptions {
        TlsOptions {
            authorities: self.authorities.clone(),
            certificate: self.certificate.clone().zip(self.key.clone()),
            server_name: self.server_name.clone(),
            insecure: self.insecure,
        }
    }
}

/// The target of a measurement.
#[derive(Debug, Clone)]
pub(crate) enum Subject {
    Live(Target),
    Simulated(Box<SimTarget>),
}

impl ProtocolArgs {
    /// The live server at `url`.
    pub(crate) fn target(&self, url: &str) -> Result<Target, TargetError> {
        let target = Target::parse_with_tls(url, self.protocol, &self.tls.options())?;
        match target.is_encrypted() || !self.tls.are_given() {
            true => Ok(target),
            false => Err(TargetError::NoTls { url: target.to_string() }),
        }
    }

    /// The live or simulated server at `url`.
    pub(crate) fn subject(&self, url: &str) -> anyhow::Result<Subject> {
        if SimTarget::is_meant(url) {
            return Ok(Subject::Simulated(Box::new(url.parse()?)));
        }
        Ok(Subject::Live(self.target(url)?))
    }
}
