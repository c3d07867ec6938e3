//! The load generator's requests over UDP. All get replies, some in several datagrams.

use std::sync::Arc;
use std::time::Duration;

use crate::common::Server;
use psp_loadgen::clients;
use psp_loadgen::clients::{PreloadPlan, preload};
use psp_loadgen::record::TypeRecord;
use psp_loadgen::schedule::{RequestPlan, RunPlan, ThreadClass, TypePlan};
use psp_loadgen::wire::{CommandTemplate, Target};
use psp_sim::keys::{KeyDistribution, KeyFormat, Keyspace};
use psp_sim::workload::ArrivalProcess;

const KEYS: u64 = 300;
/// Requests per second of each type. A run takes one second.
const RATE: u64 = 200;

/// Runs each command against a server whose keys have values of up to six datagrams. Returns the
/// record of each command.
fn measured<const N: usize>(commands: [&str; N]) -> [TypeRecord; N] {
    let (server, datagrams) = Server::start_udp();
    let sizes = "1-8000".parse().unwrap();
    let (format, uniform) = (KeyFormat::default(), KeyDistribution::Uniform);
    let keyspace = Keyspace::with(KEYS, format, uniform, sizes).unwrap();
    let stream: Target = format!("memcached://{}", server.address()).parse().unwrap();
    let keys = PreloadPlan {
        target: stream,
        keyspace: Some(keyspace.clone()),
        collections: Vec::new(),
    };
    preload(&keys, &mut |_| ()).unwrap();

    let target: Target = format!("memcached+udp://{datagrams}").parse().unwrap();
    let types = commands.map(|text| {
        let command = CommandTemplate::for_protocol(text, target.protocol).unwrap();
        let request = RequestPlan::Command(command);
        let mut ty = TypePlan::new(text, RATE as f64, request);
        // A separate socket.
        if text.starts_with("MGET") {
            ty.thread = ThreadClass::Slow;
        }
        ty
    });
    let plan = RunPlan {
        arrivals: ArrivalProcess::Uniform,
        warmup: Duration::ZERO,
        duration: Duration::from_secs(1),
        timeout: Duration::from_secs(20),
        keyspace,
        ..RunPlan::new(target, types.into())
    };
    let result = clients::run(&plan, &Arc::default(), &mut ()).unwrap();
    server.assert_alive();
    result.records.try_into().expect("one record per type")
}

#[test]
fn every_request_is_answered() {
    let [get, set, incr] = measured(["GET", "SET {key} abc", "INCR none 1"]);
    for record in [&get, &set, &incr] {
        assert_eq!((record.scheduled, record.completed), (RATE, RATE));
    }
    assert_eq!((get.hits, get.misses), (RATE, 0));
    assert_eq!((incr.hits, incr.misses), (0, RATE));
}

/// memcached numbers the datagrams of each value separately; psp-memcached numbers those of the reply.
#[test]
fn psp_memcached_sends_a_multiget_as_one_reply() {
    let [mget] = measured(["MGET {key} none {key}"]);
    if Server::is_psp() {
        assert_eq!((mget.scheduled, mget.completed), (RATE, RATE));
        assert_eq!((mget.hits, mget.misses), (2 * RATE, RATE));
    } else {
        assert_eq!(mget.errors.iter().next(), Some(("SPLIT", RATE)));
    }
}
