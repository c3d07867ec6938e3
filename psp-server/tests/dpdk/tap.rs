//! A client on a kernel socket, behind a tap interface. The test needs root; without root it says `skipped`.
//!
//! The interface and its addresses are in a separate network namespace: the test starts itself again in one.

use std::io;
use std::net::UdpSocket;
use std::process::Command;

use psp_server::protocols::psp_header::{HEADER_LEN, Header, Kind};
use psp_server::{Config, Policy, Topology};

use crate::common::{PATIENCE, until};
use crate::rig::{SERVER, SHORT, TestServer, ask, port, turn};

/// The interface's name, and the kernel's address on it: the other host of a net of two.
const INTERFACE: &str = "psptap0";
const KERNEL: &str = "10.78.0.2/30";

fn ip(arguments: &[&str]) -> bool {
    let status = Command::new("ip").args(arguments).status();
    status.is_ok_and(|status| status.success())
}

/// Set within the namespace.
const INSIDE: &str = "PSP_TEST_NAMESPACE";

/// The name of the test that starts itself again.
const TEST: &str = "tap::a_client_of_the_kernel_is_answered";

/// Runs this test in a separate network namespace, if that is permitted.
fn in_a_namespace() {
    let unshare = || {
        let mut command = Command::new("unshare");
        command.arg("--net");
        command
    };
    if !unshare().arg("true").status().is_ok_and(|status| status.success()) {
        return psp_skip::skip("no right to make a network namespace, or no `unshare`");
    }
    let again = unshare()
        .arg(std::env::current_exe().unwrap())
        .args([TEST, "--exact", "--nocapture"])
        .env(INSIDE, "1")
        .status();
    assert!(again.unwrap().success());
}

/// DPDK makes the interface signal the process when frames come. That interrupts system calls of any thread.
fn receive(client: &UdpSocket, reply: &mut [u8]) -> io::Result<usize> {
    loop {
        match client.recv(reply) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            received => return received,
        }
    }
}

fn can_make_interfaces() -> bool {
    let tap = ["tuntap", "add", "dev", "psptap9", "mode", "tap"];
    let untap = ["tuntap", "del", "dev", "psptap9", "mode", "tap"];
    ip(&tap) && ip(&untap)
}

#[test]
fn a_client_of_the_kernel_is_answered() {
    let _turn = turn();
    if std::env::var_os(INSIDE).is_none() {
        return in_a_namespace();
    }
    if !can_make_interfaces() {
        return psp_skip::skip("no right to make a tap interface, or no `ip`");
    }
    let port = port(SERVER, format!("net_tap0,iface={INTERFACE}"));
    for topology in [Topology::Dedicated, Topology::Inline] {
        let config = Config::default().topology(topology).workers(2);
        let server = TestServer::start(port.clone(), Policy::darc(), config);
        assert!(ip(&["addr", "replace", KERNEL, "dev", INTERFACE]));
        assert!(ip(&["link", "set", INTERFACE, "up"]));
        // The kernel asks for the MAC address, computes checksums and verifies those of replies.
        let client = UdpSocket::bind("10.78.0.2:0").unwrap();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        client.connect(SERVER).unwrap();
        let longest = vec![ask::ECHO; 1456];
        for id in 0..200 {
            let body = &longest[..if id % 2 == 0 { 3 } else { longest.len() }];
            let request = Header {
                kind: Kind::Request,
                request_type: SHORT,
                id,
                payload_len: u32::try_from(body.len()).unwrap(),
                run_time_ns: 0,
            };
            client.send(&[&request.encode()[..], body].concat()).unwrap();
            let mut reply = [0; 2048];
            let len = receive(&client, &mut reply).unwrap();
            let header = Header::decode(&reply).unwrap();
            assert_eq!((header.kind, header.id), (Kind::Reply, id));
            assert_eq!(reply[HEADER_LEN..len], *body);
        }
        until("the end of all requests", || server.counts() == (200, 0, 200));
        assert!(server.handle.snapshot().net.packets.arp_answered > 0);
        server.stop();
    }
}
