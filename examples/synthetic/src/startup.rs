//! Builds a server from a configuration.

use std::time::Duration;

use anyhow::Context as _;
use psp_classifiers::PspHeaderClassifier;
use psp_protocols::psp_header::PspFraming;
use psp_server::{Server, TypeSpec, TypeTable};
use psp_sim::workload::Workload;

use crate::config::Config;
use crate::handler::Synthetic;

/// A synthetic server.
pub type SyntheticServer = Server<PspFraming, PspHeaderClassifier, Synthetic>;

/// Builds the server and binds its address.
///
/// # Errors
/// When the workload is unknown, a setting is out of its range, or the address cannot be bound.
pub fn build(config: Config) -> anyhow::Result<SyntheticServer> {
    let types = type_table(&config)?;
    let builder = Server::builder();
    let builder = if config.tcp {
        builder.tcp((config.bind, config.port))
    } else {
        let transport = &config.transport;
        transport.listen(builder, &[config.bind], config.port)
    };
    let preempt = config.server.preempt;
    builder
        .framing(PspFraming::default())
        .classifier(PspHeaderClassifier::new(types))
        .policy(config.policy)
        .config(config.server)
        .handler(Synthetic { mode: config.mode, stretch: config.stretch, preempt })
        .signal_preemption()
        .build()
        .context("cannot start the server")
}

/// The workload's types, in the order of the numbers that clients give them.
fn type_table(config: &Config) -> anyhow::Result<TypeTable> {
    let workload = Workload::named_or_file(&config.workload)?.dilated(config.dilate)?;
    let specs = workload.types.into_iter().map(|ty| {
        let mut spec = TypeSpec::new(ty.name);
        spec.slo = ty.slo_ns.map(|ns| Duration::from_nanos(ns) * config.stretch);
        spec.weight = ty.weight;
        if config.hints {
            spec.service_time(Duration::from_nanos(ty.service_ns) * config.stretch).share(ty.share)
        } else {
            spec
        }
    });
    Ok(specs.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_may_come_from_a_file() {
        let mut file = tempfile::Builder::new().suffix(".toml").tempfile().unwrap();
        let types = "[[type]]\nname = \"a\"\nshare = 0.9\nservice_us = 1.0\n\
                     [[type]]\nname = \"b\"\nshare = 0.1\nservice_us = 500.0\n";
        std::io::Write::write_all(&mut file, types.as_bytes()).unwrap();
        let config = Config {
            workload: file.path().display().to_string(),
            hints: true,
            ..Config::default()
        };
        let table = type_table(&config).unwrap();
        let times = table.specs().iter().map(|spec| spec.service_time);
        let expected = [1, 500].map(|us| Some(Duration::from_micros(us)));
        assert_eq!(times.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn hints_are_given_only_when_asked_for() {
        let mut config = Config {
            workload: "tpcc".to_owned(),
            dilate: 2,
            stretch: 5,
            ..Config::default()
        };
        let plain = type_table(&config).unwrap();
        assert_eq!(plain.specs()[2], TypeSpec::new("NewOrder"));
        config.hints = true;
        let hinted = type_table(&config).unwrap();
        assert_eq!(hinted.len(), 5);
        let service_time = Some(Duration::from_micros(200));
        assert_eq!(hinted.specs()[2].service_time, service_time);
        assert_eq!(hinted.specs()[2].share, Some(0.44));
    }
}
