//! Requests that ask other servers: three of them, one of which is slow, dead, or not there.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{self, Receiver};

use psp_harness::{DEADLINE, free_port, wait_until};
use psp_protocols::rpc::{Request, ResponseRef};
use psp_rpc_client::envelope::{Response, Status};
use psp_rpc_client::methods::{Answer, Answers, Question, Work};
use psp_rpc_client::{Client, Payload, decode};

use crate::common::{Server, ask, end};

/// Three upstreams, and a server that asks them.
struct Rig {
    upstreams: Vec<Server>,
    front: Server,
}

/// Front servers with threads for all their workers, and with the net thread as one of them.
const TOPOLOGIES: [&str; 2] = ["dedicated", "inline"];

/// An upstream sees on its net thread whether its clients are there.
const UPSTREAM: [&str; 4] = ["--workers", "2", "--topology", "dedicated"];

impl Rig {
    fn start(flags: &[&str], config: &str) -> Self {
        let upstreams: Vec<Server> = (0..3).map(|_| Server::start(&UPSTREAM)).collect();
        let addresses = upstreams.iter().map(Server::address);
        let named: Vec<String> = addresses.flat_map(|at| ["--upstream".to_owned(), at]).collect();
        let named = named.iter().map(String::as_str);
        let flags: Vec<&str> = flags.iter().copied().chain(named).collect();
        Self { front: Server::start_with(&flags, config), upstreams }
    }

    fn with_topology(topology: &str) -> Self {
        let flags = ["--workers", "2", "--topology", topology];
        // Slow upstreams of these tests are asked for as long as a test may take.
        Self::start(
            &flags,
            // A client that leaves right behind its request has left.
            "[upstreams]\ntimeout-ms = 600000\nconnections-max = 64\n[server]\nhalf-close-grace-ms = 0\n",
        )
    }

    /// Waits until so many requests of the front server wait for upstreams.
    fn wait_until_blocked(&self, requests: u64) {
        wait_until("the requests wait for their upstreams", || {
            self.front.stats_of("gather").blocked == requests
        });
    }
}

fn question(method: &str, payload: impl Payload) -> Question {
    Question {
        method: method.to_owned(),
        payload: payload.into_bytes(),
        ..Question::default()
    }
}

fn echo() -> Question {
    question("Echo", b"hello".to_vec())
}

fn answers(response: &Response) -> Vec<Answer> {
    assert_eq!(end(response), (Status::Ok, ""));
    decode::<Answers>(response).expect("Answers").answers
}

/// The answers are the three echoes, in order.
fn assert_echoes(rig: &Rig, response: &Response) {
    let answers = answers(response);
    assert_eq!(answers.len(), 3);
    for (answer, upstream) in answers.iter().zip(&rig.upstreams) {
        let expected = Answer {
            upstream: upstream.address(),
            payload: b"hello".to_vec(),
            ..Answer::default()
        };
        assert_eq!(*answer, expected);
    }
}

#[test]
fn all_upstreams_are_asked_over_connections_that_are_kept() {
    for topology in TOPOLOGIES {
        let rig = Rig::with_topology(topology);
        for mut client in [rig.front.connect(), rig.front.datagrams()] {
            for _ in 0..20 {
                assert_echoes(&rig, &ask(&mut client, "Gather", &echo()));
            }
        }
        for upstream in &rig.upstreams {
            assert_eq!(upstream.stats_of("short").completions, 40, "{topology}");
        }
    }
}

#[test]
fn other_requests_have_the_workers_while_many_wait_for_a_slow_upstream() {
    const WAITING: usize = 30;
    for topology in TOPOLOGIES {
        let rig = Rig::with_topology(topology);
        rig.upstreams[1].process.pause();
        let mut slow: Vec<Client> = (0..WAITING).map(|_| rig.front.connect()).collect();
        for client in &mut slow {
            client.submit("Gather", 0, &echo()).unwrap();
        }
        rig.wait_until_blocked(WAITING as u64);
        let mut fast = rig.front.connect();
        for _ in 0..200 {
            assert_eq!(ask(&mut fast, "Echo", Vec::new()).status(), Status::Ok);
        }
        assert_eq!(rig.front.stats_of("gather").completions, 0, "{topology}");
        // They still wait. Now and then one looks whether its client is there.
        rig.wait_until_blocked(WAITING as u64);
        rig.upstreams[1].process.resume();
        for client in &mut slow {
            assert_echoes(&rig, &client.receive().unwrap());
        }
        let stats = rig.front.stats_of("gather");
        assert_eq!((stats.blocked, stats.completions), (0, WAITING as u64), "{topology}");
        assert!(stats.waits >= WAITING as u64 && stats.wait_ns_total > stats.service_ns_mean);
    }
}

#[test]
fn a_dead_upstream_fails_the_request_unless_it_asks_for_fewer_answers() {
    let mut rig = Rig::with_topology("dedicated");
    let mut client = rig.front.connect();
    assert_echoes(&rig, &ask(&mut client, "Gather", &echo()));
    let dead = rig.upstreams.remove(2);
    let address = dead.address();
    drop(dead);
    for _ in 0..5 {
        let failed = ask(&mut client, "Gather", &echo());
        let (status, error) = end(&failed);
        assert_eq!(status, Status::Unavailable, "{error}");
        let begins = format!("1 of 3 upstreams failed: {address}: UNAVAILABLE ");
        assert!(error.starts_with(&begins), "{error}");
        assert!(failed.payload.is_empty());
    }
    let two = Question { answers_min: 2, ..echo() };
    let found = answers(&ask(&mut client, "Gather", &two));
    let statuses: Vec<i32> = found.iter().map(|answer| answer.status).collect();
    assert_eq!(statuses, [0, 0, Status::Unavailable as i32]);
    assert!(!found[2].error.is_empty() && found[2].upstream == address);
}

#[test]
fn an_upstream_that_restarts_is_asked_again() {
    let mut rig = Rig::with_topology("dedicated");
    let mut client = rig.front.connect();
    assert_echoes(&rig, &ask(&mut client, "Gather", &echo()));
    let port = rig.upstreams[0].process.address().port();
    drop(rig.upstreams.remove(0));
    rig.upstreams.insert(0, Server::start_on(|| port, &UPSTREAM, ""));
    wait_until("the server has found that the connection is closed", || {
        ask(&mut client, "Gather", &echo()).status() == Status::Ok
    });
    assert_echoes(&rig, &ask(&mut client, "Gather", &echo()));
}

#[test]
fn a_slow_upstream_costs_no_more_than_the_time_that_the_request_gives_it() {
    let rig = Rig::with_topology("dedicated");
    rig.upstreams[0].process.pause();
    let mut client = rig.front.connect();
    // The other two are in time, also on a busy machine.
    let patient = Question { timeout_us: 3_000_000, answers_min: 2, ..echo() };
    let found = answers(&ask(&mut client, "Gather", &patient));
    let statuses: Vec<i32> = found.iter().map(|answer| answer.status).collect();
    assert_eq!(statuses, [Status::DeadlineExceeded as i32, 0, 0]);
    let strict = Question { timeout_us: 100_000, ..echo() };
    let failed = ask(&mut client, "Gather", &strict);
    assert_eq!(failed.status(), Status::DeadlineExceeded, "{}", failed.error);
    // The request's own deadline.
    client.submit("Gather", 100_000, &patient).unwrap();
    let late = client.receive().unwrap();
    assert_eq!(late.status(), Status::DeadlineExceeded, "{}", late.error);
    rig.upstreams[0].process.resume();
}

/// An upstream of the test's own: it answers every request with an empty payload, and sends the requests on.
fn recorder() -> (String, Receiver<Request>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let sender = sender.clone();
            std::thread::spawn(move || {
                let mut input = Vec::new();
                let mut bytes = [0; 1024];
                while let Ok(len @ 1..) = stream.read(&mut bytes) {
                    input.extend_from_slice(&bytes[..len]);
                    // One request is in flight.
                    let Ok(request) = Request::from_frame(&input) else {
                        continue;
                    };
                    input.clear();
                    let mut output = Vec::new();
                    ResponseRef::ok(request.id, b"").encode_frame(&mut output);
                    let _ = (sender.send(request), stream.write_all(&output));
                }
            });
        }
    });
    (address, receiver)
}

/// An upstream of the test's own that answers every connection's first bytes with `reply` and closes it.
fn answers_with(reply: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(reply);
        }
    });
    address
}

#[test]
fn an_upstream_that_breaks_the_protocol_fails_alone() {
    let good = Server::start(&UPSTREAM);
    // Nothing; half a response; a response to another request; no length; a longer one than may be; garbage.
    let broken: [(&[u8], Status); 6] = [
        (b"", Status::Unavailable),
        (b"\x05\x08\x01", Status::Unavailable),
        (b"\x02\x08\x63", Status::Internal),
        (b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", Status::Internal),
        (b"\xff\xff\xff\xff\x0f", Status::Internal),
        (b"\x03\x22\x7f\x00", Status::Internal),
    ];
    let mut flags = vec!["--upstream".to_owned(), good.address()];
    for (reply, _) in broken {
        flags.extend(["--upstream".to_owned(), answers_with(reply)]);
    }
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let front = Server::start_with(&flags, "[upstreams]\ntimeout-ms = 600000\n");
    let mut client = front.connect();
    let one = Question { answers_min: 1, ..echo() };
    for _ in 0..3 {
        let found = answers(&ask(&mut client, "Gather", &one));
        let statuses: Vec<i32> = found.iter().map(|answer| answer.status).collect();
        let expected = { broken.iter() }.map(|(_, status)| *status as i32);
        let expected: Vec<i32> = [0].into_iter().chain(expected).collect();
        assert_eq!(statuses, expected, "{found:?}");
        assert_eq!(found[0].payload, b"hello");
    }
}

#[test]
fn the_time_that_is_left_is_the_deadline_of_the_upstreams_requests() {
    const TIMEOUT_US: u64 = 600_000_000;
    const SHORTER_US: u64 = 60_000_000;
    let (address, requests) = recorder();
    let front = Server::start_with(&["--upstream", &address], "[upstreams]\ntimeout-ms = 600000\n");
    let mut client = front.connect();
    let limited = Question { timeout_us: SHORTER_US, ..echo() };
    for (question, deadline_us, longest_us) in [
        (echo(), 0, TIMEOUT_US),
        (echo(), SHORTER_US, SHORTER_US),
        (limited.clone(), 0, SHORTER_US),
        (limited, 2 * SHORTER_US, SHORTER_US),
        (echo(), u64::MAX, TIMEOUT_US),
    ] {
        client.submit("Gather", deadline_us, &question).unwrap();
        assert_eq!(answers(&client.receive().unwrap()).len(), 1);
        let request = requests.recv_timeout(DEADLINE).unwrap();
        assert_eq!((&request.method[..], &request.payload[..]), ("Echo", &b"hello"[..]));
        // Some time has passed, but not half of it.
        let left_us = request.deadline_us;
        assert!(left_us <= longest_us && left_us > longest_us / 2, "{left_us} of {longest_us}");
    }
}

#[test]
fn requests_of_clients_that_leave_end_and_so_do_those_that_they_made() {
    const WAITING: usize = 10;
    for topology in TOPOLOGIES {
        let rig = Rig::with_topology(topology);
        let sleep = question("Sleep", &Work { duration_us: 10_000_000 });
        let spin = question("Spin", &Work { duration_us: 10_000_000 });
        rig.upstreams[2].process.pause();
        let mut clients: Vec<Client> = (0..WAITING).map(|_| rig.front.connect()).collect();
        for client in &mut clients {
            client.submit("Gather", 0, &sleep).unwrap();
        }
        // It ends at the checkpoints of the upstreams.
        let mut spinning = rig.front.connect();
        spinning.submit("Gather", 0, &spin).unwrap();
        rig.wait_until_blocked(WAITING as u64 + 1);
        drop((clients, spinning));
        wait_until("the requests end", || rig.front.stats_of("gather").completions == WAITING as u64 + 1);
        wait_until("the first upstream spins no more", || {
            rig.upstreams[0].stats_of("work-long").completions > 0
        });
        let spun_ns = rig.upstreams[0].stats_of("work-long").service_ns_max;
        assert!(spun_ns < 10_000_000_000, "{topology}: {spun_ns}");
        rig.upstreams[2].process.resume();
    }
}

#[test]
fn calls_beyond_the_connections_wait_for_one() {
    const CALLS: usize = 12;
    let rig = Rig::start(&[], "[upstreams]\ntimeout-ms = 600000\nconnections-max = 2\n");
    let mut clients: Vec<Client> = (0..CALLS).map(|_| rig.front.connect()).collect();
    let sleep = question("Sleep", &Work { duration_us: 20_000 });
    for client in &mut clients {
        client.submit("Gather", 0, &sleep).unwrap();
    }
    for client in &mut clients {
        assert_eq!(answers(&client.receive().unwrap()).len(), 3);
    }
    for upstream in &rig.upstreams {
        assert_eq!(upstream.stats_of("work-long").completions, CALLS as u64);
    }
}

#[test]
fn questions_that_cannot_be_asked_get_their_status() {
    let alone = Server::start(&[]);
    let response = ask(&mut alone.connect(), "Gather", &echo());
    let (status, error) = end(&response);
    assert_eq!(status, Status::FailedPrecondition);
    assert!(error.contains("--upstream"), "{error}");
    let unused = format!("127.0.0.1:{}", free_port());
    let front = Server::start_with(&["--upstream", &unused], "[upstreams]\ntimeout-ms = 600000\n");
    let mut client = front.connect();
    let more = Question { answers_min: 2, ..echo() };
    let again = question("Gather", &echo());
    for (question, status) in [
        (&more, Status::OutOfRange),
        (&again, Status::InvalidArgument),
        (&echo(), Status::Unavailable),
    ] {
        assert_eq!(ask(&mut client, "Gather", question).status(), status);
    }
    let garbage = ask(&mut client, "Gather", b"\x0a\x05abc".to_vec());
    assert_eq!(garbage.status(), Status::InvalidArgument);
    assert_eq!(ask(&mut client, "Echo", Vec::new()).status(), Status::Ok);
}
