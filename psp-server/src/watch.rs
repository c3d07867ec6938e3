//! Applies changes of a settings file to a running server.

use std::fmt;
use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use crate::error::SettingsError;
use crate::reload::{differences, log_reload};
use crate::settings::{Settings, read};
use crate::shared::ServerHandle;

/// How often the file is read.
const INTERVAL: Duration = Duration::from_millis(500);

/// Watches a file until it is dropped. See [`Settings::watch`].
pub struct Watch {
    /// Dropped to end the thread.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Settings {
    /// Applies a file to a server that was built with it, now and whenever the file changes. A thread reads the file
    /// twice a second. Settings that the file leaves out are these, and those that these leave out are what the program
    /// gave the [builder](crate::ServerBuilder), of its [settings](crate::ServerBuilder::settings) those from before it
    /// read its last text; most programs watch with `Settings::default()`.
    ///
    /// The policy, `connections-max`, `idle-timeout-s`, `output-bytes-max` and `slow-us` change at once. The log names
    /// other settings that have changed and need a restart. If the file is not valid, the log says why, and nothing
    /// changes.
    ///
    /// # Errors
    /// When the file cannot be read or is not valid, and when the thread cannot be started.
    pub fn watch(self, path: impl Into<PathBuf>, server: ServerHandle) -> Result<Watch, SettingsError> {
        let path = path.into();
        let text = read(&path)?;
        let mut reloader = Reloader {
            path,
            seen: String::new(),
            defaults: self.over(server.own_settings()),
            server,
        };
        reloader.apply(&text)?;
        reloader.seen = text;
        let (stop, stopped) = channel();
        let thread = Builder::new()
            .name("psp-settings".into())
            .spawn(move || {
                while stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                    reloader.look();
                }
            })
            .map_err(SettingsError::Watch)?;
        Ok(Watch { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Watch").finish_non_exhaustive()
    }
}

struct Reloader {
    path: PathBuf,
    /// The text of the file when it was last read.
    seen: String,
    defaults: Settings,
    server: ServerHandle,
}

impl Reloader {
    /// Reads the file, and applies it if it has changed.
    fn look(&mut self) {
        // An editor may write another file in the place of this one: for a moment there may be none.
        let Ok(text) = read(&self.path) else {
            return;
        };
        if self.seen == text {
            return;
        }
        log_reload("settings", self.apply(&text));
        self.seen = text;
    }

    /// Applies what can change. Returns the names of the other settings that differ.
    fn apply(&mut self, text: &str) -> Result<Vec<String>, SettingsError> {
        let settings = self.defaults.clone().with_text(text, Some(&self.path))?;
        self.server.reload(&settings.policy, &settings.server)?;
        let in_force = Settings::default()
            .policy(settings.policy.clone())
            .server(self.server.config().reloaded(&settings.server))
            .types(self.server.hints().to_vec());
        Ok(differences(&in_force, &settings))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use psp_policy::Policy;
    use psp_protocols::psp_header::PspFraming;

    use super::*;
    use crate::{Reply, Request, Server};

    #[test]
    fn what_can_change_is_applied_and_the_rest_is_named() {
        let server = Server::builder()
            .tcp("127.0.0.1:0")
            .framing(PspFraming::default())
            .handler(|_: Request<'_, ()>, _: &mut Reply<'_>| {})
            .build()
            .unwrap();
        let handle = server.handle();
        let defaults = Settings::default().policy(Policy::darc());
        let mut reloader = Reloader {
            path: "psp.toml".into(),
            seen: String::new(),
            defaults: defaults.over(handle.own_settings()),
            server: handle.clone(),
        };
        let text = "policy = 'sjf'\n[server]\nconnections-max = 9\nspin-us = 3\n[[types]]\nname = 'a'";
        assert_eq!(reloader.apply(text).unwrap(), ["server.spin-us", "types"]);
        assert_eq!(handle.policy(), Policy::sjf());
        assert_eq!(handle.connections_max(), 9);
        for refused in ["policy = 'dark'", "[server]\nconnections-max = 0", "="] {
            assert!(reloader.apply(refused).is_err());
            assert_eq!(handle.policy(), Policy::sjf());
            assert_eq!(handle.connections_max(), 9);
        }
        assert_eq!(reloader.apply("").unwrap(), [""; 0]);
        assert_eq!(handle.policy(), Policy::darc(), "the program's default");
    }

    #[test]
    fn a_watched_file_is_applied_until_the_watch_ends() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("psp.toml");
        fs::write(&path, "policy = 'sjf'").unwrap();
        let settings = Settings::from_file(&path).unwrap();
        let server = Server::builder()
            .tcp("127.0.0.1:0")
            .framing(PspFraming::default())
            .handler(|_: Request<'_, ()>, _: &mut Reply<'_>| {})
            .settings(settings)
            .build()
            .unwrap();
        let handle = server.handle();
        assert_eq!(handle.policy(), Policy::sjf());
        let watch = Settings::default().watch(&path, handle.clone());
        fs::write(&path, "policy = 'darc'").unwrap();
        let deadline = std::time::Instant::now() + Duration::from_secs(30);
        while handle.policy() != Policy::darc() {
            assert!(std::time::Instant::now() < deadline, "the change is seen");
            std::thread::yield_now();
        }
        drop(watch.unwrap());
    }
}
