//! Frames and classifies input into a run.

use psp_policy::RequestType;
use psp_protocols::{FrameError, Framing, Step};

use crate::classifier::Classifier;
use crate::runtime::dispatch::dispatcher::Dispatcher;
use crate::transport::run::{Frame, Run};

/// What the input of a connection holds.
pub(super) enum Parsed {
    /// A run, which begins with a request of this type.
    Run(RequestType),
    /// No whole request: the next one has at least `len_min` bytes.
    NeedMore { len_min: usize },
}

/// Fills `run` with as many requests at the start of `input` as may travel together.
pub(super) fn parse<F: Framing, K: Classifier<F::Head>>(
    framing: &F,
    cursor: &mut F::Cursor,
    input: &[u8],
    is_authenticated: bool,
    run: &mut Run<F::Head>,
    dispatcher: &Dispatcher<K>,
    now_ns: u64,
) -> Result<Parsed, FrameError> {
    run.clear();
    run.arrived_ns = now_ns;
    let mut offset = 0;
    let mut len_min = 1;
    while offset < input.len() && run.frames.len() < run.len_max {
        let rest = &input[offset..];
        let step = match is_authenticated {
            true => framing.next_frame(cursor, rest),
            false => framing.next_frame_unauthenticated(cursor, rest),
        };
        match step {
            Ok(Step::Frame { len, head }) => {
                let frame = &input[offset..offset + len];
                let reclassified = run.reclassified.take();
                let request_type = reclassified.unwrap_or_else(|| dispatcher.classify(frame, &head));
                let own = framing.deadline(&head);
                let deadline_ns = dispatcher.latest_turn_ns(now_ns, request_type, own);
                if let Some(first) = run.frames.first()
                    && (run.deadline_ns != deadline_ns || !dispatcher.same_run(first.request_type, request_type))
                {
                    break;
                }
                run.deadline_ns = deadline_ns;
                run.discard_after = framing.discard_after(frame, &head);
                run.closes = framing.closes_after(frame, &head);
                run.frames.push(Frame { len, request_type, head });
                dispatcher.count_arrival(request_type);
                offset += len;
                if run.discard_after > 0 || run.closes {
                    break;
                }
            }
            Ok(Step::NeedMore { len_min: needed }) => {
                len_min = needed;
                break;
            }
            Err(error) => {
                *cursor = F::Cursor::default();
                if run.frames.is_empty() {
                    return Err(error);
                }
                // The requests before the error are served; then the error is found again.
                break;
            }
        }
    }
    match run.frames.first() {
        Some(first) => Ok(Parsed::Run(first.request_type)),
        None => Ok(Parsed::NeedMore { len_min }),
    }
}
