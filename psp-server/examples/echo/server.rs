use psp_server::protocols::{Lines, Sink};
use psp_server::{Reply, Request, Server};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let echo = |request: Request<'_, ()>, reply: &mut Reply<'_>| reply.put(request.payload);
    let server = Server::builder().tcp("127.0.0.1:7000").framing(Lines::default()).handler(echo).build()?;
    server.run()?; // until SIGTERM or SIGINT, then answers what it has received
    Ok(())
}
