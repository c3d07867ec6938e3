//! The server as a program: its end, and its configuration while it runs.

mod common;

use common::Server;
use psp_harness::wait_until;
use psp_rpc_client::envelope::Status;
use psp_rpc_client::methods::Work;

#[test]
fn what_is_in_flight_is_answered_before_the_end() {
    let mut server = Server::start(&["--topology", "dedicated", "--workers", "2"]);
    let mut clients = [server.connect(), server.datagrams()];
    for client in &mut clients {
        client
            .submit(
                "Sleep",
                0,
                &Work {
                    duration_us: 300_000,
                },
            )
            .unwrap();
    }
    wait_until("both run", || server.stats_of("work-long").turns == 2);
    server.process.terminate();
    for client in &mut clients {
        assert_eq!(client.receive().unwrap().status(), Status::Ok);
    }
    assert!(server.process.wait_for_exit().success());
}

#[test]
fn a_hangup_changes_the_policy_and_says_what_needs_a_restart() {
    let server = Server::start_with(&["--topology", "dedicated"], "[policy]\nname = \"darc\"\n");
    assert!(server.stats().policy.starts_with("darc"));
    server.configure("message_len_max = 7\n[policy]\nname = \"c-fcfs\"\n");
    server.process.hang_up();
    wait_until("the policy changes", || server.stats().policy == "c-fcfs");
    wait_until("it is logged", || {
        let log = server.process.log().join("\n");
        log.contains("a restart is needed to change message_len_max")
    });
    server.configure("colour = 1\n");
    server.process.hang_up();
    wait_until("the file is refused", || {
        server
            .process
            .log()
            .join("\n")
            .contains("configuration not reloaded")
    });
    assert_eq!(server.stats().policy, "c-fcfs");
}
