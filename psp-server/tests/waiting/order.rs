//! Which of a connection's deferred replies may overtake which, under framings of psp-protocols.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};

use psp_server::protocols::psp_header::{HEADER_LEN, Header, Kind, PspFraming};
use psp_server::protocols::resp::Resp;
use psp_server::protocols::rpc::{Request as RpcRequest, Response, ResponseRef, Rpc, peek_id};
use psp_server::protocols::{Framing, Sink};
use psp_server::{DeferredReply, Policy, PreemptPolicy, Reply, Request, Server, SpawnedServer, Topology};

use crate::common::{OfLines, PATIENCE, until};
use crate::rig::config;

/// A reply on the wire: the number of its request, if it has that, and whether it is no error.
type Seen = (Option<u32>, bool);

/// Requests and replies that are a number each.
struct Numbers<F> {
    framing: F,
    /// The request with a number.
    request: fn(u32) -> Vec<u8>,
    /// The number of a request.
    number: fn(&[u8]) -> u32,
    reply: fn(u32, &mut dyn Sink),
    read: fn(&mut BufReader<TcpStream>) -> Seen,
}

fn rpc() -> Numbers<Rpc> {
    let number = |frame: &[u8]| u32::try_from(peek_id(frame).unwrap_or_default()).unwrap();
    Numbers {
        framing: Rpc::default(),
        request: |number| {
            let mut frame = Vec::new();
            let (id, method) = (number.into(), "Defer".to_owned());
            let request = RpcRequest { id, method, ..RpcRequest::default() };
            request.encode_frame(&mut frame);
            frame
        },
        number,
        reply: |number, out| ResponseRef::ok(number.into(), b"").encode_frame(out),
        read: |stream| {
            let mut frame = vec![0];
            stream.read_exact(&mut frame).unwrap();
            assert!(frame[0] < 0x80, "short replies have a length of one byte");
            frame.resize(1 + usize::from(frame[0]), 0);
            stream.read_exact(&mut frame[1..]).unwrap();
            let response = Response::from_frame(&frame).unwrap();
            (u32::try_from(response.id).ok(), response.status == 0)
        },
    }
}

fn psp() -> Numbers<PspFraming> {
    const fn header(kind: Kind, id: u32) -> Header {
        Header { kind, request_type: 0, id, payload_len: 0, run_time_ns: 0 }
    }
    Numbers {
        framing: PspFraming::default(),
        request: |number| header(Kind::Request, number).encode().to_vec(),
        number: |frame| Header::decode(frame).unwrap().id,
        reply: |number, out| out.put(&header(Kind::Reply, number).encode()),
        read: |stream| {
            let mut frame = [0; HEADER_LEN];
            stream.read_exact(&mut frame).unwrap();
            let header = Header::decode(&frame).unwrap();
            let mut text = vec![0; header.payload_len as usize];
            stream.read_exact(&mut text).unwrap();
            (Some(header.id), header.kind == Kind::Reply)
        },
    }
}

fn resp() -> Numbers<Resp> {
    Numbers {
        framing: Resp::default(),
        request: |number| format!("{number}\r\n").into(),
        number: |frame| std::str::from_utf8(frame).unwrap().trim().parse().unwrap(),
        reply: |number, out| out.put(format!(":{number}\r\n").as_bytes()),
        read: |stream| {
            let mut line = String::new();
            stream.read_line(&mut line).unwrap();
            let number = line.strip_prefix(':');
            let number = number.map(|number| number.trim().parse().unwrap());
            (number, number.is_some())
        },
    }
}

/// Replies that are deferred, with the numbers of their requests.
type Kept = Arc<Mutex<Vec<(u32, DeferredReply)>>>;

/// A server that answers number 0 at once, and defers all other replies.
fn start<F: Framing>(numbers: Numbers<F>, topology: Topology) -> (SpawnedServer, Kept) {
    let kept = Kept::default();
    let (keep, number, reply_with) = (kept.clone(), numbers.number, numbers.reply);
    let handler = move |request: Request<'_, (), F::Head>, reply: &mut Reply<'_>| {
        let number = number(request.payload);
        if number == 0 {
            return reply_with(0, reply);
        }
        let mut later = reply.defer();
        reply_with(number, &mut later);
        keep.lock().unwrap().push((number, later));
    };
    let server = Server::builder()
        .tcp("127.0.0.1:0")
        .framing(numbers.framing)
        .policy(Policy::c_fcfs())
        .config(config(topology, PreemptPolicy::None))
        .handler(handler)
        .build();
    (server.unwrap().spawn().unwrap(), kept)
}

fn connect(server: &SpawnedServer) -> BufReader<TcpStream> {
    let stream = TcpStream::connect(server.local_addrs()[0]).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    BufReader::new(stream)
}

/// The deferred reply to a number, once there are so many.
fn take(kept: &Kept, count: usize, number: u32) -> DeferredReply {
    let list = || kept.lock().unwrap();
    until("the replies are deferred", || list().len() == count);
    let mut list = list();
    let at = list.iter().position(|(kept, _)| *kept == number).unwrap();
    list.remove(at).1
}

fn stop(server: SpawnedServer) {
    assert_eq!(server.stop().abandoned, 0);
}

fn assert_that_they_overtake<F: Framing>(numbers: impl Fn() -> Numbers<F>) {
    for topology in [Topology::Inline, Topology::Dedicated] {
        let (server, kept) = start(numbers(), topology);
        let Numbers { request, read, .. } = numbers();
        let mut client = connect(&server);
        let requests: Vec<_> = [1, 2, 3, 4, 5, 0].into_iter().flat_map(request).collect();
        client.get_mut().write_all(&requests).unwrap();
        assert_eq!(read(&mut client), (Some(0), true), "{topology}");
        for (open, number) in [(5, 4), (4, 2), (3, 5)] {
            take(&kept, open, number).finish();
            assert_eq!(read(&mut client), (Some(number), true), "{topology}");
        }
        drop(take(&kept, 2, 3));
        assert_eq!(read(&mut client), (Some(3), false), "{topology}");
        client.get_mut().write_all(&request(0)).unwrap();
        assert_eq!(read(&mut client), (Some(0), true), "{topology}");
        take(&kept, 1, 1).finish();
        assert_eq!(read(&mut client), (Some(1), true), "{topology}");
        stop(server);
    }
}

#[test]
fn those_of_rpc_overtake_each_other() {
    assert_that_they_overtake(rpc);
}

#[test]
fn those_of_the_psp_header_overtake_each_other() {
    assert_that_they_overtake(psp);
}

#[test]
fn those_of_resp_overtake_only_those_of_other_connections() {
    for topology in [Topology::Inline, Topology::Dedicated] {
        let (server, kept) = start(resp(), topology);
        let Numbers { request, read, .. } = resp();
        let mut clients = [connect(&server), connect(&server)];
        for (client, numbers) in clients.iter_mut().zip([[1, 0, 3, 5], [2, 0, 4, 6]]) {
            let requests: Vec<_> = numbers.into_iter().flat_map(request).collect();
            client.get_mut().write_all(&requests).unwrap();
        }
        // One of each connection is deferred. The later connection's are complete first.
        for number in [2, 1, 4, 3] {
            let reply = take(&kept, 2, number);
            let parity = number % 2;
            let list = kept.lock().unwrap();
            let is_alone = list.iter().all(|(other, _)| other % 2 != parity);
            drop(list);
            assert!(is_alone, "{topology}: another of its connection is deferred");
            reply.finish();
            let client = &mut clients[1 - parity as usize];
            assert_eq!(read(client), (Some(number), true), "{topology}");
            if number < 3 {
                assert_eq!(read(client), (Some(0), true), "{topology}");
            }
        }
        drop(take(&kept, 2, 5));
        assert_eq!(read(&mut clients[0]), (None, false), "{topology}");
        take(&kept, 1, 6).finish();
        assert_eq!(read(&mut clients[1]), (Some(6), true), "{topology}");
        stop(server);
    }
}
