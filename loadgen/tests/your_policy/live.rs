use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use psp_policy::Policy;
use psp_server::protocols::{Lines, Sink};
use psp_server::{Reply, Request, RequestType, Server, TypeSpec};

use crate::longest_queue_first::longest_queue_first;

#[test]
fn a_server_runs_it_and_switches() -> Result<(), Box<dyn Error>> {
    let server = Server::builder()
        .tcp("127.0.0.1:0")
        .framing(Lines::default())
        .types([TypeSpec::new("lower"), TypeSpec::new("upper")])
        .classifier(|line: &[u8]| RequestType::new(line[0].is_ascii_uppercase().into()))
        .policy(longest_queue_first())
        .handler(|request: Request<'_, ()>, reply: &mut Reply<'_>| reply.put(request.payload))
        .build()?;
    let (address, handle) = (server.local_addrs()[0], server.handle());
    let serving = std::thread::spawn(move || server.run());
    let mut client = TcpStream::connect(address)?;
    for policy in [Policy::c_fcfs(), longest_queue_first()] {
        client.write_all(b"hello\nHELLO\n")?;
        let mut replies = BufReader::new(client.try_clone()?).lines();
        assert_eq!(replies.next().unwrap()?, "hello");
        assert_eq!(replies.next().unwrap()?, "HELLO");
        handle.set_policy(policy)?;
    }
    handle.shut_down();
    serving.join().unwrap()?;
    Ok(())
}
