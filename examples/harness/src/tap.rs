//! A server on a port of DPDK, and clients on sockets of the kernel. It takes root.
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

/// The kernel's address on the interface: the other host of a net of two.
const TAP_KERNEL: &str = "10.78.0.2/30";
const INTERFACE: &str = "psptap0";

/// Set within the namespace.
const INSIDE: &str = "PSP_TEST_NAMESPACE";

/// Runs `body`, the whole of the test called `name`, in a network namespace of its own, in which the
/// loopback interface is up: the test program starts itself again within one. Says that it is skipped where
/// that, or making a tap interface, is not permitted.
///
/// # Panics
/// When the test fails in there, or there is none of that name.
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
        eprintln!("skipped: no right to make a network namespace and a tap interface, or no `ip`");
        return;
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

/// Gives the kernel its address on the interface as soon as the server has made it, and switches it on.
///
/// # Panics
/// When there is no interface in time.
pub fn raise_tap() {
    let address = format!("addr replace {TAP_KERNEL} dev {INTERFACE}");
    wait_until("the server makes its interface", || ip(&address));
    assert!(ip(&format!("link set {INTERFACE} up")));
}

/// Whether the command of iproute2 succeeds.
fn ip(words: &str) -> bool {
    succeeds(Command::new("ip").args(words.split(' ')))
}

fn succeeds(command: &mut Command) -> bool {
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}
