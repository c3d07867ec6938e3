//! A load generator for a protocol of one's own: a [`Wire`], a plan and a report.
//!
//! The protocol: a request is a length in one byte and as many bytes, and so is a reply. A reply that
//! begins with `!` is an error.
//!
//! ```sh
//! cargo run --release -p psp-loadgen --example own_protocol -- blobs://127.0.0.1:7000
//! ```

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use psp_loadgen::clients;
use psp_loadgen::report::Report;
use psp_loadgen::schedule::{Mix, RequestPlan, RunPlan, TypePlan};
use psp_loadgen::wire::{CommandTemplate, ReadReplies, Target, TemplateError, Wire, WireRequest};
use psp_protocols::skip::{NotAReply, Outcome, ReplySkipper, Skipped};

/// The protocol.
#[derive(Debug)]
struct Blobs;

impl Wire for Blobs {
    fn scheme(&self) -> &'static str {
        "blobs"
    }

    fn check(&self, template: &CommandTemplate) -> Result<(), TemplateError> {
        match template.arguments() {
            1 => Ok(()),
            _ => Err(TemplateError::Shape { usage: "one word".to_owned() }),
        }
    }

    fn write(&self, request: &WireRequest<'_>, out: &mut Vec<u8>) {
        let word = request.arguments.iter().next().unwrap_or_default();
        let word = &word[..word.len().min(usize::from(u8::MAX))];
        out.push(word.len() as u8);
        out.extend_from_slice(word);
    }

    fn replies(&self) -> Box<dyn ReadReplies> {
        Box::<BlobReplies>::default()
    }
}

/// The position in the replies of one connection.
#[derive(Debug, Default)]
struct BlobReplies {
    /// Bytes of the reply that are still to come; `None` before its length.
    left: Option<u8>,
    /// The first byte of the reply.
    first: Option<u8>,
}

impl ReplySkipper for BlobReplies {
    fn skip(&mut self, input: &[u8]) -> Result<Skipped, NotAReply> {
        for (index, byte) in input.iter().enumerate() {
            let left = match self.left {
                None => *byte,
                Some(left) => {
                    self.first.get_or_insert(*byte);
                    left - 1
                }
            };
            self.left = Some(left);
            if left == 0 {
                let outcome = match self.first {
                    Some(b'!') => Outcome::Error,
                    _ => Outcome::Done,
                };
                *self = Self::default();
                let len = index + 1;
                return Ok(Skipped::Reply { len, outcome });
            }
        }
        Ok(Skipped::NeedMore)
    }

    fn error_text(&self) -> &str {
        "REFUSED"
    }
}

/// Measures the server at `url` with a mix of commands, such as `ping@100/s`.
pub(crate) fn measure(url: &str, mix: &str, duration: Duration) -> anyhow::Result<Report> {
    let target = Target::for_wire(url, &Blobs)?;
    let mix = Mix::parse(mix, target.protocol)?;
    let rates = mix.rates_rps(None)?;
    let types = mix
        .items
        .into_iter()
        .zip(rates)
        .map(|(item, rate_rps)| TypePlan::new(item.name, rate_rps, RequestPlan::Command(item.command)));
    let mut plan = RunPlan::new(target, types.collect());
    plan.warmup = Duration::ZERO;
    plan.duration = duration;
    let result = clients::run(&plan, &Arc::default(), &mut ())?;
    Ok(Report::new(&plan, &result))
}

#[cfg_attr(test, allow(dead_code))]
fn main() -> anyhow::Result<()> {
    let url = std::env::args().nth(1);
    let url = url.context("usage: own_protocol blobs://HOST:PORT")?;
    let report = measure(&url, "ping@1000/s,{key}@100/s", Duration::from_secs(5))?;
    print!("{report}");
    Ok(())
}
