//! The scheduler's counters, for clients.

use psp_protocols::rpc::{Failure, Status};
use psp_rpc_service::Call;
use psp_server::telemetry::TypeSnapshot;

use crate::messages::{ServerStats, TypeStats};
use crate::service::Context;

/// Counters of all request types, and the policy. Ignores the payload.
///
/// # Errors
/// [`Status::Unavailable`] if no server runs the call.
pub fn stats(context: &mut Context<'_>, call: &Call<'_>) -> Result<(), Failure> {
    let server = call
        .server()
        .ok_or_else(|| Failure::new(Status::Unavailable, "no server runs this call"))?;
    let snapshot = server.snapshot();
    let stats = ServerStats {
        policy: server.policy().spelled(),
        types: snapshot.types.into_iter().map(of_type).collect(),
        reflected_datagrams: snapshot.net.datagrams_reflected,
        over_budget_datagrams: snapshot.net.datagrams_over_budget,
    };
    context.respond(&stats);
    Ok(())
}

fn of_type(ty: TypeSnapshot) -> TypeStats {
    TypeStats {
        name: ty.name,
        arrivals: ty.arrivals,
        completions: ty.completions,
        rejections: ty.rejections,
        service_ns_mean: ty.service_ns_total / ty.completions.max(1),
        service_ns_max: ty.service_ns_max,
        turns: ty.turns.turns,
        preemptions: ty.turns.preemptions_honoured,
        abandoned: ty.abandoned,
        expired: ty.expired,
        blocked: ty.waits.blocked,
        waits: ty.waits.waits,
        wait_ns_total: ty.waits.wait_ns_total,
    }
}
