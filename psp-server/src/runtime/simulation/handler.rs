//! The handler of the simulated server: does what each request asks for, and tells the ledger.

use std::error::Error;
use std::panic::resume_unwind;

use psp_policy::{RequestType, WorkerId};
use psp_protocols::Sink;

use super::faults::{Fault, ONCE_IN};
use super::ledger::{Later, with_ledger};
use super::protocol::{Head, Kind, for_pieces};
use crate::handler::{Handler, Request};
use crate::peer::Peer;
use crate::preempt::checkpoint;
use crate::reply::Reply;
use crate::simulated;

/// What a handler computes between two checkpoints, at most.
const PIECE_NS: u64 = 20_000;
/// For so long an endless request computes on the net thread at most, so that the watch sees whom it keeps waiting.
const ENDLESS_NS_MAX: u64 = 100_000_000_000;

/// Computes for so long, while `goes_on`. On the net thread, others may have that in between. The turns of simulated
/// workers, which take place on that thread, end by their own schedule.
fn compute(mut left_ns: u64, goes_on: impl Fn() -> bool) {
    if simulated::is_at_own_time() {
        return simulated::spend(left_ns);
    }
    while left_ns > 0 && goes_on() {
        let piece_ns = left_ns.min(PIECE_NS);
        let _undisturbed = simulated::undisturbed();
        let (lost_ns, fault) = with_ledger(|ledger| (ledger.loss_ns(), ledger.fault));
        simulated::spend(piece_ns + lost_ns);
        if fault != Fault::HoldsThread {
            checkpoint();
        }
        left_ns -= piece_ns;
    }
}

/// Computes until the request is killed.
fn compute_endlessly(head: &Head) {
    let left_ns = with_ledger(|ledger| {
        ledger.begin_endless(head);
        match simulated::is_at_own_time() {
            true => ledger.endless_ns,
            false => ENDLESS_NS_MAX,
        }
    });
    compute(left_ns, || with_ledger(|ledger| ledger.runs_on(head)));
    with_ledger(|ledger| ledger.end_endless(head));
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct SimHandler {
    /// Registered types.
    pub(super) types: u32,
}

impl SimHandler {
    /// Whether the request is put back, since it is of another type.
    fn is_put_back(&self, request: &Request<'_, (), Head>, reply: &mut Reply<'_>) -> bool {
        let head = request.head;
        if head.kind != Kind::Reclassify {
            return false;
        }
        let was_put_back = with_ledger(|ledger| {
            let executed = &mut ledger.slots[super::ledger::slot_of(head.client)];
            !executed.reclassified.insert(head.number)
        });
        let next = (u32::from(head.request_type) + 1) % self.types;
        !was_put_back && reply.reclassify(RequestType::new(next))
    }
}

impl Handler<Head> for SimHandler {
    type Worker = ();
    type Connection = ();

    fn init_worker(&self, _worker: WorkerId) {}

    fn try_init_worker(&self, worker: WorkerId) -> Result<(), Box<dyn Error + Send + Sync>> {
        match with_ledger(|ledger| std::mem::take(&mut ledger.is_deadly)) {
            true => Err(format!("{worker:?} is to die").into()),
            false => Ok(()),
        }
    }

    fn connect(&self, _peer: Peer) {}

    fn handle(&self, _worker: &mut (), request: Request<'_, (), Head>, reply: &mut Reply<'_>) {
        let undisturbed = simulated::undisturbed();
        let head = *request.head;
        if !with_ledger(|ledger| ledger.begin(&head, request.payload)) {
            // Of a client that is gone.
            return head.reply(reply);
        }
        if self.is_put_back(&request, reply) {
            return;
        }
        drop(undisturbed);
        match head.kind {
            Kind::Endless => compute_endlessly(&head),
            _ => compute(with_ledger(|ledger| ledger.service_ns(&head)), || true),
        }
        let _undisturbed = simulated::undisturbed();
        if !with_ledger(|ledger| ledger.has_client(&head)) {
            // It left in between.
            return head.reply(reply);
        }
        let fails = with_ledger(|ledger| {
            ledger.note(&head);
            match ledger.fault {
                Fault::None => false,
                // The requests that it could forget are few.
                Fault::Forgets => ledger.ran > ONCE_IN,
                _ => ledger.ran % ONCE_IN == 0,
            }
        });
        let fault = with_ledger(|ledger| if fails { ledger.fault } else { Fault::None });
        match (fault, head.kind) {
            (Fault::AnswersTwice, _) => {
                head.reply(reply);
                head.reply(reply);
            }
            (Fault::AnswersNot, _) => {}
            (Fault::RunsTwice, _) => {
                with_ledger(|ledger| ledger.begin(&head, request.payload));
                head.reply(reply);
            }
            (Fault::WrongByte, _) => {
                head.reply_header(reply);
                let len = head.payload_len();
                for_pieces(head.client, head.number.wrapping_add(1), len, |piece| {
                    reply.put(piece);
                });
            }
            (_, Kind::Panic) => resume_unwind(Box::new("as the request asks")),
            (_, Kind::Fail) => reply.fail("as the request asks"),
            (fault, Kind::Defer) => {
                let later = reply.defer();
                with_ledger(|ledger| {
                    let at_ns = simulated::now_ns() + 1 + ledger.below(ledger.later_ns_max);
                    if fault == Fault::Forgets {
                        std::mem::forget(later);
                        return;
                    }
                    let reply = later;
                    ledger.later.push(Later { at_ns, reply, head });
                    simulated::due(0);
                });
            }
            (_, Kind::DropDeferred) => drop(reply.defer()),
            (_, Kind::Close) => {
                head.reply(reply);
                reply.close();
            }
            (_, Kind::Pieces) => {
                head.reply_header(reply);
                reply.flush();
                let mut pieces = 0_u32;
                for_pieces(head.client, head.number, head.payload_len(), |piece| {
                    reply.put(piece);
                    pieces += 1;
                    if pieces.is_multiple_of(8) {
                        reply.flush();
                    }
                });
            }
            (_, Kind::Kill) => {
                with_ledger(|ledger| ledger.killed += ledger.kill());
                head.reply(reply);
            }
            (_, Kind::Plain | Kind::Last | Kind::Reclassify | Kind::Discard | Kind::Sized | Kind::Endless) => {
                head.reply(reply);
            }
        }
    }
}
