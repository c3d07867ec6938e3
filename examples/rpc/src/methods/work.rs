//! Methods that take as long as they are asked to.

use std::time::Duration;

use psp_program::rpc::Call;
use psp_protocols::rpc::{Failure, Status};

use super::read;
use crate::messages::Work;
use crate::service::Context;

/// Longest Spin or Sleep.
const DURATION_MAX: Duration = Duration::from_secs(10);

/// Returns its payload.
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
/// A payload that is no [`Work`] or asks for too much; a deadline that has passed.
pub fn spin(_context: &mut Context<'_>, call: &Call<'_>) -> Result<(), Failure> {
    psp_program::spin(duration(call)?, || call.give_way())
}

/// Keeps a worker from others, but not from those that its policy prefers, and no core busy.
///
/// # Errors
/// As [`spin`].
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
            format!("at most {} us", DURATION_MAX.as_micros()),
        ));
    }
    Ok(duration)
}
