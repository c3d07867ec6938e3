//! Peers that write much before they read, read slowly, or never read.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use psp_server::{Config, Policy, Topology};

use crate::common::{Client, PATIENCE, TestServer, start_tcp, start_unix, until};

/// Servers of each topology, on TCP and on a Unix socket.
fn servers(config: &Config) -> impl Iterator<Item = TestServer> + use<> {
    let shapes = [
        (Topology::Inline, Policy::darc()),
        (Topology::Dedicated, Policy::darc()),
        (Topology::Distributed, Policy::d_fcfs()),
        (Topology::Distributed, Policy::darc_distributed()),
    ];
    let config = config.clone().workers(2);
    shapes.into_iter().flat_map(move |(topology, policy)| {
        [
            start_tcp(policy.clone(), topology, config.clone()),
            start_unix(policy, topology, config.clone()),
        ]
    })
}

/// A client whose writes fail where they would wait for ever.
fn connect(server: &TestServer) -> Client {
    let client = server.connect();
    client.stream.set_write_timeout(Some(PATIENCE)).unwrap();
    client
}

#[test]
fn who_writes_all_before_it_reads_gets_all_replies_in_order() {
    const REQUESTS: usize = 4000;
    let padding = "x".repeat(5000);
    for server in servers(&Config::default()) {
        let mut client = connect(&server);
        let requests: Vec<String> = (0..REQUESTS)
            .map(|number| match number % 100 {
                // It runs on another worker.
                7 => format!("spin 10.{number}\n"),
                9 => "big 100000\n".to_owned(),
                _ => format!("{number} {padding}\n"),
            })
            .collect();
        client.send(&requests.concat());
        for (number, request) in requests.iter().enumerate() {
            let line = client.line();
            match number % 100 {
                9 => assert_eq!(line.len(), 100_000 + "ok big 100000".len()),
                _ => assert_eq!(line, format!("ok {}", request.trim_end())),
            }
        }
        let net = server.handle.snapshot().net;
        assert_eq!((net.connections_over_budget, net.connections_over_output_limit), (0, 0));
        assert_eq!(client.ask("short"), "ok short");
    }
}

#[test]
fn who_never_reads_is_closed_at_the_limit_and_others_are_served() {
    const LIMIT: usize = 4 << 20;
    let line = format!("{}\n", "x".repeat(50_000)).repeat(20);
    for server in servers(&Config::default().output_bytes_max(LIMIT)) {
        let mut silent = connect(&server);
        let is_closed = AtomicBool::new(false);
        let (mut served, mut held) = (0, 0);
        thread::scope(|scope| {
            scope.spawn(|| {
                while silent.stream.write_all(line.as_bytes()).is_ok() {}
                is_closed.store(true, Ordering::Relaxed);
            });
            let mut other = connect(&server);
            while !is_closed.load(Ordering::Relaxed) {
                assert_eq!(other.ask("short"), "ok short");
                served += 1;
                held = held.max(server.handle.snapshot().net.buffered_bytes);
            }
        });
        assert_eq!(server.handle.snapshot().net.connections_over_output_limit, 1);
        assert!(served > 100, "{served}");
        // A run may go over it, and the input has a buffer.
        assert!(held > LIMIT as u64 / 2 && held < 2 * LIMIT as u64, "{held}");
        until("nothing is held", || {
            let net = server.handle.snapshot().net;
            net.connections_open == 0 && net.buffered_bytes == 0
        });
    }
}

/// It writes more than it reads all the time, and the server holds as much for it as it may.
#[test]
fn who_reads_slowly_is_not_closed() {
    const REQUESTS: usize = 300;
    let line = format!("{}\n", "x".repeat(50_000));
    for server in servers(&Config::default().output_bytes_max(1 << 20)) {
        let client = connect(&server);
        let mut writing = client.stream.try_clone().unwrap();
        let all = line.repeat(REQUESTS);
        let writer = thread::spawn(move || writing.write_all(all.as_bytes()).unwrap());
        let mut left = REQUESTS * (line.len() + "ok ".len());
        let (mut reading, mut room): (&TcpStream, _) = (&client.stream, [0; 128 * 1024]);
        while left > 0 {
            let count = reading.read(&mut room).unwrap();
            assert_ne!(count, 0, "closed with {left} bytes left");
            left -= count;
            thread::sleep(Duration::from_millis(5));
        }
        writer.join().unwrap();
        let net = server.handle.snapshot().net;
        assert_eq!(net.connections_over_output_limit, 0);
    }
}
