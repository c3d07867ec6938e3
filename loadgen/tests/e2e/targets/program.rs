//! Calls of the program, and servers for them.

use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use psp_protocols::Framing;
use serde_json::Value;

use crate::scripted::serve::{Answer, serve};

/// Timeout of everything that a test waits for.
const PATIENCE: Duration = Duration::from_secs(30);

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
    psp_loadgen::clients::free_port().unwrap()
}

/// A real server that ends with the test.
pub(crate) struct RealServer(Child);

impl RealServer {
    /// Starts `program` and waits for `is_ready`.
    pub(crate) fn start(program: &str, args: &[&str], is_ready: impl Fn() -> bool) -> Self {
        let mut command = Command::new(program);
        command.args(args).stdout(Stdio::null());
        let server = Self(command.spawn().unwrap());
        let deadline = Instant::now() + PATIENCE;
        while !is_ready() {
            assert!(Instant::now() < deadline, "{program} does not answer");
            thread::sleep(Duration::from_millis(5));
        }
        server
    }
}

impl Drop for RealServer {
    fn drop(&mut self) {
        // The server may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
