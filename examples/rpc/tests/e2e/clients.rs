//! A client in Python, with messages that Google's compiler generates from the shipped `.proto` files.
//!
//! Ignored by default, because it needs Python with protobuf and grpcio-tools. `.ci/run` installs them and
//! runs this suite. `PSP_TEST_PYTHON` names the Python program.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{Server, TWO_WORKERS};
use psp_harness::run_program;
use psp_protocols::rpc::{Request, Response, Status};

fn python() -> Command {
    Command::new(env::var_os("PSP_TEST_PYTHON").unwrap_or_else(|| "python3".into()))
}

fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Generates Python modules into `folder`.
fn generate(folder: &Path) {
    let folders: [PathBuf; 2] = [package().join("../../protocols/proto"), package().join("proto")];
    let mut compiler = python();
    compiler.args(["-m", "grpc_tools.protoc"]);
    for proto in &folders {
        compiler.arg("-I").arg(proto);
    }
    compiler.arg("--python_out").arg(folder);
    compiler.args(["psp_rpc.proto", "psp_rpc_methods.proto"]);
    run_program(&mut compiler, "");
}

/// Frames of psp's own codec, by the name of their message.
fn frames() -> Vec<(&'static str, Vec<u8>)> {
    let numbers = [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX];
    let mut frames = Vec::new();
    for number in numbers {
        for len in [0, 1, 127, 128, 5000] {
            let request = Request {
                id: number,
                method: "Größe".repeat(len % 3),
                deadline_us: number.rotate_left(7),
                payload: vec![0xa5; len].into(),
            };
            let mut frame = Vec::new();
            request.encode_frame(&mut frame);
            frames.push(("Request", frame));
        }
        for status in Status::ALL {
            let mut response = Response::failed(number, *status, "words".repeat(*status as usize));
            response.payload = vec![b'x'; *status as usize * 20].into();
            let mut frame = Vec::new();
            response.encode_frame(&mut frame);
            frames.push(("Response", frame));
        }
    }
    frames
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
#[ignore = "needs protobuf and grpcio-tools for Python; run by .ci/run"]
fn python_with_protobuf() {
    for flags in TWO_WORKERS {
        let server = Server::start(flags);
        generate(server.process.directory());
        let frames = frames();
        let lines = frames.iter().map(|(name, frame)| format!("{name} {}\n", hexadecimal(frame)));
        let mut client = python();
        client.arg(package().join("tests/clients/psp_rpc_check.py"));
        client.arg(server.process.port()).arg(server.process.directory());
        let output = run_program(&mut client, &lines.collect::<String>());
        let mut printed = output.lines();
        for (name, frame) in &frames {
            assert_eq!(printed.next(), Some(&hexadecimal(frame)[..]), "{name}");
        }
        assert_eq!(printed.collect::<Vec<_>>(), ["all checks passed"]);
    }
}
