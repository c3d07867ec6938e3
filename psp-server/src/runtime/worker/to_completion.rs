//! A worker without preemption.

use std::time::Duration;

use psp_protocols::Framing;

use super::executor::Executor;
use crate::handler::Handler;
use crate::runtime::channel::message::{Message, Report};
use crate::runtime::channel::task_port::TaskPort;
use crate::runtime::task::Task;

/// Serves tasks until the worker is told to stop. An idle worker polls for `spin` and then parks.
pub(crate) fn serve_to_completion<F: Framing, H: Handler<F::Head>>(
    mut executor: Executor<F, H>,
    mut port: TaskPort<Task<H::Connection, F::Head>>,
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
