use psp_server::protocols::Sink;
use psp_server::protocols::psp_header::{HEADER_LEN, PspFraming};
use psp_server::{Policy, Reply, Request, RequestType, Server, TypeSpec};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    Server::builder()
        .udp("127.0.0.1:7000")
        .framing(PspFraming::default()) // where does a request end?
        .types([TypeSpec::new("short"), TypeSpec::new("long")])
        .classifier(|request: &[u8]| RequestType::new(request[3].into()))
        .policy(Policy::darc()) // or Policy::c_fcfs(), ...
        .handler(|request: Request<'_, ()>, reply: &mut Reply<'_>| {
            reply.put(&request.payload[..HEADER_LEN]);
        })
        .build()?
        .run()?; // until SIGTERM, then drains
    Ok(())
}
