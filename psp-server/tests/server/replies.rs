//! Replies that fail, and replies in pieces.

use std::io::Read as _;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use psp_server::protocols::Sink;
use psp_server::{Config, Handler, Reply, Request, RequestType, Server, SpawnedServer, Topology, TypeSpec};

use crate::common::{Lines, OfLines, PATIENCE, classifier, handler, until};

const CHUNK: [u8; 10_000] = [b'x'; 10_000];
const LIMIT_BYTES: usize = 100_000;

fn start(topology: Topology, handler: impl Handler) -> SpawnedServer {
    let config = Config::default().reply_bytes_max(LIMIT_BYTES);
    let builder = Server::builder().tcp("127.0.0.1:0").udp("127.0.0.1:0");
    let builder = builder.framing(Lines).handler(handler).config(config);
    let server = builder.topology(topology).workers(2).build().unwrap();
    server.spawn().unwrap()
}

fn failures(server: &SpawnedServer) -> u64 {
    let workers = server.handle().snapshot().workers;
    workers.iter().map(|worker| worker.failures).sum()
}

const TOPOLOGIES: [Topology; 2] = [Topology::Inline, Topology::Dedicated];

#[test]
fn an_error_discards_the_reply_and_has_its_text_sent() {
    for topology in TOPOLOGIES {
        let server = start(topology, |request: Request<'_, ()>, reply: &mut Reply<'_>| -> Result<(), String> {
            reply.put(b"half a reply");
            match request.payload {
                b"no\n" => Err("no disk".to_owned()),
                _ => {
                    reply.put(b"\n");
                    Ok(())
                }
            }
        });
        let mut client = server.connect();
        client.send("yes\nno\nyes\n");
        let replies = [(); 3].map(|()| client.line());
        let expected = ["half a reply", "!no disk no", "half a reply"];
        assert_eq!(replies, expected, "{topology}");
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.send_to(b"no\n", server.local_addrs()[1]).unwrap();
        let mut datagram = [0; 64];
        let len = socket.recv(&mut datagram).unwrap();
        assert_eq!(&datagram[..len], b"!no disk no\n");
        assert_eq!(failures(&server), 2);
    }
}

#[test]
fn a_request_has_its_server() {
    let server = start(
        Topology::Dedicated,
        handler(|request, reply| {
            let server = request.server();
            let (policy, workers) = (server.policy(), server.workers());
            reply.put(format!("{policy} {workers}\n").as_bytes());
        }),
    );
    assert_eq!(server.connect().ask("?"), "c-fcfs 2");
}

/// What the handler below waits for.
#[derive(Default)]
struct Gate {
    is_open: AtomicBool,
}

impl Gate {
    fn wait(&self) {
        until("the gate is open", || self.is_open.load(Ordering::SeqCst));
    }
}

#[test]
fn pieces_leave_before_the_handler_ends() {
    for topology in TOPOLOGIES {
        let gate = Arc::new(Gate::default());
        let at = gate.clone();
        let server = start(
            topology,
            move |request: Request<'_, ()>, reply: &mut Reply<'_>| -> Result<(), &'static str> {
                reply.put(b"first\n");
                assert!(reply.flush());
                at.wait();
                match request.payload {
                    b"fail\n" => Err("too late"),
                    b"panic\n" => panic!("the test asked for it"),
                    _ => {
                        reply.put(b"second\n");
                        Ok(())
                    }
                }
            },
        );
        for (request, rest) in [("go", "second\nfirst\n"), ("fail", ""), ("panic", "")] {
            gate.is_open.store(false, Ordering::SeqCst);
            let mut client = server.connect();
            // The reply to `fail` is incomplete, so nothing may follow it.
            client.send(&format!("{request}\nfail\n"));
            assert_eq!(client.line(), "first", "{topology} {request}");
            gate.is_open.store(true, Ordering::SeqCst);
            assert_eq!(client.rest(), rest, "{topology} {request}");
        }
        assert_eq!(failures(&server), 2, "{topology}");
    }
}

#[test]
fn datagrams_are_sent_whole() {
    let server = start(
        Topology::Dedicated,
        handler(|_, reply| {
            reply.put(b"one ");
            assert!(reply.flush());
            reply.put(b"two");
        }),
    );
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut datagram = [0; 64];
    socket.send_to(b"two pieces, please\n", server.local_addrs()[1]).unwrap();
    let len = socket.recv(&mut datagram).unwrap();
    assert_eq!(&datagram[..len], b"one two");
}

/// How many bytes the handlers below send at most.
const STREAM_BYTES: usize = 64 << 20;

#[test]
fn a_stream_may_be_longer_than_the_limit_of_what_waits() {
    const PIECES: usize = 100;
    for topology in TOPOLOGIES {
        let server = start(
            topology,
            handler(|_, reply| {
                for _ in 0..PIECES {
                    reply.put(&CHUNK);
                    while reply.flush() && reply.queued_bytes() > LIMIT_BYTES / 2 {
                        psp_server::sleep(std::time::Duration::from_micros(100));
                    }
                }
                reply.close();
            }),
        );
        let mut client = server.connect();
        client.send("all\n");
        let mut bytes = Vec::new();
        client.stream.read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes.len(), PIECES * CHUNK.len(), "{topology}");
    }
}

#[test]
fn a_peer_that_takes_nothing_ends_the_reply_at_the_limit() {
    for topology in TOPOLOGIES {
        let written = Arc::new(AtomicUsize::new(0));
        let count = written.clone();
        let server = start(
            topology,
            handler(move |_, reply| {
                while !reply.is_too_large() && reply.len() < STREAM_BYTES {
                    reply.put(&CHUNK);
                    assert!(reply.flush(), "the peer is there");
                }
                count.store(reply.len(), Ordering::SeqCst);
            }),
        );
        let mut client = server.connect();
        client.send("all\n");
        until("the reply ends", || written.load(Ordering::SeqCst) > 0);
        assert!(written.load(Ordering::SeqCst) < STREAM_BYTES, "{topology}");
        until("it is counted", || {
            let workers = server.handle().snapshot().workers;
            workers.iter().any(|worker| worker.replies_too_large == 1)
        });
        let taken = client.rest().len();
        assert!(taken < written.load(Ordering::SeqCst), "the connection is closed behind what was queued");
    }
}

#[test]
fn flush_says_that_the_peer_has_gone() {
    for topology in TOPOLOGIES {
        let gone = Arc::new(AtomicBool::new(false));
        let noticed = gone.clone();
        let server = start(
            topology,
            handler(move |_, reply| {
                let begun = Instant::now();
                while begun.elapsed() < PATIENCE {
                    reply.put(b"still here?\n");
                    if !reply.flush() {
                        noticed.store(true, Ordering::SeqCst);
                        return;
                    }
                    psp_server::sleep(std::time::Duration::from_micros(100));
                }
            }),
        );
        let mut client = server.connect();
        client.send("all\n");
        assert_eq!(client.line(), "still here?");
        drop(client);
        until("the handler knows", || gone.load(Ordering::SeqCst));
        until("the connection is closed", || server.handle().snapshot().net.connections_open == 0);
    }
}

#[test]
fn a_handler_puts_a_request_back_under_another_type() {
    let types = ["short", "long"].map(TypeSpec::new);
    let [short, long] = [0, 1].map(RequestType::new);
    for topology in TOPOLOGIES {
        let serve = move |request: Request<'_, ()>, reply: &mut Reply<'_>| {
            reply.put(if request.request_type == long {
                b"long\n"
            } else {
                b"short\n"
            });
            // For datagrams it handles the request after all.
            if request.payload.starts_with(b"long") && request.request_type == short {
                reply.reclassify(long);
            }
        };
        let builder = Server::builder().tcp("127.0.0.1:0").udp("127.0.0.1:0");
        let builder = builder.framing(Lines).types(types.clone());
        let builder = builder.classifier(classifier(move |_| short)).handler(handler(serve));
        let server = builder.topology(topology).workers(2).build().unwrap();
        let server = server.spawn().unwrap();
        let mut client = server.connect();
        client.send("a\nlong 1\nb\nlong 2\nlong 3\nc\n");
        let replies = [(); 6].map(|()| client.line());
        let expected = ["short", "long", "short", "long", "long", "short"];
        assert_eq!(replies, expected, "{topology}");
        let completions = |index: usize| server.handle().snapshot().types[index].completions;
        until("both types are counted", || [0, 1].map(completions) == [3, 3]);
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.send_to(b"long\n", server.local_addrs()[1]).unwrap();
        let mut datagram = [0; 64];
        let len = socket.recv(&mut datagram).unwrap();
        assert_eq!(&datagram[..len], b"short\n");
    }
}
