//! A Lua state with the sandbox in it, and the scripts that it has compiled.

use std::sync::Arc;

use mlua::{ChunkMode, Function, HookTriggers, Lua, LuaOptions, StdLib, Table, Value, VmState};
use psp_server::{checkpoint, feedback};

use super::budget::{Budget, Share};
use super::control::{Control, Stop};
use super::functions::FunctionSpec;
use super::library::Script;
use super::loading::{self, Loading};
use super::native::{self, Errors, NativeFn, VALUES_MAX, Walk};
use super::shebang::code_of;
use super::{api, bit, cjson, cmsgpack, structs};
use crate::error::CommandError;
use crate::parse;

/// Instructions of Lua between two checkpoints.
const INSTRUCTIONS: u32 = 2000;
/// A state that holds more after its script is not used again.
const IDLE_BYTES_MAX: usize = 4 << 20;
/// Cycles of the collector after which a state that holds too much is not used again.
const CYCLES: usize = 3;
/// Kilobytes that the collector looks at between two checkpoints.
const STEP_KBYTES: i32 = 64;
/// Bytes of compiled scripts and libraries of a state, counted by their texts.
const COMPILED_BYTES_MAX: usize = 1 << 20;
/// What a script or a library takes at least.
const ENTRY_BYTES: usize = 200;

/// The name that errors give to scripts.
const SCRIPT_NAME: &str = "@user_script";
/// The name that errors give to libraries.
const LIBRARY_NAME: &str = "@user_function";
const SANDBOX_NAME: &str = "@sandbox";

/// Libraries by the names that scripts use.
const LIBRARIES: &[(&str, &[(&str, NativeFn)])] = &[
    ("bit", bit::FUNCTIONS),
    ("cjson", cjson::FUNCTIONS),
    ("cmsgpack", cmsgpack::FUNCTIONS),
    ("struct", structs::FUNCTIONS),
];

/// What a state has compiled, in tables of its own: there can be only 8000 references from Rust to values of Lua.
struct Compiled {
    /// Scripts by digest.
    scripts: Table,
    /// Libraries by number: tables of functions by name.
    libraries: Table,
    bytes: usize,
}

impl Compiled {
    fn new(lua: &Lua) -> mlua::Result<Self> {
        Ok(Self {
            scripts: lua.create_table()?,
            libraries: lua.create_table()?,
            bytes: 0,
        })
    }

    /// Counts a text of `len` bytes. If all are too long, those before it go.
    fn make_room(&mut self, lua: &Lua, len: usize) -> mlua::Result<()> {
        let bytes = len + ENTRY_BYTES;
        if self.bytes + bytes > COMPILED_BYTES_MAX {
            *self = Self::new(lua)?;
        }
        self.bytes += bytes;
        Ok(())
    }
}

/// One Lua state. It runs one script at a time.
pub(crate) struct Interpreter {
    pub(super) lua: Lua,
    pub(super) control: Arc<Control>,
    share: Arc<Share>,
    /// Runs a script with its `redis.call` and `redis.pcall`, or a function with its keys and arguments, too.
    pub(super) run: Function,
    /// Its first element is what a command's reply has become.
    pub(super) results: Table,
    /// Runs the text of a library.
    register: Function,
    globals: Table,
    environment: Table,
    library_environment: Table,
    compiled: Compiled,
}

impl std::fmt::Debug for Interpreter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Interpreter")
            .field("compiled_bytes", &self.compiled.bytes)
            .finish_non_exhaustive()
    }
}

impl Interpreter {
    /// A state that leases its memory from `budget`.
    ///
    /// # Errors
    /// There is no memory for it.
    pub(super) fn new(budget: Arc<Budget>) -> mlua::Result<Self> {
        let libraries = StdLib::STRING | StdLib::TABLE | StdLib::MATH | StdLib::OS;
        let lua = Lua::new_with(libraries, LuaOptions::new())?;
        let control = Arc::<Control>::default();
        let natives = natives(&lua, &control)?;
        let results = lua.create_table()?;
        natives.raw_set("results", &results)?;
        let sandbox = lua.load(include_str!("sandbox.lua")).set_name(SANDBOX_NAME).set_mode(ChunkMode::Text);
        let (run, register, globals, environment, library_environment) = sandbox.call(natives)?;
        let compiled = Compiled::new(&lua)?;
        let share = Arc::new(Share::new(budget));
        share.fit(&lua)?;
        let (hooked, hooked_share) = (Arc::clone(&control), Arc::clone(&share));
        lua.set_global_hook(HookTriggers::new().every_nth_instruction(INSTRUCTIONS), move |lua, _| {
            hooked.count().map_err(mlua::Error::external)?;
            hooked_share.fit(lua)?;
            Ok(VmState::Continue)
        })?;
        Ok(Self {
            lua,
            control,
            share,
            run,
            results,
            register,
            globals,
            environment,
            library_environment,
            compiled,
        })
    }

    /// Leases memory for the next script.
    ///
    /// # Errors
    /// The state has no limit.
    pub(super) fn fit_memory(&self) -> mlua::Result<()> {
        self.share.fit(&self.lua)
    }

    /// The function of `script`.
    ///
    /// # Errors
    /// Its text is not Lua.
    pub(super) fn function(&mut self, script: &Script) -> mlua::Result<Function> {
        let digest = self.lua.create_string(script.digest.bytes())?;
        if let Some(function) = self.compiled.scripts.raw_get(&digest)? {
            return Ok(function);
        }
        let function = self
            .lua
            .load(code_of(&script.body))
            .set_name(SCRIPT_NAME)
            .set_mode(ChunkMode::Text)
            .set_environment(self.environment.clone())
            .into_function()?;
        self.compiled.make_room(&self.lua, script.body.len())?;
        self.compiled.scripts.raw_set(digest, &function)?;
        Ok(function)
    }

    /// The functions of a library that has run here.
    fn library(&self, id: u64) -> mlua::Result<Option<Table>> {
        self.compiled.libraries.raw_get(id)
    }

    /// Whether the library with this number has run here.
    pub(super) fn has_library(&self, id: u64) -> bool {
        matches!(self.library(id), Ok(Some(_)))
    }

    /// A function of a library that has run here.
    pub(super) fn library_function(&self, id: u64, name: &str) -> Option<Function> {
        self.library(id).ok()??.raw_get(name).ok()
    }

    /// Runs the text of the library that has the number `id`. Returns the functions that it registered.
    ///
    /// # Errors
    /// The text is not Lua, or it ended with an error.
    pub(super) fn load_library(&mut self, id: u64, code: &[u8]) -> parse::Result<Vec<FunctionSpec>> {
        let chunk = self
            .lua
            .load(code_of(code))
            .set_name(LIBRARY_NAME)
            .set_mode(ChunkMode::Text)
            .set_environment(self.library_environment.clone())
            .into_function()
            .map_err(|error| failed("compiling function", &message_of(&error)))?;
        self.control.begin_library();
        let begun = Loading::new(&self.lua).map(|loading| self.lua.set_app_data(loading));
        let ended = begun.and_then(|_| self.register.call::<Value>(chunk));
        let loading = self.lua.remove_app_data::<Loading>();
        match ended {
            Ok(Value::Nil) => {}
            Ok(Value::String(line)) => {
                return Err(failed("registering functions", &line.to_string_lossy()));
            }
            Ok(Value::Error(error)) => return Err(stopped(&error)),
            Ok(_) => return Err(failed("registering functions", "ERR unknown error")),
            Err(error) => return Err(stopped(&error)),
        }
        let Some(Loading { specs, callbacks, .. }) = loading else {
            return Ok(Vec::new());
        };
        let kept = self.compiled.make_room(&self.lua, code.len());
        kept.and_then(|()| self.compiled.libraries.raw_set(id, callbacks))
            .map_err(|error| stopped(&error))?;
        Ok(specs)
    }

    /// Sets KEYS and ARGV.
    pub(super) fn set_arguments(&self, keys: &[&[u8]], args: &[&[u8]]) -> mlua::Result<()> {
        for (name, values) in [("KEYS", keys), ("ARGV", args)] {
            self.globals.raw_set(name, self.list(values)?)?;
        }
        Ok(())
    }

    /// A table of `values`.
    pub(super) fn list(&self, values: &[&[u8]]) -> mlua::Result<Table> {
        let table = self.lua.create_table_with_capacity(values.len(), 0)?;
        let walk = Walk::new(&self.control);
        for (index, value) in (1..).zip(values) {
            walk.step()?;
            table.raw_seti(index, self.lua.create_string(value)?)?;
        }
        Ok(table)
    }

    /// Whether another script may run in this state. Lets other requests run while it collects what the last one left.
    /// Only what the state holds stays leased.
    pub(super) fn is_reusable(&self) -> bool {
        let is_small = || self.lua.used_memory() <= IDLE_BYTES_MAX;
        // What became garbage while a cycle went on, the next one finds.
        let is_reusable = is_small() || (0..CYCLES).any(|_| self.collect().is_ok() && is_small());
        self.share.shrink(&self.lua);
        is_reusable
    }

    /// Ends a cycle of the collector, step by step.
    fn collect(&self) -> mlua::Result<()> {
        while !self.lua.gc_step_kbytes(STEP_KBYTES)? {
            checkpoint();
        }
        Ok(())
    }
}

fn failed(what: &str, reason: &str) -> CommandError {
    CommandError::Other(format!("ERR Error {what}: {reason}").into())
}

/// The error for a library that the server stopped.
fn stopped(error: &mlua::Error) -> CommandError {
    let stop = error.chain().find_map(|cause| cause.downcast_ref::<Stop>());
    let reason = stop.map_or_else(|| format!("ERR {}", message_of(error)), Stop::to_string);
    failed("registering functions", &reason)
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
    natives.raw_set("values_max", VALUES_MAX)?;
    natives.raw_set("redis", api::table(lua)?)?;
    natives.raw_set("loading", loading::table(lua)?)?;
    let value_of = lua.create_function(|lua, error: Value| match error {
        Value::Error(error) => native::value_of(lua, &error),
        _ => Ok(None),
    })?;
    natives.raw_set("value_of", value_of)?;
    natives.raw_set("load", lua.create_function(load)?)?;
    natives.raw_set("place", lua.create_function(|lua, ()| Ok(place(lua)))?)?;
    let begun = Arc::clone(control);
    let begins = lua.create_function(move |_, ()| {
        feedback::long();
        begun.pause().map_err(mlua::Error::external)
    })?;
    natives.raw_set("begins", begins)?;
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
    let chunk = lua.load(&*text).set_name(name).set_mode(ChunkMode::Text).set_environment(environment);
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
