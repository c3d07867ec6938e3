//! Methods that do nothing, or take the time that a request asks for.

use std::time::Duration;

use psp_protocols::rpc::{Failure, Status};
use psp_rpc_service::Call;

use super::read;
use crate::messages::Work;
use crate::service::Context;

/// Longest Spin or Sleep.
const DURATION_MAX: Duration = Duration::from_secs(10);

/// Responds with the request's payload.
///
/// # Errors
/// None.
pub fn echo(context: &mut Context<'_>, call: &Call<'_>) -> Result<(), Failure> {
    context.payload.extend_from_slice(call.payload);
    Ok(())
}

/// Keeps a core busy, and ends early when the deadline passes.
///
/// # Errors
/// When the payload is not [`Work`], the duration is too long, or the deadline has passed.
pub fn spin(_context: &mut Context<'_>, call: &Call<'_>) -> Result<(), Failure> {
    psp_program::spin(duration(call)?, || call.checkpoint())
}

/// Occupies a worker without keeping a core busy. Requests that the policy prefers may run meanwhile.
///
/// # Errors
/// See [`spin`].
pub fn sleep(_context: &mut Context<'_>, call: &Call<'_>) -> Result<(), Failure> {
    let asleep = duration(call)?;
    psp_server::sleep(call.time_left().map_or(asleep, |left| left.min(asleep)));
    call.in_time()
}

fn duration(call: &Call<'_>) -> Result<Duration, Failure> {
    let mut work = Work::default();
    read(&mut work, call.payload)?;
    let duration = Duration::from_micros(work.duration_us);
    if duration > DURATION_MAX {
        return Err(Failure::new(
            Status::OutOfRange,
            format!("the duration may be at most {} us", DURATION_MAX.as_micros()),
        ));
    }
    Ok(duration)
}
