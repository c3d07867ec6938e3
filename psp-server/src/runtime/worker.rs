//! A worker thread: takes a task, runs it, sends it back.

use std::time::{Duration, Instant};

use psp_protocols::Framing;

use super::channel::{Message, Report, TaskPort};
use super::executor::Executor;
use super::task::Task;
use crate::handler::Handler;

/// Serves tasks until it is told to stop. Idle, it polls for `spin` and then parks.
pub(crate) fn serve<F: Framing, H: Handler>(
    mut executor: Executor<F, H>,
    mut port: TaskPort<Task<H::Connection>>,
    spin: Duration,
) {
    loop {
        match next(&mut port, spin) {
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

fn next<T>(port: &mut TaskPort<T>, spin: Duration) -> Message<T> {
    loop {
        if let Some(message) = port.receive() {
            return message;
        }
        if !spin.is_zero() {
            let start = Instant::now();
            while start.elapsed() < spin {
                for _ in 0..32 {
                    std::hint::spin_loop();
                }
                if let Some(message) = port.receive() {
                    return message;
                }
            }
        }
        std::thread::park();
    }
}
