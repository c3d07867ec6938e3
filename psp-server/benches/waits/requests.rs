//! psp: tasks of a request, and requests.

use std::net::TcpStream;
use std::sync::{Arc, Mutex as StdMutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use psp_server::protocols::Sink;
use psp_server::sync::{Condvar, Mutex, Semaphore};
use psp_server::task::{Tasks, yield_now};
use psp_server::{Config, Policy, Reply, Request, Server, Topology, wait};

use crate::common::{Client, Lines};
use crate::rally::{Rally, Signal};

/// Runs in a request.
type Job = Box<dyn FnOnce() + Send>;

/// Runs each job in a request of its own, all at once, on so many workers.
fn run(topology: Topology, workers: usize, jobs: Vec<Job>) {
    let count = jobs.len();
    let jobs = StdMutex::new(jobs);
    let server = Server::builder()
        .tcp("127.0.0.1:0")
        .framing(Lines)
        .policy(Policy::c_fcfs())
        .config(Config::default().topology(topology).workers(workers))
        .handler(move |_: Request<'_, ()>, reply: &mut Reply<'_>| {
            let job = jobs.lock().unwrap().pop().expect("one for each request");
            job();
            reply.put(b"ran\n");
        })
        .build()
        .unwrap()
        .spawn()
        .unwrap();
    let address = server.local_addrs()[0];
    let mut clients: Vec<Client> = (0..count).map(|_| Client::new(TcpStream::connect(address).unwrap())).collect();
    for client in &mut clients {
        client.send("run\n");
    }
    for client in &mut clients {
        assert_eq!(client.line(), "ran");
    }
}

/// How long `job` takes in the only request of a worker.
fn measure(job: impl FnOnce() + Send + 'static) -> Duration {
    let (sender, receiver) = mpsc::channel();
    let timed = move || {
        let started = Instant::now();
        job();
        sender.send(started.elapsed()).unwrap();
    };
    run(Topology::Inline, 1, vec![Box::new(timed)]);
    receiver.recv().unwrap()
}

pub(crate) fn create(count: u64) -> Duration {
    measure(move || {
        let mut tasks = Tasks::new(1);
        for _ in 0..count {
            tasks.spawn(async {}).unwrap();
            wait(tasks.join_next()).unwrap().1.unwrap();
        }
    })
}

/// `count` yields of all `tasks` together.
fn yield_in(tasks: u64, count: u64) -> Duration {
    measure(move || {
        let mut yielding = Tasks::new(tasks as usize);
        for _ in 0..tasks {
            let yields = async move {
                for _ in 0..count.div_ceil(tasks) {
                    yield_now().await;
                }
            };
            yielding.spawn(yields).unwrap();
        }
        wait(yielding.join_all());
    })
}

pub(crate) fn yield_between_tasks(count: u64) -> Duration {
    yield_in(2, count)
}

pub(crate) fn yield_task(count: u64) -> Duration {
    yield_in(1, count)
}

pub(crate) fn yield_request(count: u64) -> Duration {
    measure(move || (0..count).for_each(|_| wait(yield_now())))
}

/// A permit is a signal.
struct Permit(Semaphore);

impl Default for Permit {
    fn default() -> Self {
        Self(Semaphore::new(0))
    }
}

impl Signal for Permit {
    async fn send(&self) {
        self.0.add_permits(1);
    }

    async fn wait(&self) {
        self.0.acquire().await.forget();
    }
}

/// A change of what a mutex has.
#[derive(Default)]
struct Condition {
    is_sent: Mutex<bool>,
    changed: Condvar,
}

impl Signal for Condition {
    async fn send(&self) {
        *self.is_sent.lock().await = true;
        self.changed.notify_one();
    }

    async fn wait(&self) {
        let is_sent = self.is_sent.lock().await;
        let mut is_sent = self.changed.wait_while(is_sent, |is_sent| !*is_sent).await;
        *is_sent = false;
    }
}

/// Both sides are tasks of a request.
fn between_tasks<S: Signal + Send + Sync + 'static>(rounds: u64) -> Duration {
    let rally = Arc::new(Rally::<S>::new(rounds));
    let played = rally.clone();
    measure(move || {
        let mut tasks = Tasks::new(2);
        tasks.spawn(played.first()).unwrap();
        tasks.spawn(played.second()).unwrap();
        wait(tasks.join_all());
    });
    rally.of_signals()
}

/// Both sides are requests.
fn between_requests<S: Signal + Send + Sync + 'static>(topology: Topology, workers: usize, rounds: u64) -> Duration {
    let rally = Arc::new(Rally::<S>::new(rounds));
    let (one, other) = (rally.clone(), rally.clone());
    let jobs: Vec<Job> = vec![Box::new(move || wait(one.first())), Box::new(move || wait(other.second()))];
    run(topology, workers, jobs);
    rally.of_signals()
}

pub(crate) fn signal_task(rounds: u64) -> Duration {
    between_tasks::<Permit>(rounds)
}

pub(crate) fn notify_task(rounds: u64) -> Duration {
    between_tasks::<Condition>(rounds)
}

pub(crate) fn signal_request(rounds: u64) -> Duration {
    between_requests::<Permit>(Topology::Inline, 1, rounds)
}

pub(crate) fn notify_request(rounds: u64) -> Duration {
    between_requests::<Condition>(Topology::Inline, 1, rounds)
}

pub(crate) fn signal_across_workers(rounds: u64) -> Duration {
    between_requests::<Permit>(Topology::Dedicated, 2, rounds)
}

pub(crate) fn signal_between_request_and_thread(rounds: u64) -> Duration {
    let rally = Arc::new(Rally::<Permit>::new(rounds));
    let request = rally.clone();
    thread::scope(|scope| {
        scope.spawn(|| wait(rally.second()));
        let job: Job = Box::new(move || wait(request.first()));
        run(Topology::Inline, 1, vec![job]);
    });
    rally.of_signals()
}
