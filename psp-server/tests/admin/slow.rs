//! Requests that were slow.

use std::time::Duration;

use psp_server::{Config, Policy, Topology};
use serde_json::Value;

use super::common::{start_typed, types, until};
use super::{admin, get};

#[test]
fn slow_requests_are_told_with_their_times_and_their_peer() {
    let [short, long] = types();
    let types = [short, long.slow(Duration::from_nanos(1))];
    let config = Config::default().workers(2).admin("0");
    let server = start_typed(Policy::darc(), Topology::Dedicated, config, types);
    let port = admin(&server);
    let slow = || -> Value { serde_json::from_str(&get(port, "/slow").1).unwrap() };
    let mut client = server.connect();
    assert_eq!(client.ask("one"), "ok one");
    assert_eq!(slow()["total"], 0, "no type but one has slow requests");
    assert_eq!(client.ask("spin 10"), "ok spin 10");
    until("the request is told", || slow()["total"] == 1);
    let told = slow()["requests"][0].clone();
    assert_eq!((&told["type"], &told["number"]), (&"long".into(), &0.into()));
    let peer = client.stream.local_addr().unwrap().to_string();
    assert_eq!(told["peer"], peer);
    let us = |name: &str| told[name].as_u64().unwrap();
    assert!(us("sojourn_us") >= us("service_us") && us("sojourn_us") >= us("wait_us"));
    assert!(us("worker") < 2 && us("ended_unix_ms") > 0);
    server.handle.set_slow_us(1);
    for _ in 0..200 {
        client.ask("spin 100");
    }
    until("the last ones are kept", || {
        let slow = slow();
        slow["total"] == 201 && slow["requests"].as_array().unwrap().len() == 128
    });
    let kept = server.handle.slow_requests();
    assert_eq!((kept[0].number, kept[0].type_name.as_str()), (200, "long"));
    server.handle.set_slow_us(0);
    client.ask("one");
    client.ask("spin 1");
    until("the type keeps its own threshold", || slow()["total"] == 202);
}
