//! What `main` prints of an error is one line that a person reads: `main` of the pages returns a `Box<dyn Error>`, of
//! which the standard library prints the `Debug`.

use std::error::Error;
use std::net::TcpListener;

use psp_server::protocols::{FrameError, Sink};
use psp_server::{
    Config, Handler, Peer, Policy, PreemptPolicy, Reply, Request, Server, ServerBuilder, Settings, Topology, TypeSpec,
    WorkerId,
};

use crate::common::{AnyHandler, Lines, handler};

type Builder = ServerBuilder<Lines, psp_server::OneType, AnyHandler>;

fn builder() -> Builder {
    Server::builder().tcp("127.0.0.1:0").framing(Lines).handler(handler(|_, _| {}))
}

/// The line of an error, without the word that the standard library prints before it.
#[track_caller]
fn printed(error: impl Into<Box<dyn Error>>) -> String {
    let line = format!("{:?}", error.into());
    assert_eq!(line.lines().count(), 1, "{line}");
    line
}

fn refused(change: impl FnOnce(Builder) -> Builder) -> String {
    printed(change(builder()).build().map(|_| ()).unwrap_err())
}

#[test]
fn errors_of_build() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let named = |name| Settings::default().types(vec![TypeSpec::new(name)]);
    for (line, begins) in [
        (
            refused(|it| it.policy(Policy::mq()).topology(Topology::Inline)),
            "policy mq preempts requests, and the net thread runs some itself; it needs topology dedicated",
        ),
        (
            refused(|it| it.policy(Policy::mq()).preempt(PreemptPolicy::None)),
            "policy mq preempts requests, and preempt = none; the policies that run requests to completion are ",
        ),
        (
            refused(|it| it.policy(Policy::darc_static(9)).workers(2)),
            "policy darc-static: reserved is 9, it must be ",
        ),
        (refused(|it| it.tcp(address)), &format!("cannot listen on tcp {address}: Address ")),
        (refused(|it| it.tcp("nowhere.invalid:1")), "cannot resolve \"nowhere.invalid:1\": "),
        (refused(|it| it.unix("/nowhere/socket")), "cannot listen on unix:/nowhere/socket: "),
        (refused(Builder::listen_fds), "cannot listen on sockets of a service manager: "),
        (refused(|it| it.types([])), "the classifier has no request types: "),
        (refused(|it| it.settings(named("b"))), "there is no request type b; the types are request"),
        (
            refused(|it| it.config(Config::default().queue_capacity(0))),
            "queue_capacity is 0, it must be between 1 and ",
        ),
        (
            refused(|it| it.workers(1..=2).topology(Topology::Distributed).policy(Policy::d_fcfs())),
            "a range of workers needs topology inline or dedicated: ",
        ),
        (
            refused(|it| {
                it.config(Config::default().workers(1..=2).arbiter("/a").preempt(PreemptPolicy::KernelThread))
            }),
            "arbiter is /a: ",
        ),
        (
            refused(|it| it.config(Config::default().admin("0").admin_token_file("/no/such"))),
            "cannot read the token of the admin port from /no/such: ",
        ),
        (
            printed(
                Server::builder()
                    .framing(Lines)
                    .handler(handler(|_, _| {}))
                    .build()
                    .map(|_| ())
                    .unwrap_err(),
            ),
            "no address to listen on: ",
        ),
    ] {
        assert!(line.starts_with(begins), "{line}");
    }
}

#[test]
fn errors_of_settings() {
    for (text, begins) in [
        ("policy = 'dark'", "line 1, column 10: no policy is called `dark`; there are "),
        ("[server]\nworkers = 0", "workers is 0, it must be between 1 and "),
        ("[server]\nqueue-capacity = 0", "queue_capacity is 0, it must be "),
        ("policy = { name = 'mq', quantum-us = 0 }", "policy mq: quantum-us is 0, it must be "),
    ] {
        let line = printed(Settings::from_toml(text).unwrap_err());
        assert!(line.starts_with(begins), "{line}");
    }
    let line = printed("dark".parse::<Policy>().unwrap_err());
    assert!(line.starts_with("no policy is called `dark`"), "{line}");
    let line = printed(FrameError::new("invalid length"));
    assert_eq!(line, "invalid length");
    let line = printed(Settings::from_file("/no/such").unwrap_err());
    assert!(line.starts_with("cannot read /no/such: No such file"), "{line}");
}

/// A handler whose workers cannot start.
struct Stateless(fn() -> Result<(), Box<dyn Error + Send + Sync>>);

impl Handler for Stateless {
    type Worker = ();
    type Connection = ();

    fn init_worker(&self, _worker: WorkerId) {
        unreachable!("the other function is called");
    }

    fn try_init_worker(&self, _worker: WorkerId) -> Result<(), Box<dyn Error + Send + Sync>> {
        (self.0)()
    }

    fn connect(&self, _peer: Peer) {}

    fn handle(&self, (): &mut (), _request: Request<'_, ()>, reply: &mut Reply<'_>) {
        reply.put(b"\n");
    }
}

#[test]
fn errors_of_run() {
    let run = |state: fn() -> Result<(), Box<dyn Error + Send + Sync>>| {
        let builder = Server::builder()
            .tcp("127.0.0.1:0")
            .framing(Lines)
            .workers(2)
            .topology(Topology::Dedicated);
        let server = builder.handler(Stateless(state)).build().unwrap();
        printed(server.run_until(&psp_server::Shutdown::new()).unwrap_err())
    };
    let failed = run(|| Err("no model:\n  it is 3 GB\n".into()));
    assert!(
        failed.ends_with(" cannot start: its state cannot be made: no model: it is 3 GB"),
        "{failed}"
    );
    let panicked = run(|| panic!("no\nmodel"));
    assert!(panicked.ends_with(" cannot start: panicked: no model"), "{panicked}");
}
