//! The targets of a sweep or a comparison, and servers to start for them.

use std::sync::atomic::AtomicBool;

use crate::cli::args::target::{ProtocolArgs, Subject};
use crate::cli::failure::Failure;
use anyhow::{Context, bail, ensure};
use clap::Args;
use psp_loadgen::clients::{PORT_PLACEHOLDER, Server, ServerError, free_port};
use psp_loadgen::wire::masked;

/// The default target of a command.
const URL_DEFAULT: &str = "redis://127.0.0.1:{port}";

#[derive(Debug, Args)]
pub(crate) struct ContestantArgs {
    /// Targets: [NAME=]URL as in `psp-loadgen run`, or the NAME of a --start. {port} in a URL is
    /// the port of the server that --start starts under this name
    #[arg(value_name = "TARGET")]
    targets: Vec<String>,
    /// Start a server with this command on a free port, which replaces {port}, and stop it at the
    /// end; may be repeated. Its target is redis://127.0.0.1:{port} unless TARGET says otherwise
    #[arg(long, value_name = "NAME=COMMAND", value_parser = name_and_command)]
    start: Vec<(String, String)>,
    #[command(flatten)]
    protocol: ProtocolArgs,
}

fn name_and_command(text: &str) -> Result<(String, String), String> {
    text.split_once('=')
        .filter(|(name, command)| !name.is_empty() && !command.trim().is_empty())
        .map(|(name, command)| (name.to_owned(), command.to_owned()))
        .ok_or_else(|| "expected NAME=COMMAND, such as redis='redis-server --port {port}'".to_owned())
}

/// One target. Its command, if any, has not been started yet.
#[derive(Debug)]
pub(crate) struct Contestant {
    pub(crate) name: String,
    pub(crate) command: Option<String>,
    pub(crate) subject: Subject,
    server: Option<Server>,
}

impl ContestantArgs {
    /// All targets in order: first the named ones, then commands that no target names. Ports are
    /// chosen, but nothing is started.
    pub(crate) fn contestants(&self) -> anyhow::Result<Vec<Contestant>> {
        let mut named: Vec<(String, String)> = Vec::new();
        for text in &self.targets {
            let (name, url) = match (text.split_once('='), text.find(':')) {
                (Some((name, url)), Some(scheme)) if name.len() < scheme => (name, url),
                (_, Some(_)) => (text.as_str(), text.as_str()),
                (_, None) => (text.as_str(), URL_DEFAULT),
            };
            let is_started = self.start.iter().any(|(started, _)| started == name);
            ensure!(
                is_started || !url.contains(PORT_PLACEHOLDER),
                "`{name}` is neither a URL nor the name of a --start"
            );
            let name = if name == url { masked(url) } else { name.to_owned() };
            named.push((name, url.to_owned()));
        }
        for (name, _) in &self.start {
            if !named.iter().any(|(other, _)| other == name) {
                named.push((name.clone(), URL_DEFAULT.to_owned()));
            }
        }
        for (index, (name, _)) in named.iter().enumerate() {
            if named[..index].iter().any(|(other, _)| other == name) {
                bail!("two targets are called `{name}`; give names as in NAME=URL");
            }
        }
        named
            .into_iter()
            .map(|(name, url)| {
                let command = self.start.iter().find(|(started, _)| *started == name);
                let port = free_port().context("no free port")?.to_string();
                let with_port = |text: &str| text.replace(PORT_PLACEHOLDER, &port);
                let subject = self.protocol.subject(&with_port(&url))?;
                ensure!(
                    command.is_none() || matches!(subject, Subject::Live(_)),
                    "`{name}` is simulated; no server is started for it"
                );
                Ok(Contestant {
                    subject,
                    command: command.map(|(_, command)| with_port(command)),
                    name,
                    server: None,
                })
            })
            .collect()
    }
}

/// Starts all servers with a command. They stop when the contestants are dropped.
pub(crate) fn start_all(contestants: &mut [Contestant], stop: &AtomicBool) -> Result<(), Failure> {
    for contestant in contestants {
        if let (Some(command), Subject::Live(target)) = (&contestant.command, &contestant.subject) {
            let mut server = Server::start(command).map_err(Failure::work)?;
            let ready = server.wait_until_ready(target, stop);
            ready.map_err(|error| match error {
                ServerError::Interrupted { .. } => Failure::interrupted("nothing was measured".to_owned()),
                error => Failure::work(anyhow::Error::from(error).context(contestant.name.clone())),
            })?;
            contestant.server = Some(server);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::args::target::{ProtocolArgs, Subject};
    use psp_loadgen::wire::Endpoint;

    fn contestants(targets: &[&str], start: &[&str]) -> anyhow::Result<Vec<Contestant>> {
        let args = ContestantArgs {
            targets: targets.iter().map(|&text| text.to_owned()).collect(),
            start: start.iter().map(|text| name_and_command(text).unwrap()).collect(),
            protocol: ProtocolArgs::default(),
        };
        args.contestants()
    }

    #[test]
    fn targets_and_commands_find_each_other() {
        let found = contestants(
            &["psp=psp://127.0.0.1:{port}", "redis://127.0.0.1:7/", "b"],
            &["a=serve {port}", "b=other -p {port} x=1", "psp=third {port}"],
        );
        let found = found.unwrap();
        let names: Vec<_> = found.iter().map(|found| found.name.as_str()).collect();
        assert_eq!(names, ["psp", "redis://127.0.0.1:7/", "b", "a"]);
        assert_eq!(found[1].command, None);
        let target = |index: usize| match &found[index].subject {
            Subject::Live(target) => target,
            Subject::Simulated(_) => panic!("not live"),
        };
        let Endpoint::Inet(addrs) = &target(2).endpoint else {
            panic!("not a port");
        };
        let port = addrs[0].port();
        assert_eq!(found[2].command, Some(format!("other -p {port} x=1")));
        assert!(target(0).to_string().starts_with("psp://127.0.0.1:"));
    }

    #[test]
    fn what_has_no_meaning_is_refused() {
        for (targets, reason) in [
            (&["one"][..], "`one` is neither a URL nor"),
            (&["a=redis://127.0.0.1:{port}"][..], "`a` is neither"),
            (&["x=redis://127.0.0.1", "x=redis://127.0.0.1"][..], "two targets are called `x`"),
            (&["gopher://127.0.0.1"][..], "a target is one of"),
            (&["sim:fifo?workers=1"][..], "no policy is called"),
        ] {
            let error = contestants(targets, &[]).unwrap_err().to_string();
            assert!(error.contains(reason), "{targets:?}: {error}");
        }
        let simulated = contestants(&["a=sim:darc?workers=4"], &["a=serve"]).unwrap_err();
        assert!(simulated.to_string().contains("`a` is simulated"));
        assert!(name_and_command("=x").is_err());
        assert!(name_and_command("redis-server").is_err());
    }
}
