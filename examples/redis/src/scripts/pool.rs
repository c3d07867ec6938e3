//! The Lua states of a server: each script that runs has one to itself, also while it is suspended.

use std::sync::{Arc, Weak};

use mlua::Function;
use parking_lot::Mutex;

use super::control::Control;
use super::interpreter::{Interpreter, message_of};
use super::library::Script;
use crate::error::CommandError;
use crate::parse::Result;

/// States that are kept while no script needs them.
const IDLE_MAX: usize = 64;
/// States that may be in use at once.
const BUSY_MAX: usize = 1024;

/// All interpreters of a server.
#[derive(Debug, Default)]
pub struct Pool {
    idle: Mutex<Vec<Interpreter>>,
    /// The controls of all interpreters, idle and busy.
    controls: Mutex<Vec<Weak<Control>>>,
}

/// An interpreter that runs one script.
#[derive(Debug)]
pub(crate) struct Lease<'p> {
    pool: &'p Pool,
    /// `None` while it is dropped.
    interpreter: Option<Interpreter>,
}

impl Pool {
    /// An interpreter for a script that may run for `limit_ms`; 0 for any time.
    pub(crate) fn lease(&self, limit_ms: u64) -> Result<Lease<'_>> {
        let idle = self.idle.lock().pop();
        let interpreter = idle.map_or_else(|| self.create(), Ok)?;
        interpreter.control.begin(limit_ms);
        Ok(Lease {
            pool: self,
            interpreter: Some(interpreter),
        })
    }

    fn create(&self) -> Result<Interpreter> {
        let is_full = {
            let mut controls = self.controls.lock();
            controls.retain(|control| control.strong_count() > 0);
            controls.len() >= BUSY_MAX
        };
        if is_full {
            return Err(CommandError::line("BUSY too many scripts run at once"));
        }
        let interpreter = Interpreter::new().map_err(|error| {
            CommandError::Other(format!("ERR cannot start Lua: {error}").into())
        })?;
        let control = Arc::downgrade(&interpreter.control);
        self.controls.lock().push(control);
        Ok(interpreter)
    }

    /// Number of interpreters.
    #[must_use]
    pub fn len(&self) -> usize {
        let controls = self.controls.lock();
        controls.iter().filter(|it| it.strong_count() > 0).count()
    }

    /// Whether there are no interpreters.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Stops the scripts that have been running for `busy_ms`. Returns how many could be stopped, and how many not.
    pub(crate) fn kill(&self, busy_ms: u64) -> (usize, usize) {
        let mut counts = (0, 0);
        for control in self.controls.lock().iter().filter_map(Weak::upgrade) {
            if control.running_ms().is_none_or(|ms| ms < busy_ms) {
                continue;
            }
            if control.is_stoppable() {
                control.kill();
                counts.0 += 1;
            } else {
                counts.1 += 1;
            }
        }
        counts
    }
}

impl Lease<'_> {
    /// The function of `script`.
    ///
    /// # Errors
    /// Its text is not Lua.
    pub(crate) fn function(&mut self, script: &Script) -> Result<Function> {
        let interpreter = self.interpreter.as_mut().ok_or(GONE)?;
        interpreter.function(script).map_err(|error| {
            let message = message_of(&error);
            CommandError::Other(
                format!("ERR Error compiling script (new function): {message}").into(),
            )
        })
    }

    pub(super) fn interpreter(&self) -> Result<&Interpreter> {
        self.interpreter.as_ref().ok_or(GONE)
    }
}

const GONE: CommandError = CommandError::line("ERR the interpreter is gone");

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        let Some(interpreter) = self.interpreter.take() else {
            return;
        };
        interpreter.control.end();
        // After a panic the state may be anything.
        if std::thread::panicking() || !interpreter.is_reusable() {
            return;
        }
        let mut idle = self.pool.idle.lock();
        if idle.len() < IDLE_MAX {
            idle.push(interpreter);
        }
    }
}
