//! Changing a server while it runs, and preempting its requests.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use psp_protocols::psp_header::{Header, Kind};
use psp_server::{DrainReport, Policy, PreemptPolicy, ServerHandle, Shutdown, Topology};
use psp_synthetic::config::Config;
use psp_synthetic::handler::Mode;
use psp_synthetic::{admin, startup};

/// Longest wait. It is long enough for any machine, so that only failing tests reach it.
const PATIENCE: Duration = Duration::from_secs(30);

struct Running {
    address: SocketAddr,
    handle: ServerHandle,
    shutdown: Shutdown,
    thread: JoinHandle<DrainReport>,
}

impl Running {
    fn start(mode: Mode, policy: impl Into<Policy>, preempt: PreemptPolicy) -> Self {
        let server = startup::build(Config {
            port: 0,
            mode,
            policy: policy.into(),
            server: psp_server::Config::default()
                .workers(1)
                .topology(Topology::Dedicated)
                .preempt(preempt),
            ..Config::default()
        })
        .unwrap();
        let (address, handle) = (server.local_addrs()[0], server.handle());
        let shutdown = Shutdown::new();
        let until = shutdown.clone();
        let thread = std::thread::spawn(move || server.run_until(&until).unwrap());
        Self {
            address,
            handle,
            shutdown,
            thread,
        }
    }

    fn stop(self) {
        self.shutdown.trigger();
        assert_eq!(self.thread.join().unwrap().abandoned, 0);
    }
}

/// Sends a request of 300 ms, and short requests once it runs. Returns the types of the replies in order.
fn order_of_replies(server: &Running) -> Vec<u16> {
    const SHORTS: u64 = 5;
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    let long_and_shorts = std::iter::once((1, 300_000_000)).chain([(0, 1_000); SHORTS as usize]);
    for (number, (request_type, run_time_ns)) in long_and_shorts.enumerate() {
        let header = Header {
            kind: Kind::Request,
            request_type,
            id: number as u32,
            run_time_ns,
            payload_len: 0,
        };
        client.send_to(&header.encode(), server.address).unwrap();
        let deadline = Instant::now() + PATIENCE;
        while server.handle.snapshot().types[1].turns.turns == 0 {
            assert!(Instant::now() < deadline, "the long request does not begin");
            std::thread::yield_now();
        }
    }
    let mut reply = [0; 64];
    let replies = (0..=SHORTS).map(|_| {
        let len = client.recv(&mut reply).unwrap();
        Header::decode(&reply[..len]).unwrap().request_type
    });
    replies.collect()
}

#[test]
fn short_requests_pass_a_long_one_that_spins_or_sleeps() {
    let sq = || Policy::sq().quantum_us(1000);
    for (mode, preempt) in [
        (Mode::Spin, PreemptPolicy::Cooperative),
        (Mode::Sleep, PreemptPolicy::Cooperative),
        (Mode::Spin, PreemptPolicy::Signal),
        (Mode::Spin, PreemptPolicy::KernelThread),
    ] {
        let server = Running::start(mode, sq(), preempt);
        let order = order_of_replies(&server);
        assert_eq!(order.last(), Some(&1), "{mode:?} {preempt}: {order:?}");
        let turns = server.handle.snapshot().types[1].turns;
        assert!(
            turns.preemptions_honoured > 0,
            "{mode:?} {preempt}: {turns:?}"
        );
        server.stop();
    }
}

#[test]
fn the_admin_channel_changes_the_policy_and_shows_counters() {
    let server = Running::start(Mode::Spin, Policy::c_fcfs(), PreemptPolicy::Cooperative);
    let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
    let address = admin::listen(any_port, server.handle.clone()).unwrap();
    let client = TcpStream::connect(address).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut answers = BufReader::new(&client);
    let mut ask = |command: &str| {
        (&client)
            .write_all(format!("{command}\n").as_bytes())
            .unwrap();
        let mut answer = String::new();
        answers.read_line(&mut answer).unwrap();
        answer.trim_end().to_owned()
    };
    assert_eq!(ask("policy"), "c-fcfs");
    assert_eq!(ask("policy mq quantum-us=20"), "ok");
    assert!(ask("policy").contains("quantum-us=20"));
    assert!(ask("policy best").starts_with("error: no policy is called `best`"));
    assert_eq!(server.handle.policy(), Policy::mq().quantum_us(20));
    assert!(ask("stats").contains("preemptions_asked"));
    assert!(ask("dance").starts_with("error: commands are"));
    let flood = TcpStream::connect(address).unwrap();
    drop(client);
    (&flood).write_all(&[b'x'; 10_000]).unwrap();
    flood.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut end = Vec::new();
    // The connection is closed, or reset because of unread input.
    let _ = std::io::Read::read_to_end(&mut &flood, &mut end);
    assert!(end.is_empty());
    server.stop();
}
