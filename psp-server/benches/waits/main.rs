//! What it costs to begin something else, to yield to it and to signal it: beside tokio's tasks and threads of the
//! kernel, the rows of table 2 of *Arachne* (OSDI '18).
//!
//! | file | job |
//! | --- | --- |
//! | `rally.rs` | two sides that signal each other in turn |
//! | `requests.rs` | psp: tasks of a request, and requests |
//! | `tasks.rs` | tasks of tokio |
//! | `threads.rs` | threads of the kernel |
//!
//! ```sh
//! cargo bench -p psp-server --features benches --bench waits      # the table of docs/waiting.md
//! ```
//!
//! Needs two cores to itself. A signal is half of a round there and back. Where both sides have one core, or one
//! thread, it includes the switch to the other side.

// The files of tests and of the crate have more than the benchmark needs.
#[path = "../../tests/common/mod.rs"]
mod common;
#[allow(dead_code, unreachable_pub)]
#[path = "../../src/runtime/host/cores.rs"]
mod cores;

mod rally;
mod requests;
mod tasks;
mod threads;

use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};

/// Measures so many operations.
type Measure = fn(u64) -> Duration;

/// The groups, and who does the same in each.
const GROUPS: [(&str, &[(&str, Measure)]); 5] = [
    (
        "begun and joined",
        &[
            ("psp, a task of a request", requests::create),
            ("tokio, a task on one thread", tasks::create),
            ("tokio, a task on another thread", tasks::create_elsewhere),
            ("std, a thread", threads::create),
        ],
    ),
    (
        "yield to another",
        &[
            ("psp, two tasks of a request", requests::yield_between_tasks),
            ("tokio, two tasks on one thread", tasks::yield_between),
            ("std, two threads of one core", threads::yield_between),
        ],
    ),
    (
        "yield to nobody",
        &[
            ("psp, a task of a request", requests::yield_task),
            ("psp, a request", requests::yield_request),
            ("tokio, a task", tasks::yield_alone),
            ("std, a thread", threads::yield_alone),
        ],
    ),
    (
        "condition variable",
        &[
            ("psp, two tasks of a request", requests::notify_task),
            ("psp, two requests of a worker", requests::notify_request),
            ("std, two threads of one core", threads::notify_on_one_core),
            ("std, two threads of two cores", threads::notify_across),
        ],
    ),
    (
        "signal",
        &[
            ("psp, two tasks of a request", requests::signal_task),
            ("psp, two requests of a worker", requests::signal_request),
            ("psp, two requests of two workers", requests::signal_across_workers),
            ("psp, a request and a thread", requests::signal_between_request_and_thread),
            ("tokio, two tasks on one thread", tasks::signal),
            ("tokio, two runtimes of two cores", tasks::signal_across),
            ("std, two threads of one core", threads::signal_on_one_core),
            ("std, two threads of two cores", threads::signal_across),
        ],
    ),
];

fn waits(criterion: &mut Criterion) {
    for (name, members) in GROUPS {
        let mut group = criterion.benchmark_group(name);
        for &(name, measure) in members {
            group.bench_function(name, |bencher| bencher.iter_custom(measure));
        }
        group.finish();
    }
}

criterion_group!(benches, waits);
criterion_main!(benches);
