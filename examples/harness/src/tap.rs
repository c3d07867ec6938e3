//! A server on a port of DPDK, and clients on sockets of the kernel. This needs root.
//!
//! ```text
//!   client's socket ─► kernel, 10.78.0.2 ─► tap interface ─► net_tap, 10.78.0.1 ─► server process
//!   └─────────────────── all in a network namespace of the test's own ───────────────────┘
//! ```

use std::net::Ipv4Addr;
use std::process::{Command, Stdio};

use crate::wait_until;

/// Flags of a server whose port is a tap interface.
pub const TAP_FLAGS: [&str; 8] = [
    "--transport",
    "dpdk",
    "--eal",
    "--no-huge -m 256 --no-pci --no-shconf --no-telemetry --file-prefix=psp-tap \
     --vdev=net_tap0,iface=psptap0",
    "--ip",
    "10.78.0.1",
    "--mac",
    "auto",
];

/// The server's address on its port.
pub const TAP_SERVER: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 1);

/// The kernel's address on the interface. The network has two hosts.
const TAP_KERNEL: &str = "10.78.0.2/30";
const INTERFACE: &str = "psptap0";

/// This environment variable is set within the namespace.
const INSIDE: &str = "PSP_TEST_NAMESPACE";

/// Runs `body`, which is the whole test called `name`, in its own network namespace, whose loopback
/// interface is up: the test program starts itself again within the namespace. Skips the test where the
/// process may not create a network namespace or a tap interface.
///
/// # Panics
/// When the test fails within the namespace, no test has this name, or no test may be skipped
/// ([`psp_skip::REQUIRE_ALL`]).
pub fn in_own_network(name: &str, body: impl FnOnce()) {
    if std::env::var_os(INSIDE).is_some() {
        assert!(ip("link set lo up"));
        return body();
    }
    let unshare = || {
        let mut command = Command::new("unshare");
        command.arg("--net");
        command
    };
    let tap = "ip tuntap add dev psptap9 mode tap";
    if !succeeds(unshare().args(tap.split(' '))) {
        return psp_skip::skip("no right to make a network namespace and a tap interface, or no `ip`");
    }
    let output = unshare()
        .arg(std::env::current_exe().unwrap())
        .args([name, "--exact", "--nocapture"])
        .env(INSIDE, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Waits until the server creates the interface, gives the kernel its address on it, and sets it up.
///
/// # Panics
/// When the server does not create the interface in time.
pub fn raise_tap() {
    let address = format!("addr replace {TAP_KERNEL} dev {INTERFACE}");
    wait_until("the server creates its interface", || ip(&address));
    assert!(ip(&format!("link set {INTERFACE} up")));
}

/// Whether the `ip` command of iproute2 succeeds.
fn ip(words: &str) -> bool {
    succeeds(Command::new("ip").args(words.split(' ')))
}

fn succeeds(command: &mut Command) -> bool {
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}
