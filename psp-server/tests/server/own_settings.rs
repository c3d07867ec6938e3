//! What a file does not name is as the program's own code says, when the server starts and whenever the file changes;
//! and files name policies of the program's own.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use psp_server::reload::differences;
use psp_server::{
    BuildError, Config, OneType, Policy, PreemptPolicy, Server, ServerBuilder, ServerHandle, Settings, SpawnedServer,
    Topology, Watch,
};
use tempfile::TempDir;
use toml::Table;

use crate::common::{AnyHandler, Lines, PATIENCE, handler};
use crate::configuration::{changed, server_table};

fn builder() -> ServerBuilder<Lines, OneType, AnyHandler> {
    Server::builder().tcp("127.0.0.1:0").framing(Lines).handler(handler(|_, _| {}))
}

/// A policy of the program's own.
fn own(name: &str) -> Policy {
    Policy::custom(name, |setup| Policy::c_fcfs().scheduler(setup))
}

/// A configuration without a default value, that a server on any machine can have.
fn own_config() -> Config {
    let config = Config::default().workers(1).contexts_per_worker(7).buffered_bytes_max(1 << 20);
    changed(&config).elastic_tail_factor(2.0)
}

/// The configuration of the builder's server after a file.
fn built(file: &str) -> Config {
    let settings = Settings::from_toml(file).unwrap();
    let server = builder().config(own_config()).settings(settings).build().unwrap();
    server.handle().config().clone()
}

#[test]
fn each_setting_that_a_file_does_not_name_is_the_builders() {
    let own = own_config();
    assert_eq!(built(""), own);
    let defaults = server_table(&Config::default());
    assert!(defaults.len() > 30, "{}", defaults.len());
    for (key, value) in defaults {
        let named = Table::from_iter([(key.clone(), value)]).into();
        let file = Table::from_iter([("server".to_owned(), named)]);
        let config = built(&toml::to_string(&file).unwrap());
        assert_eq!(differences(&own, &config), [&*key], "the file names the default");
    }
    for (key, value) in [("workers", 9), ("contexts-per-worker", 9), ("buffered-bytes-max", 1 << 21)] {
        let config = built(&format!("[server]\n{key} = {value}"));
        assert_eq!(differences(&own, &config), [key]);
    }
}

#[test]
fn values_that_were_set_one_by_one_are_the_builders_too() {
    let with_file = |file| {
        let builder = builder().workers(3).topology(Topology::Dedicated).preempt(PreemptPolicy::None);
        let server = builder
            .policy(Policy::darc())
            .settings(Settings::from_toml(file).unwrap())
            .build()
            .unwrap();
        let handle = server.handle();
        (handle.workers(), handle.topology(), handle.config().preempt, handle.policy())
    };
    let (dedicated, none, darc) = (Topology::Dedicated, PreemptPolicy::None, Policy::darc());
    let coop = PreemptPolicy::Cooperative;
    assert_eq!(with_file(""), (3, dedicated, none, darc.clone()));
    assert_eq!(with_file("server.workers = 2"), (2, dedicated, none, darc.clone()));
    assert_eq!(with_file("server.topology = 'inline'"), (3, Topology::Inline, none, darc.clone()));
    assert_eq!(with_file("server.preempt = 'cooperative'"), (3, dedicated, coop, darc));
    assert_eq!(with_file("policy = 'c-fcfs'"), (3, dedicated, none, Policy::c_fcfs()));
}

#[test]
fn largest_numbers_of_the_code_are_kept_beside_a_file() {
    let own = Config::default().drain_timeout_ms(u64::MAX).spin_us(1);
    let settings = Settings::from_toml("server.spin-us = 2").unwrap();
    let server = builder().config(own.clone()).settings(settings).build().unwrap();
    assert_eq!(*server.handle().config(), own.spin_us(2));
}

#[test]
fn a_policy_of_a_file_may_need_the_builders_workers() {
    let settings = Settings::from_toml("policy = { name = 'darc-static', reserved = 3 }").unwrap();
    let server = builder().workers(4).settings(settings.clone()).build().unwrap();
    assert_eq!(server.handle().policy(), Policy::darc_static(3));
    let refused = builder().workers(2).settings(settings).build().err().expect("two workers are too few");
    assert!(refused.to_string().starts_with("policy darc-static: reserved is 3"), "{refused}");
}

/// A server whose file is watched.
struct Watched {
    _directory: TempDir,
    file: PathBuf,
    server: ServerHandle,
    _running: SpawnedServer,
    _watch: Watch,
}

impl Watched {
    fn start(builder: ServerBuilder<Lines, OneType, AnyHandler>, settings: Settings, text: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("server.toml");
        fs::write(&file, text).unwrap();
        let running = builder.settings(settings.with_file(&file).unwrap()).build().unwrap().spawn().unwrap();
        let server = running.handle().clone();
        let watch = Settings::default().watch(&file, server.clone()).unwrap();
        Self {
            _directory: directory,
            file,
            server,
            _running: running,
            _watch: watch,
        }
    }

    /// Waits until a file of this text has changed the idle timeout, and with it all that can change.
    fn change(&self, text: &str, idle_timeout_s: u64) {
        let file = self.file.with_extension("new");
        fs::write(&file, format!("{text}\n[server]\nidle-timeout-s = {idle_timeout_s}")).unwrap();
        fs::rename(&file, &self.file).unwrap();
        let deadline = Instant::now() + PATIENCE;
        while self.server.idle_timeout_s() != idle_timeout_s {
            assert!(Instant::now() < deadline, "the change is seen");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn a_reload_keeps_what_the_file_does_not_name() {
    let own = Config::default().connections_max(77).output_bytes_max(88).idle_timeout_s(99);
    let builder = builder().config(own).policy(Policy::darc());
    let watched = Watched::start(builder, Settings::default(), "");
    let server = &watched.server;
    let in_force = || (server.policy(), server.connections_max(), server.output_bytes_max());
    assert_eq!((in_force(), server.idle_timeout_s()), ((Policy::darc(), 77, 88), 99));
    watched.change("policy = 'sjf'", 1);
    assert_eq!(in_force(), (Policy::sjf(), 77, 88));
    watched.change("", 2);
    assert_eq!(in_force(), (Policy::darc(), 77, 88), "the builder's again");
}

#[test]
fn a_reload_keeps_the_programs_settings_and_the_builders_policy() {
    let own = Config::default().connections_max(77).output_bytes_max(88);
    let programs = Settings::default().server(Config::default().connections_max(66)).policy(Policy::sjf());
    let watched = Watched::start(builder().config(own).policy(Policy::darc_static(3)).workers(4), programs, "");
    let server = &watched.server;
    let in_force = || (server.policy(), server.connections_max(), server.output_bytes_max());
    assert_eq!(in_force(), (Policy::sjf(), 66, 88));
    watched.change("policy = 'darc'", 1);
    assert_eq!(in_force(), (Policy::darc(), 66, 88));
    watched.change("", 2);
    assert_eq!(in_force(), (Policy::sjf(), 66, 88), "the program's again");
}

#[test]
fn ones_own_policies_are_kept_and_named_in_files() {
    let (one, other) = (own("one"), own("other"));
    let settings = Settings::default().policies([other.clone()]);
    let builder = builder().policy(one.clone());
    let watched = Watched::start(builder, settings, "policy = 'other'");
    assert_eq!(watched.server.policy(), other);
    watched.change("", 1);
    assert_eq!(watched.server.policy(), one);
    watched.change("policy = { name = \"other\" }", 2);
    assert_eq!(watched.server.policy(), other);
    watched.change("policy = 'one' # the builder's", 3);
    assert_eq!(watched.server.policy(), one);
    assert_eq!(watched.server.parse_policy(" other\n"), Ok(other));
    assert_eq!(watched.server.parse_policy("mq quantum-us=3"), Ok(Policy::mq().quantum_us(3)));
}

#[test]
fn wrong_names_of_ones_own_policies_are_refused() {
    let refusal = |text| {
        let settings = Settings::default().policies([own("mine")]);
        settings.with_toml(text).unwrap_err().to_string()
    };
    for (text, expected) in [
        ("policy = 'mini'", "line 1, column 10: no policy is called `mini`"),
        ("[policy]\nname = 'mine'\nfoo = 3", "line 3, column 1: unknown field `foo`"),
        ("policy = 'mine'\n[server]\nworkres = 3", "line 3, column 1: unknown field `workres`"),
    ] {
        let error = refusal(text);
        assert!(error.starts_with(expected), "{error}");
    }
    let build = |policies: [Policy; 2]| match builder().policies(policies).build() {
        Err(error @ BuildError::Policy(_)) => error.to_string(),
        other => panic!("{:?}", other.err()),
    };
    let twice = build([own("mine"), own("mine")]);
    assert_eq!(twice, "two custom policies are called `mine`");
    let of_the_crate = build([own("mine"), Policy::darc()]);
    assert_eq!(of_the_crate, "a custom policy cannot be called `darc`");
    let shadows = build([own("mine"), own("darc")]);
    assert_eq!(shadows, "a custom policy cannot be called `darc`");
}
