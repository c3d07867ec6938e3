//! What a parameter of CONFIG is.

use std::borrow::Cow;

use crate::config::yes_or_no;
use crate::parse::Result;
use crate::state::ServerState;

/// A parameter of CONFIG.
pub(super) struct Parameter {
    pub(super) name: &'static str,
    value: Value,
    setter: Setter,
}

/// Success, or a message that names the possible values.
pub(super) type Setting = Result<(), Cow<'static, str>>;

/// What a parameter is set to.
enum Value {
    /// This function says it.
    Of(fn(&ServerState) -> String),
    /// It is kept for those who ask, under this name.
    Kept { name: &'static str, default: &'static str },
}

/// How to change a parameter.
#[derive(Clone, Copy)]
enum Setter {
    /// The parameter cannot change.
    Fixed,
    /// It is kept as it was at the start.
    AtStart,
    /// It is kept.
    Keep,
    /// This function sets the parameter. Its error names the possible values.
    By(fn(&ServerState, &[u8]) -> Setting),
    /// The same, for those whom `enable-protected-configs` names.
    Protected(fn(&ServerState, &[u8]) -> Setting),
}

impl Parameter {
    pub(super) const fn fixed(name: &'static str, get: fn(&ServerState) -> String) -> Self {
        Self { name, value: Value::Of(get), setter: Setter::Fixed }
    }

    pub(super) const fn protected(
        name: &'static str,
        get: fn(&ServerState) -> String,
        set: fn(&ServerState, &[u8]) -> Setting,
    ) -> Self {
        Self { name, value: Value::Of(get), setter: Setter::Protected(set) }
    }

    pub(super) const fn new(
        name: &'static str,
        get: fn(&ServerState) -> String,
        set: fn(&ServerState, &[u8]) -> Setting,
    ) -> Self {
        Self { name, value: Value::Of(get), setter: Setter::By(set) }
    }

    /// One that has no effect, and may have any value.
    pub(super) const fn kept(name: &'static str, default: &'static str) -> Self {
        Self {
            name,
            value: Value::Kept { name, default },
            setter: Setter::Keep,
        }
    }

    /// The same under an older name.
    pub(super) const fn alias(name: &'static str, of: &'static str, default: &'static str) -> Self {
        Self {
            name,
            value: Value::Kept { name: of, default },
            setter: Setter::Keep,
        }
    }

    /// One that has no effect, and that Redis does not change while it runs.
    pub(super) const fn at_start(name: &'static str, default: &'static str) -> Self {
        Self {
            name,
            value: Value::Kept { name, default },
            setter: Setter::AtStart,
        }
    }

    /// One whose value says that the server does not do something.
    pub(super) const fn only(name: &'static str, value: &'static str) -> Self {
        Self {
            name,
            value: Value::Kept { name, default: value },
            setter: Setter::Fixed,
        }
    }

    /// What it is set to.
    pub(super) fn get(&self, server: &ServerState) -> String {
        match self.value {
            Value::Of(get) => get(server),
            Value::Kept { name, default } => server.settings.kept(name).unwrap_or_else(|| default.to_owned()),
        }
    }

    /// Whether it stays as it is.
    pub(super) const fn is_fixed(&self) -> bool {
        matches!(self.setter, Setter::Fixed | Setter::AtStart)
    }

    /// Whether `enable-protected-configs` says who may set it.
    pub(super) const fn is_protected(&self) -> bool {
        matches!(self.setter, Setter::Protected(_))
    }

    /// Sets it. One that is fixed takes the value that it has.
    pub(super) fn set(&self, server: &ServerState, value: &[u8]) -> Setting {
        match self.setter {
            Setter::By(set) | Setter::Protected(set) => set(server, value),
            Setter::Keep => self.keep(server, value),
            Setter::Fixed | Setter::AtStart if self.get(server).as_bytes() == value => Ok(()),
            Setter::Fixed | Setter::AtStart => Err("can't set immutable config".into()),
        }
    }

    /// Sets it before the server runs.
    pub(super) fn set_at_start(&self, server: &ServerState, value: &[u8]) -> Setting {
        match self.setter {
            Setter::AtStart => self.keep(server, value),
            Setter::Fixed => self
                .set(server, value)
                .map_err(|_fixed| format!("it is '{}' here", self.get(server)).into()),
            _ => self.set(server, value),
        }
    }

    /// Keeps a value of the same form as the default.
    fn keep(&self, server: &ServerState, value: &[u8]) -> Setting {
        let Value::Kept { name, default } = self.value else {
            return Ok(());
        };
        let value = String::from_utf8_lossy(value);
        if yes_or_no(default).is_ok() {
            yes_or_no(&value)?;
        } else if default.parse::<i64>().is_ok() {
            // Some have a unit.
            crate::memory::parse_bytes(&value).map_err(|_| "argument couldn't be parsed into an integer")?;
        }
        server.settings.keep(name, value.into_owned());
        Ok(())
    }
}
