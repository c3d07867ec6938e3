//! Generates the messages from the `.proto` files, with protox, a protobuf compiler in Rust.

const ENVELOPE: &str = "../../../protocols/proto";
const METHODS: &str = "../proto";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let files = ["psp_rpc.proto", "psp_rpc_methods.proto"];
    let folders = [ENVELOPE, METHODS];
    for folder in folders {
        println!("cargo:rerun-if-changed={folder}");
    }
    let descriptors = protox::compile(files, folders)?;
    prost_build::Config::new().compile_fds(descriptors)?;
    Ok(())
}
