//! Frames and classifies input into a run.

use psp_policy::RequestType;
use psp_protocols::{FrameError, Framing, Step};

use crate::classifier::Classifier;
use crate::guarded_framing::GuardedFraming;
use crate::runtime::dispatch::dispatcher::Dispatcher;
use crate::transport::run::{Frame, Run};

/// What the input of a connection holds.
pub(super) enum Parsed {
    /// A run, which begins with a request of this type.
    Run(RequestType),
    /// No whole request: the next one has at least `len_min` bytes.
    NeedMore { len_min: usize },
}

/// Fills `run` with as many requests at the start of `input` as may travel together. The requests before an error are
/// served; then the error is found again.
pub(super) fn parse<F: Framing, K: Classifier<F::Head>>(
    framing: &GuardedFraming<F>,
    cursor: &mut F::Cursor,
    input: &[u8],
    is_authenticated: bool,
    run: &mut Run<F::Head>,
    dispatcher: &Dispatcher<K>,
    now_ns: u64,
) -> Result<Parsed, FrameError> {
    run.clear();
    run.arrived_ns = now_ns;
    let len_min = framing.catch(|| fill(run, framing, cursor, input, is_authenticated, dispatcher));
    if len_min.is_err() {
        *cursor = F::Cursor::default();
    }
    match run.frames.first() {
        Some(first) => Ok(Parsed::Run(first.request_type)),
        None => Ok(Parsed::NeedMore { len_min: len_min? }),
    }
}

/// Adds requests to `run`, within the guard of its caller. Returns how many bytes the next one has at least.
fn fill<F: Framing, K: Classifier<F::Head>>(
    run: &mut Run<F::Head>,
    guarded: &GuardedFraming<F>,
    cursor: &mut F::Cursor,
    input: &[u8],
    is_authenticated: bool,
    dispatcher: &Dispatcher<K>,
) -> Result<usize, FrameError> {
    let framing = guarded.unguarded();
    let mut rest = input;
    while !rest.is_empty() && run.frames.len() < run.len_max {
        let step = match is_authenticated {
            true => framing.next_frame(cursor, rest),
            false => framing.next_frame_unauthenticated(cursor, rest),
        };
        let (len, head) = match step? {
            Step::Frame { len, head } => (len, head),
            Step::NeedMore { len_min } => return Ok(len_min),
        };
        let (frame, after) = guarded.split(rest, len)?;
        let reclassified = run.reclassified.take();
        let request_type = reclassified.unwrap_or_else(|| dispatcher.classify(frame, &head));
        let own = framing.deadline(&head);
        let deadline_ns = dispatcher.latest_turn_ns(run.arrived_ns, request_type, own);
        if let Some(first) = run.frames.first()
            && (run.deadline_ns != deadline_ns || !dispatcher.same_run(first.request_type, request_type))
        {
            break;
        }
        if let Some(standing) = dispatcher.standing(frame, &head, run.arrived_ns, own) {
            if !run.frames.is_empty() && run.standing != standing {
                break;
            }
            run.standing = standing;
        }
        let (discard_after, closes) = (framing.discard_after(frame, &head), framing.closes_after(frame, &head));
        run.deadline_ns = deadline_ns;
        run.discard_after = discard_after;
        run.closes = closes;
        run.frames.push(Frame { len, request_type, head });
        dispatcher.count_arrival(request_type);
        if discard_after > 0 || closes {
            break;
        }
        rest = after;
    }
    Ok(1)
}
