//! A worker without preemption.

use std::time::Duration;

use psp_protocols::Framing;

use crate::handler::Handler;
use crate::runtime::channel::{Message, Report, TaskPort};
use crate::runtime::executor::Executor;
use crate::runtime::task::Task;

/// Serves tasks until it is told to stop. Idle, it polls for `spin` and then parks.
pub(crate) fn serve_to_completion<F: Framing, H: Handler>(
    mut executor: Executor<F, H>,
    mut port: TaskPort<Task<H::Connection>>,
    spin: Duration,
) {
    loop {
        match port.next(spin) {
            Message::Run { mut task, .. } => {
                executor.run(&mut task);
                port.report(Report::Completed(task));
            }
            Message::Resume(request) => {
                unreachable!("request {} never yielded", request.0)
            }
            Message::Stop => return,
        }
    }
}
