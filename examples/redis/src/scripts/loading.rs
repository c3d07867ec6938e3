//! What a library may do while FUNCTION LOAD runs it: register functions, and write to the log.

use hashbrown::HashSet;
use mlua::{Function, Lua, MultiValue, Table, Value};

use super::api;
use super::functions::{BYTES_MAX, FunctionSpec};
use super::native::{self, Arguments, Errors, NativeFn, Outcome};
use super::shebang::{Flags, WRONG_NAME, is_name};

const FUNCTIONS: &[(&str, NativeFn)] = &[("log", api::log), ("register_function", register)];

/// The functions that the library has registered which runs now. The interpreter has it while it runs one.
#[derive(Debug)]
pub(super) struct Loading {
    pub(super) specs: Vec<FunctionSpec>,
    /// The functions themselves, by their names.
    pub(super) callbacks: Table,
    /// In lower case.
    names: HashSet<String>,
    bytes: usize,
}

/// What a call of `redis.register_function` says.
struct Registered {
    spec: FunctionSpec,
    callback: Function,
}

impl Loading {
    pub(super) fn new(lua: &Lua) -> mlua::Result<Self> {
        Ok(Self {
            specs: Vec::new(),
            callbacks: lua.create_table()?,
            names: HashSet::new(),
            bytes: 0,
        })
    }

    fn add(&mut self, function: Registered) -> Outcome<()> {
        let Registered { spec, callback } = function;
        self.bytes += spec.bytes();
        if self.bytes > BYTES_MAX {
            return Err("the library registers too many functions".into());
        }
        if !self.names.insert(spec.name.to_ascii_lowercase()) {
            return Err("Function already exists in the library".into());
        }
        self.callbacks.raw_set(&*spec.name, callback)?;
        self.specs.push(spec);
        Ok(())
    }
}

/// The table `redis` of a library that runs.
pub(super) fn table(lua: &Lua) -> mlua::Result<Table> {
    let table = native::table(lua, FUNCTIONS, Errors::Objects)?;
    api::set_versions_and_levels(&table)?;
    Ok(table)
}

fn register(lua: &Lua, args: &Arguments) -> Outcome {
    if lua.app_data_ref::<Loading>().is_none() {
        return Err("redis.register_function can only be called on FUNCTION LOAD command".into());
    }
    let function = match (args.len(), args.get(0)) {
        (1, Value::Table(named)) => of_named(lua, named)?,
        (1, _) => {
            return Err("calling redis.register_function with a single argument is only applicable to Lua table \
                        (representing named arguments)."
                .into());
        }
        (2, name) => of_positions(lua, name, args.get(1))?,
        _ => return Err("wrong number of arguments to redis.register_function".into()),
    };
    if let Some(mut loading) = lua.app_data_mut::<Loading>() {
        loading.add(function)?;
    }
    Ok(MultiValue::new())
}

fn of_positions(lua: &Lua, name: &Value, callback: &Value) -> Outcome<Registered> {
    let name = text(lua, name)?.ok_or("first argument to redis.register_function must be a string")?;
    let Value::Function(callback) = callback else {
        return Err("second argument to redis.register_function must be a function".into());
    };
    registered(&name, None, Flags::default(), callback.clone())
}

fn of_named(lua: &Lua, named: &Table) -> Outcome<Registered> {
    let (mut name, mut description, mut callback) = (None, None, None);
    let mut flags = Flags::default();
    for pair in named.pairs::<Value, Value>() {
        let (key, value) = pair?;
        let key = text(lua, &key)?.ok_or("named argument key given to redis.register_function is not a string")?;
        let key = key.to_string_lossy().to_ascii_lowercase();
        match &*key {
            "function_name" => {
                let given = text(lua, &value)?;
                name = Some(given.ok_or("function_name argument given to redis.register_function must be a string")?);
            }
            "description" => {
                let given = text(lua, &value)?;
                description =
                    Some(given.ok_or("description argument given to redis.register_function must be a string")?);
            }
            "callback" => match value {
                Value::Function(given) => callback = Some(given),
                _ => {
                    return Err("callback argument given to redis.register_function must be a function".into());
                }
            },
            "flags" => match value {
                Value::Table(given) => flags = flags_in(lua, &given)?,
                _ => {
                    return Err(
                        "flags argument to redis.register_function must be a table representing function flags".into(),
                    );
                }
            },
            _ => return Err("unknown argument given to redis.register_function".into()),
        }
    }
    let name = name.ok_or("redis.register_function must get a function name argument")?;
    let callback = callback.ok_or("redis.register_function must get a callback argument")?;
    registered(&name, description, flags, callback)
}

fn registered(
    name: &mlua::String,
    description: Option<mlua::String>,
    flags: Flags,
    callback: Function,
) -> Outcome<Registered> {
    let name = name.to_string_lossy();
    if !is_name(&name) {
        return Err(WRONG_NAME.into());
    }
    let description = description.map(|text| text.as_bytes().as_ref().into());
    let spec = FunctionSpec { name: name.into(), description, flags };
    Ok(Registered { spec, callback })
}

fn flags_in(lua: &Lua, names: &Table) -> Outcome<Flags> {
    let mut flags = Flags::default();
    for index in 1_i64.. {
        let value = names.raw_get::<Value>(index)?;
        if value.is_nil() {
            break;
        }
        let given = text(lua, &value)?.ok_or("unknown flag given")?;
        let given = given.to_string_lossy();
        let flag = Flags::find(|name| given.eq_ignore_ascii_case(name));
        flags = flags.with(flag.ok_or("unknown flag given")?);
    }
    Ok(flags)
}

/// What Lua takes for a text: a string or a number.
fn text(lua: &Lua, value: &Value) -> mlua::Result<Option<mlua::String>> {
    match value {
        Value::String(_) | Value::Integer(_) | Value::Number(_) => lua.coerce_string(value.clone()),
        _ => Ok(None),
    }
}
