//! Functions in Rust that scripts call.
//!
//! They raise a [`Raised`] as an error of Rust, which Lua sees as a userdata. `sandbox.lua` turns it into what Redis's
//! functions raise wherever a script may catch it. All other errors of Rust stop the script.

use std::cell::Cell;
use std::sync::Arc;

use mlua::{Either, IntoLua, Lua, MultiValue, Table, Value};

use super::control::Control;

/// Most values that a function gives at once. As arguments of a native function each needs a place on a stack of mlua
/// that has 8000, beside up to 250 arguments that the script spells out; without a place, mlua panics.
pub(super) const VALUES_MAX: usize = 7700;

/// An error that scripts may catch.
#[derive(Debug, Clone, thiserror::Error)]
pub(super) enum Raised {
    /// Text, as Lua's own libraries raise it.
    #[error("{0}")]
    Text(String),
    /// The line of Redis's error object.
    #[error("{0}")]
    Object(String),
}

impl Raised {
    /// `message` with the line of the function that called the native one.
    fn text(lua: &Lua, message: &str) -> Self {
        let place = lua.inspect_stack(1, |debug| {
            let name = debug.source().short_src.unwrap_or_default().into_owned();
            debug.current_line().map(|line| format!("{name}:{line}: "))
        });
        Self::Text(place.flatten().unwrap_or_default() + message)
    }
}

/// The value of Lua that `error` stands for; `None` if it stops the script.
pub(super) fn value_of(lua: &Lua, error: &mlua::Error) -> mlua::Result<Option<Value>> {
    let raised = error.chain().find_map(|cause| cause.downcast_ref());
    Ok(match raised {
        Some(Raised::Text(text)) => Some(Value::String(lua.create_string(text)?)),
        Some(Raised::Object(line)) => Some(Value::Table(error_object(lua, line)?)),
        None => None,
    })
}

/// Redis's error object.
pub(super) fn error_object(lua: &Lua, line: &str) -> mlua::Result<Table> {
    let table = lua.create_table_with_capacity(0, 1)?;
    table.raw_set("err", lua.create_string(line)?)?;
    Ok(table)
}

/// What the functions of a table raise.
#[derive(Debug, Clone, Copy)]
pub(super) enum Errors {
    Texts,
    Objects,
}

/// Why a function fails.
#[derive(Debug)]
pub(super) enum Failure {
    /// The script made a mistake.
    Message(String),
    /// Lua has failed, mostly for want of memory.
    Lua(mlua::Error),
}

impl From<mlua::Error> for Failure {
    fn from(error: mlua::Error) -> Self {
        Self::Lua(error)
    }
}

impl From<&str> for Failure {
    fn from(message: &str) -> Self {
        Self::Message(message.to_owned())
    }
}

impl From<String> for Failure {
    fn from(message: String) -> Self {
        Self::Message(message)
    }
}

pub(super) type Outcome<T = MultiValue> = Result<T, Failure>;

/// A function that gets all its arguments.
pub(super) type NativeFn = fn(&Lua, &Arguments) -> Outcome;

/// The arguments of a call.
pub(super) struct Arguments(MultiValue);

impl Arguments {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Value> {
        self.0.iter()
    }

    /// The argument with this index from 0 on; nil if there is none.
    pub(super) fn get(&self, index: usize) -> &Value {
        self.0.get(index).unwrap_or(&Value::Nil)
    }

    /// The number in an argument, or that a text in it stands for.
    pub(super) fn number(&self, lua: &Lua, index: usize, function: &str) -> Outcome<f64> {
        let value = self.get(index);
        let number = match value {
            Value::Number(_) | Value::Integer(_) | Value::String(_) => lua.coerce_number(value.clone())?,
            _ => None,
        };
        number.ok_or_else(|| self.wrong(index, function, "number"))
    }

    /// The bytes of a text or a number.
    pub(super) fn text(&self, lua: &Lua, index: usize, function: &str) -> Outcome<mlua::String> {
        let value = self.get(index);
        let text = match value {
            Value::Number(_) | Value::Integer(_) | Value::String(_) => lua.coerce_string(value.clone())?,
            _ => None,
        };
        text.ok_or_else(|| self.wrong(index, function, "string"))
    }

    fn wrong(&self, index: usize, function: &str, expected: &str) -> Failure {
        let found = match self.0.get(index) {
            None => "no value",
            Some(value) => type_name(value),
        };
        let number = index + 1;
        format!("bad argument #{number} to '{function}' ({expected} expected, got {found})").into()
    }
}

/// The name of a value's type, as `type()` has it.
pub(super) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Integer(_) => "number",
        Value::LightUserData(_) | Value::Error(_) => "userdata",
        value => value.type_name(),
    }
}

/// Counts values that a native function walks, and yields now and then.
pub(super) struct Walk<'c> {
    control: &'c Control,
    values: Cell<usize>,
}

impl<'c> Walk<'c> {
    /// Values between two checkpoints.
    const VALUES: usize = 256;

    pub(super) fn new(control: &'c Control) -> Self {
        Self { control, values: Cell::new(0) }
    }

    /// Counts one more value. An error if the script must stop.
    pub(super) fn step(&self) -> mlua::Result<()> {
        let values = self.values.get() + 1;
        self.values.set(values % Self::VALUES);
        match values < Self::VALUES {
            true => Ok(()),
            false => self.control.pause().map_err(mlua::Error::external),
        }
    }

    /// Whether nested calls have used up the stack.
    pub(super) fn is_deep(&self) -> bool {
        self.control.is_deep()
    }
}

/// Runs `make`, which makes values of Lua that take `bytes` at most. If there is room for these, Lua does not look at
/// its limit meanwhile: mlua makes each value that may find no memory within a protected call, which takes longer than
/// the value.
///
/// `make` may call nothing of Lua that fails for other reasons: such an error would leave the functions of Rust between
/// it and the script. So the collector, whose finalizers may find no room on Lua's stack, has to wait.
pub(super) fn with_room<T>(lua: &Lua, bytes: usize, make: impl FnOnce() -> mlua::Result<T>) -> mlua::Result<T> {
    /// Has Lua collect again, and look at this limit.
    struct Limit<'l>(&'l Lua, usize);

    impl Drop for Limit<'_> {
        fn drop(&mut self) {
            self.0.gc_restart();
            // It was set before, so it can be set.
            let _ = self.0.set_memory_limit(self.1);
        }
    }

    let limit = lua.set_memory_limit(0)?;
    if limit < lua.used_memory().saturating_add(bytes) {
        lua.set_memory_limit(limit)?;
        return make();
    }
    lua.gc_stop();
    let _limit = Limit(lua, limit);
    make()
}

/// A value on its way to Lua. Numbers and texts in UTF-8 get there without a reference, which costs more than they do.
pub(super) type Made<T> = Either<f64, Either<T, Value>>;

/// A text on its way to Lua.
pub(super) fn text<'t>(lua: &Lua, bytes: &'t [u8]) -> mlua::Result<Made<&'t str>> {
    Ok(Either::Right(match std::str::from_utf8(bytes) {
        Ok(text) => Either::Left(text),
        Err(_) => Either::Right(Value::String(lua.create_string(bytes)?)),
    }))
}

/// The control of this state's interpreter.
pub(super) fn control(lua: &Lua) -> Outcome<Arc<Control>> {
    let control = lua.app_data_ref::<Arc<Control>>();
    let control = control.map(|control| Arc::clone(&control));
    control.ok_or_else(|| "the interpreter has no control".into())
}

/// What the keys of a table are like. The table is walked: a list of its values would need a reference for each, of
/// which there are no more than 8000.
pub(super) struct Shape {
    /// Number of pairs.
    pub(super) pairs: usize,
    /// The largest key if all are integers from 1 on; 0 for an empty table.
    pub(super) last_index: Option<usize>,
}

impl Shape {
    pub(super) fn of(table: &Table, walk: &Walk<'_>) -> mlua::Result<Self> {
        let mut shape = Self { pairs: 0, last_index: Some(0) };
        // A truth value takes no reference.
        for pair in table.pairs::<Value, bool>() {
            let (key, _) = pair?;
            walk.step()?;
            shape.pairs += 1;
            shape.last_index = shape.last_index.zip(index_of(&key)).map(|(a, b)| a.max(b));
        }
        Ok(shape)
    }
}

/// The index that `key` is, from 1 on.
pub(super) fn index_of(key: &Value) -> Option<usize> {
    let index = match key {
        Value::Integer(index) => usize::try_from(*index).ok()?,
        Value::Number(index) if index.fract() == 0.0 && *index >= 1.0 => *index as usize,
        _ => return None,
    };
    (index >= 1).then_some(index)
}

/// One result.
pub(super) fn one(lua: &Lua, value: impl IntoLua) -> Outcome {
    Ok(MultiValue::from_vec(vec![value.into_lua(lua)?]))
}

/// A table of `functions`.
pub(super) fn table(lua: &Lua, functions: &[(&str, NativeFn)], errors: Errors) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    for &(name, run) in functions {
        let function = lua.create_function(move |lua, arguments: MultiValue| {
            run(lua, &Arguments(arguments)).map_err(|failure| match (failure, errors) {
                (Failure::Lua(error), _) => error,
                (Failure::Message(message), Errors::Texts) => mlua::Error::external(Raised::text(lua, &message)),
                (Failure::Message(message), Errors::Objects) => {
                    mlua::Error::external(Raised::Object(format!("ERR {message}")))
                }
            })
        })?;
        table.raw_set(name, function)?;
    }
    Ok(table)
}
