//! Framings that panic, or that find frames which are not there: they cost the connection on which they show. Panics of
//! classifiers and at accepting.

use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};

use psp_server::protocols::{FrameError, Framing, Rejection, Sink, Step};
use psp_server::{Handler, Peer, Policy, Refusal, Reply, Request, RequestType, Server, Topology, TypeSpec};

use crate::common::{Client, Lines, OfLines, Spawned, UdpClient, lines, until, without_state};

/// Lines, with a fault for those that begin with these characters.
struct Faulty;

impl Framing for Faulty {
    type Cursor = usize;
    type Head = ();

    fn next_frame(&self, scanned: &mut usize, input: &[u8]) -> Result<Step, FrameError> {
        let frame = |len| Ok(Step::Frame { len, head: () });
        match input[0] {
            b'!' => panic!("the test asked for it"),
            b'>' => frame(input.len() + 1),
            b'0' => frame(0),
            _ => Lines.next_frame(scanned, input),
        }
    }

    fn discard_after(&self, frame: &[u8], (): &()) -> u64 {
        assert_ne!(frame[0], b'*', "the test asked for it");
        0
    }

    fn closes_after(&self, frame: &[u8], (): &()) -> bool {
        assert_ne!(frame[0], b'?', "the test asked for it");
        false
    }

    fn encode_rejection(&self, rejection: &Rejection<'_>, request: &[u8], out: &mut dyn Sink) {
        Lines.encode_rejection(rejection, request, out);
    }
}

#[test]
fn faults_of_a_framing_cost_the_connection_on_which_they_show() {
    for (policy, topology) in [
        (Policy::darc(), Topology::Inline),
        (Policy::c_fcfs(), Topology::Dedicated),
        #[cfg(target_os = "linux")]
        (Policy::d_fcfs(), Topology::Distributed),
    ] {
        let local = "127.0.0.1:0";
        let server = Server::builder()
            .framing(Faulty)
            .types([TypeSpec::new("line")])
            .handler(|request: Request<'_, ()>, reply: &mut Reply<'_>| reply.put(request.payload))
            .policy(policy)
            .topology(topology)
            .workers(2)
            .tcp(local)
            .udp(local)
            .spawned();
        let addresses = server.local_addrs().to_vec();
        let connect = || Client::new(TcpStream::connect(addresses[0]).unwrap());
        let mut other = connect();
        let datagrams = UdpClient::new(addresses[1]);
        for line in ["!\n", ">\n", "0\n", "*\n", "?\n"] {
            let mut client = connect();
            client.send(&format!("first\n{line}"));
            assert_eq!(client.line(), "first");
            let fault = "!malformed: the server cannot read this request ";
            assert_eq!(client.rest().trim_end_matches('\n'), fault, "{line}");
            // Nothing is read behind a datagram.
            if !"*?".contains(&line[..1]) {
                datagrams.send(line.trim_end());
            }
            assert_eq!(datagrams.ask("datagram"), "datagram");
            assert_eq!(other.ask("other"), "other");
        }
        until("faults are counted", || server.handle().snapshot().net.malformed >= 5);
        assert_eq!(server.stop().abandoned, 0);
    }
}

/// Lines whose classifier panics at `!`, on connections of which every second one is refused by a panic.
struct Refusing(AtomicUsize);

impl Handler for Refusing {
    without_state!();

    fn accept(&self, _peer: &Peer) -> Result<(), Refusal> {
        let is_even = self.0.fetch_add(1, Ordering::Relaxed).is_multiple_of(2);
        assert!(is_even, "the test asked for it");
        Ok(())
    }

    fn handle(&self, (): &mut (), request: Request<'_, ()>, reply: &mut Reply<'_>) {
        reply.put(request.payload);
    }
}

#[test]
fn panics_of_a_classifier_make_a_type_unknown_and_those_at_accepting_cost_one_connection() {
    for topology in [
        Topology::Inline,
        Topology::Dedicated,
        #[cfg(target_os = "linux")]
        Topology::Distributed,
    ] {
        let classify = |line: &[u8]| {
            assert_ne!(line[0], b'!', "the test asked for it");
            RequestType::new(0)
        };
        let server = lines()
            .classifier(classify)
            .types([TypeSpec::new("line")])
            .handler(Refusing(AtomicUsize::new(0)))
            .policy(Policy::d_fcfs())
            .topology(topology)
            .workers(2)
            .spawned();
        let address = server.local_addrs()[0];
        let connect = || Client::new(TcpStream::connect(address).unwrap());
        for _ in 0..4 {
            let mut client = connect();
            client.send("one\n!two\nthree\n");
            assert_eq!([client.line(), client.line(), client.line()], ["one", "!two", "three"], "{topology:?}");
            assert_eq!(connect().rest(), "", "{topology:?}");
        }
        assert_eq!(server.stop().abandoned, 0);
    }
}
