//! The commands of one request type, as bytes.

use std::sync::Arc;

use crate::schedule::RunPlan;
use crate::wire::{CommandSource, CommandTemplate, Expected, HttpHeader, RequestWriter};

/// Random streams of a seed. Keys have streams of their own, so that the schedule does not depend
/// on the commands.
const KEY_STREAMS: u64 = 1 << 32;

/// Draws commands and writes them in the target's protocol.
#[derive(Debug)]
pub(crate) struct Commands {
    source: CommandSource,
    commands: Vec<(CommandTemplate, RequestWriter)>,
}

impl Commands {
    /// The commands of the type at `index` in the plan. `None` if the type has none, or the
    /// target's protocol has not.
    pub(super) fn new(plan: &RunPlan, index: usize) -> Option<Self> {
        let target = &plan.target;
        let headers: Arc<[HttpHeader]> = plan.headers.clone().into();
        let with_writer = |template: &CommandTemplate| {
            let (protocol, authority) = (target.protocol, target.authority());
            let writer = RequestWriter::new(protocol, authority, template, plan.timeout).ok()?;
            Some((template.clone(), writer.with_headers(&headers)))
        };
        let commands = plan.types[index].request.commands().iter();
        let commands: Vec<_> = commands.map(with_writer).collect::<Option<_>>()?;
        let (keyspace, stream) = (plan.keyspace.clone(), KEY_STREAMS + index as u64);
        let source = CommandSource::new(keyspace, plan.seed, stream);
        (!commands.is_empty()).then_some(Self { source, commands })
    }

    /// Appends a request of the command of that number. `id` identifies it on its connection.
    pub(crate) fn write(&mut self, command: u32, id: u64, out: &mut Vec<u8>) -> Expected {
        let (template, writer) = &self.commands[command as usize];
        writer.write(self.source.draw(template), id, out)
    }
}
