//! Which user a connection is.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use parking_lot::Mutex;
use psp_server::no_preempt;

use super::user::User;

/// What a connection may do, as far as this is known without looking at its commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Access {
    /// It has to authenticate first.
    None,
    /// Each command is checked.
    Checked,
    /// Everything.
    All,
}

/// The user of one connection. Its own requests change it, and those that change users.
#[derive(Debug)]
pub struct Account {
    /// An [`Access`], for commands to read. Changed under the lock alone.
    access: AtomicU8,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    user: Arc<User>,
    is_authenticated: bool,
}

impl State {
    /// A connection that has not authenticated is the default user.
    fn access(&self) -> Access {
        if !self.is_authenticated && !self.user.is_open() {
            Access::None
        } else if self.user.is_unrestricted() {
            Access::All
        } else {
            Access::Checked
        }
    }
}

impl Account {
    /// A new connection, which is the default user.
    pub(super) fn new(default: Arc<User>) -> Self {
        let state = State { is_authenticated: default.is_open(), user: default };
        Self {
            access: AtomicU8::new(state.access() as u8),
            state: Mutex::new(state),
        }
    }

    /// What the connection may do now.
    #[inline]
    #[must_use]
    pub fn access(&self) -> Access {
        match self.access.load(Ordering::Relaxed) {
            0 => Access::None,
            1 => Access::Checked,
            _ => Access::All,
        }
    }

    /// The user.
    #[must_use]
    pub fn user(&self) -> Arc<User> {
        no_preempt(|| Arc::clone(&self.state.lock().user))
    }

    /// Makes the connection another user.
    pub(super) fn set(&self, user: &Arc<User>, is_authenticated: bool) {
        self.change(|state| {
            state.user = Arc::clone(user);
            state.is_authenticated = is_authenticated;
        });
    }

    /// `changed` is a user as it is from now on. Returns whether it is that of this connection.
    pub(super) fn replace(&self, changed: &Arc<User>) -> bool {
        self.change(|state| {
            let is_own = state.user.name() == changed.name();
            if is_own {
                state.user = Arc::clone(changed);
            }
            is_own
        })
    }

    fn change<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        no_preempt(|| {
            let mut state = self.state.lock();
            let result = change(&mut state);
            self.access.store(state.access() as u8, Ordering::Relaxed);
            result
        })
    }
}
