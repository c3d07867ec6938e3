//! Statistics: the names and values that `stats` shows.

mod connections;
mod general;
mod items;
mod psp;
mod settings;

use std::fmt::Display;

use psp_server::ServerHandle;

use crate::state::ServerState;

/// The memcached version whose commands and replies this server follows.
pub const MEMCACHED_VERSION: &str = "1.6.18";

/// The reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Report {
    /// `stats`
    General,
    /// `stats items`: the lists of the LRU.
    Items,
    /// `stats slabs`: memory.
    Slabs,
    /// `stats settings`
    Settings,
    /// `stats sizes`: how many items have which size.
    Sizes,
    /// `stats conns`: connections, and the sockets that listen.
    Connections,
    /// `stats psp`: the scheduler's figures.
    Psp,
}

impl Report {
    /// The report that `stats <name>` requests.
    #[must_use]
    pub fn from_name(name: &[u8]) -> Option<Self> {
        Some(match name {
            b"" => Self::General,
            b"items" => Self::Items,
            b"slabs" => Self::Slabs,
            b"settings" => Self::Settings,
            b"sizes" => Self::Sizes,
            b"conns" => Self::Connections,
            b"psp" => Self::Psp,
            _ => return None,
        })
    }
}

/// Receives the names and values of a report.
pub type Put<'a> = dyn FnMut(&str, &str) + 'a;

/// Writes a whole report.
pub fn write(report: Report, server: &ServerState, runtime: Option<&ServerHandle>, put: &mut Put<'_>) {
    match report {
        Report::General => general::write(server, runtime, put),
        Report::Items => items::write(server, put),
        Report::Slabs => items::write_memory(server, put),
        Report::Settings => settings::write(server, runtime, put),
        Report::Sizes => items::write_sizes(&server.cache, put),
        Report::Connections => connections::write(server, put),
        Report::Psp => psp::write(runtime, put),
    }
}

/// Writes several figures.
fn put_all(put: &mut Put<'_>, prefix: &str, figures: &[(&str, &dyn Display)]) {
    for (name, value) in figures {
        put(&format!("{prefix}{name}"), &value.to_string());
    }
}

/// Writes figures of memcached that have no meaning here, with its values for "none".
fn put_none(put: &mut Put<'_>, prefix: &str, figures: &[(&str, &str)]) {
    for (name, value) in figures {
        put(&format!("{prefix}{name}"), value);
    }
}

#[cfg(test)]
mod tests {
    use psp_protocols::memcached::text::StoreMode;

    use super::*;
    use crate::config::Config;
    use crate::operations::{Operations, Store};

    fn figures(server: &ServerState, name: &[u8]) -> Vec<(String, String)> {
        let mut figures = Vec::new();
        let report = Report::from_name(name).expect("a report");
        write(report, server, None, &mut |name, value| {
            figures.push((name.to_owned(), value.to_owned()));
        });
        figures
    }

    fn figure(server: &ServerState, report: &[u8], name: &str) -> String {
        let figures = figures(server, report);
        let found = figures.iter().find(|(found, _)| found == name);
        found.unwrap_or_else(|| panic!("{name}")).1.clone()
    }

    #[test]
    fn reports_show_the_items() {
        let server = ServerState::new(Config::default());
        let counters = server.counters.add_worker();
        let operations = Operations {
            cache: &server.cache,
            counters: &counters,
            item_len_max: server.config.item_len_max,
        };
        for key in 0..100_u8 {
            let stored = operations.store(&Store::new(StoreMode::Set, &[key], &[0; 1000]));
            stored.expect("there is memory");
        }
        assert!(operations.get(&[1]).is_some());
        assert_eq!(figure(&server, b"", "curr_items"), "100");
        assert_eq!(figure(&server, b"", "cmd_set"), "100");
        assert_eq!(figure(&server, b"", "get_hits"), "1");
        assert_eq!(figure(&server, b"", "limit_maxbytes"), "67108864");
        assert_eq!(figure(&server, b"items", "items:1:number"), "100");
        assert_eq!(figure(&server, b"slabs", "1:used_chunks"), "100");
        assert_eq!(figure(&server, b"settings", "item_size_max"), "1048576");
        let sizes = figures(&server, b"sizes");
        let [(size, count)] = &sizes[..] else {
            panic!("one size: {sizes:?}");
        };
        assert_eq!(size.parse::<usize>().unwrap() % 32, 0);
        assert_eq!(count, "100");
        let bytes: u64 = figure(&server, b"", "bytes").parse().unwrap();
        assert!((100_000..130_000).contains(&bytes));
        assert!(
            figures(&server, b"psp").is_empty(),
            "the server does not run, so the report must be empty"
        );
        assert_eq!(Report::from_name(b"nosuch"), None);
    }
}
