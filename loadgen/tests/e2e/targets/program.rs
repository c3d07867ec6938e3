//! Calls of the program, and servers for them.

use std::net::{SocketAddr, TcpListener};
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;

use psp_loadgen::clients::{self, Server};
use psp_protocols::Framing;
use serde_json::Value;

use crate::scripted::serve::{Answer, serve};

/// Half a second of uniform arrivals.
const SHORT: &str = "--duration 0.5 --warmup 0 --arrivals uniform";

/// Calls the program.
pub(crate) fn call(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_psp-loadgen"));
    command.args(args).output().unwrap()
}

/// The output of a short run. `args` are options, separated by blanks, and `mix` is the value of
/// `--mix`.
pub(crate) fn printed(target: &str, mix: &str, args: &str) -> String {
    let start = ["run", "--target", target, "--mix", mix];
    let options = SHORT.split_whitespace().chain(args.split_whitespace());
    let output = call(&start.into_iter().chain(options).collect::<Vec<_>>());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{target} {mix}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// The same in JSON.
pub(crate) fn run(target: &str, mix: &str, args: &str) -> Value {
    let json = printed(target, mix, &format!("{args} --output json"));
    serde_json::from_str(&json).unwrap()
}

/// A count of the first type of a report.
pub(crate) fn count(report: &Value, field: &str) -> u64 {
    report["types"][0][field].as_u64().unwrap()
}

/// Checks that every arrival of every type has exactly one outcome.
pub(crate) fn assert_every_arrival_ends_once(report: &Value) {
    for ty in report["types"].as_array().unwrap() {
        let errors = ty["errors"].as_object().unwrap().values();
        let errors: u64 = errors.map(|count| count.as_u64().unwrap()).sum();
        let ends = ["completed", "dropped", "timeouts", "unfinished"];
        let ends = ends.iter().map(|end| ty[*end].as_u64().unwrap());
        assert_eq!(ty["scheduled"], ends.sum::<u64>() + errors, "{ty}");
    }
}

/// The type of that name in a report.
pub(crate) fn type_of<'a>(report: &'a Value, name: &str) -> &'a Value {
    let mut types = report["types"].as_array().unwrap().iter();
    types.find(|ty| ty["name"] == name).expect(name)
}

/// A TCP server. Each connection asks `script` for the reply to each frame.
pub(crate) fn server<F: Framing + Clone>(
    framing: F,
    script: impl Fn(&[u8]) -> Answer + Send + Sync + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let script = Arc::new(script);
    thread::spawn(move || {
        for socket in listener.incoming() {
            let (script, framing) = (Arc::clone(&script), framing.clone());
            // A client that disconnects is not a failure of the server.
            thread::spawn(move || {
                let socket = socket?;
                socket.set_nodelay(true)?;
                serve(socket, &framing, &*script)
            });
        }
    });
    addr
}

/// An unused port.
pub(crate) fn free_port() -> u16 {
    clients::free_port().unwrap()
}

/// Starts `command` and waits until the server answers at `target`. The server ends with the test.
pub(crate) fn real_server(command: &str, target: &str) -> Server {
    let mut server = Server::start(command).unwrap();
    let target = target.parse().unwrap();
    let ready = server.wait_until_ready(&target, &AtomicBool::new(false));
    ready.unwrap();
    server
}
