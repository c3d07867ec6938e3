//! Each wrong configuration ends with one line that names the setting, its value and its limit.

use psp_server::{
    BuildError, Config, Handler, Missing, OneType, Policy, PreemptPolicy, Reply, Request, RequestType, Server,
    ServerBuilder, SignalPreemptible, Topology, TypeSpec,
};

use crate::common::{Lines, without_state};

type Handle = fn(Request<'_, ()>, &mut Reply<'_>);
type Builder = ServerBuilder<Lines, OneType, Handle>;

fn reply(_: Request<'_, ()>, _: &mut Reply<'_>) {}

fn started() -> ServerBuilder<Missing, OneType, Missing> {
    Server::builder().tcp("127.0.0.1:0")
}

fn builder() -> Builder {
    started().framing(Lines).handler(reply as Handle)
}

fn refusal<K: psp_server::Classifier<()>>(builder: ServerBuilder<Lines, K, Handle>) -> String {
    let refused = builder.build().err();
    refused.expect("the server is refused").to_string()
}

/// The default settings, changed.
fn config(change: impl FnOnce(&mut Config)) -> Builder {
    let mut config = Config::default();
    change(&mut config);
    builder().config(config)
}

fn types(types: impl IntoIterator<Item = TypeSpec>) -> Builder {
    builder().types(types)
}

fn short() -> TypeSpec {
    TypeSpec::new("short")
}

#[test]
fn settings_out_of_range_are_named_with_value_and_limit() {
    let cases: Vec<(Builder, &str)> = vec![
        (builder().workers(0), "workers is 0, it must be between 1 and 1024"),
        (builder().workers(2000), "workers is 2000, it must be between 1 and 1024"),
        (
            config(|config| config.workers = Some(5_000_000_000.into())),
            "workers is 5000000000, it must be between 1 and 1024",
        ),
        (
            config(|config| config.queue_capacity = 0),
            "queue_capacity is 0, it must be between 1 and 1048576",
        ),
        (
            config(|config| config.queue_capacity = 1_000_000_000),
            "queue_capacity is 1000000000, it must be between 1 and 1048576",
        ),
        (
            config(|config| config.connections_max = 0),
            "connections_max is 0, it must be between 1 and 1073741823",
        ),
        (
            config(|config| config.connections_max = 1 << 30),
            "connections_max is 1073741824, it must be between 1 and 1073741823",
        ),
        (
            config(|config| config.reply_bytes_max = 0),
            "reply_bytes_max is 0, it must be between 1 and 9223372036854775807",
        ),
        (
            config(|config| config.datagram_bytes_max = 65_508),
            "datagram_bytes_max is 65508, it must be between 64 and 65507",
        ),
        (
            config(|config| config.background_nice = -1),
            "background_nice is -1, it must be between 0 and 19",
        ),
        (
            config(|config| config.net_slice_us = 7),
            "net_slice_us is 7, it must be 0 or between 100 and 100000",
        ),
        (
            config(|config| config.contexts_per_worker = Some(1)),
            "contexts_per_worker is 1, it must be between 2 and 65536",
        ),
        (
            config(|config| config.stack_bytes = 1),
            "stack_bytes is 1, it must be between 65536 and 1073741824",
        ),
        (
            config(|config| config.admin_token_file = Some("token".into())),
            "admin_token_file is token, it must be unset where no admin port is set",
        ),
        (
            config(|config| config.arbiter_priority = 8),
            "arbiter_priority is 8, it must be between 0 and 7",
        ),
        (
            config(|config| config.arbiter = Some("/a".into())).workers(2),
            "arbiter is /a: it needs a range of workers, which come and go with their cores, as in workers = 1..4",
        ),
        (
            config(|config| config.arbiter = Some("/a".into())).workers(1..=256),
            "arbiter is /a: it knows at most 255 workers of a server",
        ),
        (
            config(|config| {
                config.arbiter = Some("/a".into());
                config.preempt = PreemptPolicy::KernelThread;
            })
            .workers(1..=2),
            "arbiter is /a: it moves one thread to a core, and a worker with preempt = kernel-thread has several",
        ),
        (
            config(|config| {
                config.preempt = PreemptPolicy::KernelThread;
                config.contexts_per_worker = Some(65);
            }),
            "contexts_per_worker is 65, it must be between 2 and 64",
        ),
        (
            config(|config| {
                config.workers = Some(64.into());
                config.contexts_per_worker = Some(65_536);
                config.stack_bytes = 1 << 30;
            }),
            "stack_bytes is 1073741824: 64 workers with contexts_per_worker = 65536 reserve \
             4503599627370496 bytes, they may reserve at most 1099511627776",
        ),
        (
            config(|config| {
                config.workers = Some(2.into());
                config.queue_capacity = 1 << 20;
                config.datagram_bytes_max = 65_507;
            })
            .udp("127.0.0.1:0"),
            "datagram_bytes_max is 65507: the queues of all types hold 2097218 datagrams, which take \
             274767016270 bytes; they may take at most 17179869184",
        ),
    ];
    for (builder, expected) in cases {
        assert_eq!(refusal(builder), expected);
    }
}

#[test]
fn types_that_no_server_can_have_are_named() {
    let share = |share| types([short().share(share)]);
    let cases: Vec<(Builder, &str)> = vec![
        (share(7.0), "share of type short is 7, it must be between 0 and 1"),
        (types([short().weight(0)]), "weight of type short is 0, it must be at least 1"),
        (share(-1.0), "share of type short is -1, it must be between 0 and 1"),
        (share(f64::NAN), "share of type short is NaN, it must be between 0 and 1"),
        (
            types([short().share(0.75), TypeSpec::new("long").share(0.75)]),
            "share of all types together is 1.5, it must be at most 1",
        ),
        (types([short(), short()]), "two request types have the name short"),
        (types([short(), TypeSpec::new("")]), "request type 1 has no name"),
        (
            types([short().queue_capacity(0)]),
            "queue_capacity of type short is 0, it must be between 1 and 1048576",
        ),
        (
            types([short().queue_capacity(1_000_000_000)]),
            "queue_capacity of type short is 1000000000, it must be between 1 and 1048576",
        ),
        (
            types([]),
            "the classifier has no request types: call types(), or implement Classifier::types",
        ),
        (
            types([short().preempt(PreemptPolicy::Signal)]),
            "preempt is cooperative: type short asks for signal",
        ),
    ];
    for (builder, expected) in cases {
        assert_eq!(refusal(builder), expected);
    }
    let untyped = builder().classifier(|_: &[u8]| RequestType::new(0));
    assert!(refusal(untyped).starts_with("the classifier has no request types"));
}

#[test]
fn shares_may_be_rounded() {
    let thirds = ["a", "b", "c"].map(|name| TypeSpec::new(name).share(0.333_333_4));
    assert!(types(thirds).build().is_ok());
}

#[test]
fn refusals_say_what_failed() {
    let policy = builder().policy(Policy::mq()).topology(Topology::Inline);
    let error = policy.build().err().unwrap();
    assert!(matches!(error, BuildError::Policy(_)), "{error:?}");
    let message = error.to_string();
    assert!(message.starts_with("policy mq preempts requests, and the net thread"), "{message}");

    let nowhere = Server::builder().framing(Lines).handler(reply as Handle);
    assert!(matches!(nowhere.build(), Err(BuildError::NoAddress)));
}

struct Preemptible;

// SAFETY: it does nothing.
#[allow(unsafe_code)]
unsafe impl SignalPreemptible for Preemptible {}

impl Handler for Preemptible {
    without_state!();

    fn handle(&self, (): &mut (), _request: Request<'_, ()>, _reply: &mut Reply<'_>) {}
}

#[test]
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn signal_preemption_may_come_before_or_after_the_handler() {
    let signal = || started().framing(Lines).preempt(PreemptPolicy::Signal);
    let before = signal().signal_preemption().handler(Preemptible).build();
    assert!(before.is_ok());
    let after = signal().handler(Preemptible).signal_preemption().build();
    assert!(after.is_ok());
    let error = signal().handler(Preemptible).build().err().unwrap();
    let expected = "preempt is signal: it needs a handler that is SignalPreemptible, and \
                    signal_preemption() in the builder";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn a_setting_of_its_own_comes_before_those_of_the_config_in_either_order() {
    let config = || Config::default().workers(7).topology(Topology::Inline).preempt(PreemptPolicy::None);
    let of_its_own = |builder: Builder| {
        let builder = builder.workers(3).topology(Topology::Dedicated);
        builder.preempt(PreemptPolicy::Cooperative)
    };
    for builder in [of_its_own(builder()).config(config()), of_its_own(builder().config(config()))] {
        // The policy needs preemption and the topology `dedicated`.
        let server = builder.policy(Policy::mq()).build().unwrap();
        assert_eq!(server.handle().snapshot().workers.len(), 3);
    }
    let server = builder().config(config()).build().unwrap();
    assert_eq!(server.handle().snapshot().workers.len(), 7);
}
