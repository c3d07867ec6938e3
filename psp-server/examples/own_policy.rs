//! A policy of one's own, on 127.0.0.1:7003: types take turns, a request each. `docs/your-policy.md` says more.

use std::error::Error;

use psp_server::policy::{Action, Event, Handover, Scheduler, SchedulerSetup, TypedQueues};
use psp_server::protocols::{Lines, Sink};
use psp_server::{Policy, Reply, Request, RequestType, Server, TypeSpec};

/// The type whose turn was last, and all that waits.
struct Turns {
    last: usize,
    queues: TypedQueues,
}

impl Scheduler for Turns {
    fn on_event(&mut self, now_ns: u64, event: Event<'_>) {
        self.queues.on_event(now_ns, event);
    }

    fn poll(&mut self, now_ns: u64) -> Option<Action> {
        if let Some(refused) = self.queues.next_refused() {
            return Some(refused);
        }
        let slots = self.queues.slots();
        let mut behind_last = (1..=slots).map(|step| (self.last + step) % slots);
        self.last = behind_last.find(|&slot| self.queues.can_run(slot))?;
        self.queues.run(now_ns, self.last)
    }

    fn handover(&mut self) -> Option<&mut dyn Handover> {
        Some(&mut self.queues)
    }
}

fn turns() -> Policy {
    Policy::custom("turns", |setup: &SchedulerSetup<'_>| {
        Box::new(Turns { last: 0, queues: TypedQueues::new(setup) })
    })
}

fn main() -> Result<(), Box<dyn Error>> {
    serve("127.0.0.1:7003")
}

pub(crate) fn serve(address: &str) -> Result<(), Box<dyn Error>> {
    let server = Server::builder()
        .tcp(address)
        .framing(Lines::default())
        .types([TypeSpec::new("lower"), TypeSpec::new("upper")])
        .classifier(|line: &[u8]| RequestType::new(line[0].is_ascii_uppercase().into()))
        .policy(turns())
        .handler(|request: Request<'_, ()>, reply: &mut Reply<'_>| {
            let policy = request.server().policy();
            reply.put(format!("{policy} ").as_bytes());
            reply.put(request.payload);
        })
        .build()?;
    server.run()?;
    Ok(())
}
