//! The commands of one request type, as bytes.

use crate::schedule::{RequestPlan, RunPlan};
use crate::wire::{CommandSource, Expected, RequestWriter};

/// Random streams of a seed. Keys have streams of their own, so that the schedule does not depend
/// on the commands.
const KEY_STREAMS: u64 = 1 << 32;

/// Draws commands and writes them in the target's protocol.
#[derive(Debug)]
pub(crate) struct Commands {
    source: CommandSource,
    writer: RequestWriter,
}

impl Commands {
    /// The commands of the type at `index` in the plan. `None` if the type has none, or the
    /// target's protocol has not.
    pub(super) fn new(plan: &RunPlan, index: usize) -> Option<Self> {
        let RequestPlan::Command(template) = &plan.types[index].request else {
            return None;
        };
        let writer = RequestWriter::new(
            plan.target.protocol,
            plan.target.authority(),
            template,
            plan.timeout,
        );
        let (keyspace, stream) = (plan.keyspace.clone(), KEY_STREAMS + index as u64);
        Some(Self {
            writer: writer.ok()?.with_headers(&plan.headers),
            source: CommandSource::new(template.clone(), keyspace, plan.seed, stream),
        })
    }

    /// Appends the next command. `id` identifies it on its connection.
    pub(crate) fn write(&mut self, id: u64, out: &mut Vec<u8>) -> Expected {
        self.writer.write(self.source.draw(), id, out)
    }
}
