//! The Lua states of a server: each script that runs has one to itself, also while it is suspended.

use std::sync::{Arc, Weak};

use mlua::Function;
use parking_lot::Mutex;

use super::budget::Budget;
use super::control::{Bounds, Control, Form, Running, Tags, Task};
use super::functions::{Found, FunctionLibrary, FunctionSpec};
use super::interpreter::{Interpreter, message_of};
use super::library::Script;
use super::profile::Profile;
use crate::error::CommandError;
use crate::parse::Result;

/// States that are kept while no script needs them.
const IDLE_MAX: usize = 64;
/// States that may be in use at once.
const BUSY_MAX: usize = 1024;

/// Scripts that have run for less are those of other clients, and end by themselves.
const KILLED_MS_MIN: u64 = 20;

/// All interpreters of a server.
#[derive(Debug, Default)]
pub struct Pool {
    budget: Arc<Budget>,
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
    /// An interpreter for a task.
    pub(crate) fn lease(&self, task: Task<'_>, bounds: Bounds) -> Result<Lease<'_>> {
        let idle = self.idle.lock().pop();
        let interpreter = idle.map_or_else(|| self.create(), Ok)?;
        interpreter.fit_memory().map_err(not_started)?;
        interpreter.control.begin(task, bounds);
        Ok(Lease { pool: self, interpreter: Some(interpreter) })
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
        if self.budget.is_short() {
            return Err(CommandError::line("OOM other scripts hold too much memory"));
        }
        let interpreter = Interpreter::new(Arc::clone(&self.budget)).map_err(not_started)?;
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

    /// Stops all of one form that have been running for [`KILLED_MS_MIN`].
    pub(crate) fn kill(&self, form: Form) -> Killed {
        let mut counts = Killed::default();
        for control in self.controls.lock().iter().filter_map(Weak::upgrade) {
            if control.is(Form::Load) || control.running_ms().is_none_or(|ms| ms < KILLED_MS_MIN) {
                continue;
            }
            if !control.is_stoppable() {
                counts.unstoppable += 1;
            } else if control.is(form) {
                control.kill();
                counts.stopped += 1;
            } else {
                counts.others += 1;
            }
        }
        counts
    }

    /// The function that has been running longest, and for how many milliseconds.
    pub(crate) fn longest_function(&self) -> Option<(Running, u64)> {
        let controls = self.controls.lock();
        let controls = controls.iter().filter_map(Weak::upgrade);
        let functions = controls.filter(|control| control.is(Form::Function));
        let running = functions.filter_map(|control| Some((control.running_ms()?, control)));
        let (ms, control) = running.max_by_key(|(ms, _)| *ms)?;
        Some((control.running(), ms))
    }
}

/// How many scripts or functions KILL has found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Killed {
    /// They stop.
    pub(crate) stopped: usize,
    /// They have written within a transaction, and go on.
    pub(crate) unstoppable: usize,
    /// They are of the other form.
    pub(crate) others: usize,
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
            CommandError::Other(format!("ERR Error compiling script (new function): {message}").into())
        })
    }

    /// The function that `found` is.
    ///
    /// # Errors
    /// Its library, which could be loaded before, cannot be loaded again.
    pub(crate) fn library_function(&mut self, found: &Found) -> Result<Function> {
        let Found { library, .. } = found;
        let interpreter = self.interpreter.as_mut().ok_or(GONE)?;
        if !interpreter.has_library(library.id) {
            interpreter.load_library(library.id, &library.code)?;
        }
        let function = interpreter.library_function(library.id, &found.spec().name);
        function.ok_or(CommandError::line("ERR Function not found"))
    }

    /// The script that runs has these tags in the profile.
    ///
    /// # Errors
    /// There is no interpreter.
    pub(crate) fn measure(&self, profile: &Arc<Profile>, tags: Tags) -> Result<()> {
        self.interpreter()?.control.measure(profile, tags);
        Ok(())
    }

    /// Runs the text of a library, and returns it with the functions that it registered.
    ///
    /// # Errors
    /// Its text is not Lua, or it ended with an error.
    pub(crate) fn load(&mut self, id: u64, name: &str, code: &[u8]) -> Result<FunctionLibrary> {
        let interpreter = self.interpreter.as_mut().ok_or(GONE)?;
        let functions: Vec<FunctionSpec> = interpreter.load_library(id, code)?;
        if functions.is_empty() {
            return Err(CommandError::line("ERR No functions registered"));
        }
        Ok(FunctionLibrary { id, name: name.into(), code: code.into(), functions })
    }

    pub(super) fn interpreter(&self) -> Result<&Interpreter> {
        self.interpreter.as_ref().ok_or(GONE)
    }
}

fn not_started(error: mlua::Error) -> CommandError {
    CommandError::Other(format!("ERR cannot start Lua: {error}").into())
}

const GONE: CommandError = CommandError::line("ERR the interpreter is gone");

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        let Some(interpreter) = self.interpreter.take() else {
            return;
        };
        interpreter.control.end();
        // After a panic the state may be anything.
        if std::thread::panicking() || !interpreter.is_reusable() || self.pool.budget.is_short() {
            return;
        }
        let mut idle = self.pool.idle.lock();
        if idle.len() < IDLE_MAX {
            idle.push(interpreter);
        }
    }
}
