//! Tells a service manager such as systemd how the server does, as sd_notify(3) describes.

use std::convert::Infallible;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use psp_server::ServerHandle;
use sd_notify::NotifyState;

/// How often the thread looks whether the server is ready, or stops.
const INTERVAL: Duration = Duration::from_millis(50);

/// A thread that tells the service manager when the server is ready and when it stops. While the server serves, the
/// thread answers the manager's watchdog in half the time that it asks for. Dropping this says that the server stops,
/// if that was not said yet.
#[derive(Debug)]
pub(crate) struct Notifier {
    /// Dropped to end the thread.
    running: Option<Sender<Infallible>>,
    thread: Option<JoinHandle<()>>,
}

impl Notifier {
    /// Starts the thread. Returns `None` if there is no service manager.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub(crate) fn start(server: ServerHandle) -> io::Result<Option<Self>> {
        if std::env::var_os("NOTIFY_SOCKET").is_none() {
            return Ok(None);
        }
        let (running, ended) = channel();
        let thread = Builder::new().name("psp-notify".into());
        let thread = thread.spawn(move || live(&server, &ended))?;
        Ok(Some(Self { running: Some(running), thread: Some(thread) }))
    }
}

impl Drop for Notifier {
    fn drop(&mut self) {
        drop(self.running.take());
        if let Some(thread) = self.thread.take() {
            // The panic hook has reported a panic.
            let _panicked = thread.join();
        }
    }
}

fn live(server: &ServerHandle, ended: &Receiver<Infallible>) {
    let mut watchdog_us = 0;
    let has_watchdog = sd_notify::watchdog_enabled(false, &mut watchdog_us);
    let watchdog = has_watchdog.then(|| Duration::from_micros(watchdog_us / 2));
    let (mut is_ready, mut since_watchdog) = (false, Duration::ZERO);
    while !server.is_stopping() {
        if !is_ready && server.is_ready() {
            is_ready = true;
            let policy = server.policy().spelled();
            tell(&[NotifyState::Ready, NotifyState::Status(&policy)]);
        }
        if watchdog.is_some_and(|watchdog| since_watchdog >= watchdog) {
            since_watchdog = Duration::ZERO;
            tell(&[NotifyState::Watchdog]);
        }
        if ended.recv_timeout(INTERVAL) != Err(RecvTimeoutError::Timeout) {
            break;
        }
        since_watchdog += INTERVAL;
    }
    tell(&[NotifyState::Stopping]);
}

fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(false, states) {
        tracing::warn!(%error, "cannot notify the service manager");
    }
}
