//! A Lua state with the sandbox in it, and the scripts that it has compiled.

use std::sync::Arc;

use hashbrown::HashMap;
use mlua::{ChunkMode, Function, HookTriggers, Lua, LuaOptions, StdLib, Table, Value, VmState};

use super::control::Control;
use super::digest::Digest;
use super::library::Script;
use super::native::{self, Errors, NativeFn};
use super::shebang::code_of;
use super::{api, bit, cjson, cmsgpack, structs};

/// Instructions of Lua between two checkpoints.
const INSTRUCTIONS: u32 = 2000;
/// Bytes that a script may hold.
const BYTES_MAX: usize = 256 << 20;
/// A state that holds more after its script is not used again.
const IDLE_BYTES_MAX: usize = 4 << 20;
/// Bytes of compiled scripts of a state, counted by their bodies.
const COMPILED_BYTES_MAX: usize = 1 << 20;

/// The name that errors give to scripts.
const SCRIPT_NAME: &str = "@user_script";
const SANDBOX_NAME: &str = "@sandbox";

/// Libraries by the names that scripts use.
const LIBRARIES: &[(&str, &[(&str, NativeFn)])] = &[
    ("bit", bit::FUNCTIONS),
    ("cjson", cjson::FUNCTIONS),
    ("cmsgpack", cmsgpack::FUNCTIONS),
    ("struct", structs::FUNCTIONS),
];

/// One Lua state. It runs one script at a time.
pub(crate) struct Interpreter {
    pub(super) lua: Lua,
    pub(super) control: Arc<Control>,
    /// Runs a script with its `redis.call` and `redis.pcall`.
    pub(super) run: Function,
    globals: Table,
    environment: Table,
    compiled: HashMap<Digest, Function>,
    compiled_bytes: usize,
}

impl std::fmt::Debug for Interpreter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Interpreter")
            .field("compiled", &self.compiled.len())
            .finish_non_exhaustive()
    }
}

impl Interpreter {
    pub(super) fn new() -> mlua::Result<Self> {
        let libraries = StdLib::STRING | StdLib::TABLE | StdLib::MATH | StdLib::OS;
        let lua = Lua::new_with(libraries, LuaOptions::new())?;
        let control = Arc::<Control>::default();
        let natives = natives(&lua, &control)?;
        let sandbox = lua
            .load(include_str!("sandbox.lua"))
            .set_name(SANDBOX_NAME)
            .set_mode(ChunkMode::Text);
        let (run, globals, environment) = sandbox.call(natives)?;
        lua.set_memory_limit(BYTES_MAX)?;
        let hooked = Arc::clone(&control);
        lua.set_global_hook(
            HookTriggers::new().every_nth_instruction(INSTRUCTIONS),
            move |_, _| {
                hooked.pause().map_err(mlua::Error::external)?;
                Ok(VmState::Continue)
            },
        )?;
        Ok(Self {
            lua,
            control,
            run,
            globals,
            environment,
            compiled: HashMap::new(),
            compiled_bytes: 0,
        })
    }

    /// The function of `script`.
    ///
    /// # Errors
    /// Its text is not Lua.
    pub(super) fn function(&mut self, script: &Script) -> mlua::Result<Function> {
        if let Some(function) = self.compiled.get(&script.digest) {
            return Ok(function.clone());
        }
        let function = self
            .lua
            .load(code_of(&script.body))
            .set_name(SCRIPT_NAME)
            .set_mode(ChunkMode::Text)
            .set_environment(self.environment.clone())
            .into_function()?;
        self.compiled_bytes += script.body.len();
        if self.compiled_bytes > COMPILED_BYTES_MAX {
            self.compiled.clear();
            self.compiled_bytes = script.body.len();
        }
        self.compiled.insert(script.digest, function.clone());
        Ok(function)
    }

    /// Sets KEYS and ARGV.
    pub(super) fn set_arguments(&self, keys: &[&[u8]], args: &[&[u8]]) -> mlua::Result<()> {
        for (name, values) in [("KEYS", keys), ("ARGV", args)] {
            let table = self.lua.create_table_with_capacity(values.len(), 0)?;
            for (index, value) in (1..).zip(values) {
                table.raw_seti(index, self.lua.create_string(value)?)?;
            }
            self.globals.raw_set(name, table)?;
        }
        Ok(())
    }

    /// Whether another script may run in this state.
    pub(super) fn is_reusable(&self) -> bool {
        if self.lua.used_memory() <= IDLE_BYTES_MAX {
            return true;
        }
        self.lua.gc_collect().is_ok() && self.lua.used_memory() <= IDLE_BYTES_MAX
    }
}

/// What `sandbox.lua` gets.
fn natives(lua: &Lua, control: &Arc<Control>) -> mlua::Result<Table> {
    let natives = lua.create_table()?;
    let libraries = lua.create_table()?;
    for (name, functions) in LIBRARIES {
        libraries.raw_set(*name, native::table(lua, functions, Errors::Texts)?)?;
    }
    natives.raw_set("libraries", libraries)?;
    natives.raw_set("null", Value::NULL)?;
    natives.raw_set("redis", api::table(lua)?)?;
    let value_of = lua.create_function(|lua, error: Value| match error {
        Value::Error(error) => native::value_of(lua, &error),
        _ => Ok(None),
    })?;
    natives.raw_set("value_of", value_of)?;
    natives.raw_set("load", lua.create_function(load)?)?;
    natives.raw_set("place", lua.create_function(|lua, ()| Ok(place(lua)))?)?;
    lua.set_app_data(Arc::clone(control));
    let control = Arc::clone(control);
    let is_deep = lua.create_function(move |_, ()| Ok(control.is_deep()))?;
    natives.raw_set("is_deep", is_deep)?;
    Ok(natives)
}

/// `loadstring` for text; compiled code is refused. Nil and a message on error.
fn load(
    lua: &Lua,
    (environment, text, name): (Table, mlua::String, Option<mlua::String>),
) -> mlua::Result<(Value, Option<mlua::String>)> {
    let name = name.unwrap_or_else(|| text.clone()).to_string_lossy();
    let text = text.as_bytes();
    let chunk = lua
        .load(&*text)
        .set_name(name)
        .set_mode(ChunkMode::Text)
        .set_environment(environment);
    match chunk.into_function() {
        Ok(function) => Ok((Value::Function(function), None)),
        Err(error) => {
            let message = lua.create_string(message_of(&error))?;
            Ok((Value::Nil, Some(message)))
        }
    }
}

/// The file and the line of the script that an error handler looks at.
fn place(lua: &Lua) -> (Option<String>, Option<usize>) {
    for level in 1.. {
        let found = lua.inspect_stack(level, |debug| {
            let source = debug.source();
            let name = source.source.unwrap_or_default().into_owned();
            let is_script = source.what != "C" && debug.current_line().is_some();
            (is_script && name != SANDBOX_NAME).then(|| (name, debug.current_line()))
        });
        match found {
            None => break,
            Some(None) => {}
            Some(Some((name, line))) => return (Some(name), line),
        }
    }
    (None, None)
}

/// The message of Lua, without what mlua adds.
pub(super) fn message_of(error: &mlua::Error) -> String {
    match error {
        mlua::Error::SyntaxError { message, .. }
        | mlua::Error::RuntimeError(message)
        | mlua::Error::MemoryError(message) => {
            let end = message.find("\nstack traceback:");
            message[..end.unwrap_or(message.len())].to_owned()
        }
        mlua::Error::CallbackError { cause, .. } => message_of(cause),
        error => error.to_string(),
    }
}
