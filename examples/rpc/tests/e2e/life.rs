//! The server as a program: how it ends, and how its configuration changes while it runs.

use crate::common::{Server, TWO_WORKERS};
use psp_harness::wait_until;
use psp_rpc_client::envelope::Status;
use psp_rpc_client::methods::Work;

#[test]
fn requests_in_flight_are_answered_before_the_server_ends() {
    for flags in TWO_WORKERS {
        let mut server = Server::start(flags);
        let mut clients = [server.connect(), server.datagrams()];
        for client in &mut clients {
            client.submit("Sleep", 0, &Work { duration_us: 300_000 }).unwrap();
        }
        wait_until("both requests run", || server.stats_of("work-long").turns >= 2);
        server.process.terminate();
        for client in &mut clients {
            assert_eq!(client.receive().unwrap().status(), Status::Ok);
        }
        assert!(server.process.wait_for_exit().success());
    }
}

#[test]
fn a_hangup_changes_the_policy_and_logs_which_settings_need_a_restart() {
    let server = Server::start_with(&["--topology", "dedicated"], "[policy]\nname = \"darc\"\n");
    assert!(server.stats().policy.starts_with("darc"));
    server.configure("message_len_max = 7\n[policy]\nname = \"c-fcfs\"\n");
    server.process.hang_up();
    wait_until("the policy changes", || server.stats().policy == "c-fcfs");
    wait_until("the log names the setting", || {
        let log = server.process.log().join("\n");
        log.contains("a restart is needed to change message-len-max")
    });
    server.configure("colour = 1\n");
    server.process.hang_up();
    wait_until("the file is refused", || {
        server.process.log().join("\n").contains("configuration not reloaded")
    });
    assert_eq!(server.stats().policy, "c-fcfs");
}
