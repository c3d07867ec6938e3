//! Responses that a server of psp's RPC defers: they come when they are complete, and clients know them by their ids.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use psp_harness::{DEADLINE, wait_until};
use psp_protocols::rpc::{ResponseRef, Rpc, RpcHead};
use psp_rpc_client::Client;
use psp_rpc_client::envelope::Status;
use psp_server::{DeferredReply, Policy, Reply, Request, Server, Topology};

/// Responses that are deferred, by the ids of their requests.
type Kept = Arc<Mutex<HashMap<u64, DeferredReply>>>;

/// The response to `Keep` is deferred. All others have the request's payload and come at once.
fn respond(kept: &Kept, request: &Request<'_, (), RpcHead>, reply: &mut Reply<'_>) {
    let envelope = request.head.request(request.payload).unwrap();
    let response = ResponseRef::ok(envelope.id, envelope.payload);
    if envelope.method != "Keep" {
        return response.encode_frame(reply);
    }
    let mut later = reply.defer();
    response.encode_frame(&mut later);
    kept.lock().unwrap().insert(envelope.id, later);
}

#[test]
fn responses_that_are_deferred_overtake_each_other() {
    for (policy, topology) in [
        (Policy::c_fcfs(), Topology::Auto),
        (Policy::d_fcfs(), Topology::Distributed),
        (Policy::darc_distributed(), Topology::Distributed),
    ] {
        overtake_each_other(policy, topology);
    }
}

fn overtake_each_other(policy: Policy, topology: Topology) {
    let kept = Kept::default();
    let keep = kept.clone();
    let server = Server::builder()
        .tcp("127.0.0.1:0")
        .udp("127.0.0.1:0")
        .framing(Rpc::default())
        .policy(policy)
        .topology(topology)
        .handler(move |request: Request<'_, (), RpcHead>, reply: &mut Reply<'_>| {
            respond(&keep, &request, reply);
        })
        .build();
    let server = server.unwrap().spawn().unwrap();
    let [tcp, udp] = *server.local_addrs() else { panic!("two addresses") };
    for mut client in [Client::connect(tcp).unwrap(), Client::datagrams(udp).unwrap()] {
        client.set_timeout(DEADLINE).unwrap();
        let mut submit = |method, payload: &str| client.submit(method, 0, payload.as_bytes().to_vec()).unwrap();
        let [first, dropped, last] = ["first", "dropped", "last"].map(|it| submit("Keep", it));
        wait_until("they are deferred", || kept.lock().unwrap().len() == 3);
        let echo = submit("Echo", "now");
        let complete = |id| kept.lock().unwrap().remove(&id).unwrap().finish();
        let mut expect = |id, status, payload: &str| {
            let response = client.receive().unwrap();
            let seen = (response.id, response.status(), &response.payload[..]);
            assert_eq!(seen, (id, status, payload.as_bytes()));
        };
        expect(echo, Status::Ok, "now");
        complete(last);
        expect(last, Status::Ok, "last");
        kept.lock().unwrap().remove(&dropped);
        expect(dropped, Status::Internal, "");
        complete(first);
        expect(first, Status::Ok, "first");
    }
    server.handle().shut_down();
    assert_eq!(server.join().unwrap().abandoned, 0);
}
