//! FCALL, FCALL_RO and FUNCTION.
//!
//! ```text
//!   FUNCTION LOAD ─► an interpreter runs the text ─► FunctionLibrary ─► Functions
//!   FCALL ─► Functions ─► an interpreter, which runs the text if it has not yet ─► Call
//! ```

use hashbrown::HashSet;
use quanta::Instant;

use crate::command::{Context, Flag, ReplyEncoder, Row, Subcommands};
use crate::effects::Told;
use crate::error::CommandError;
use crate::glob::{Pattern, Steps};
use crate::parse::{self, Result};
use crate::rdb::{self, Damaged, Malformed, Reader};
use crate::scripts::control::{Form, Task};
use crate::scripts::functions::{BYTES_MAX, FunctionLibrary, FunctionSpec, Policy};
use crate::scripts::profile;
use crate::scripts::shebang;
use crate::state::ServerState;

use super::pace::Pace;
use super::script_call::{Arguments, Call, lease};
use super::scripting;
use super::subcommand;

/// Rows of the command table.
pub(crate) const COMMANDS: &[Row] = &[
    Row::new("fcall", fcall).flags(&[Flag::MayReplicate]),
    Row::new("fcall_ro", fcall_ro),
    Row::container("function", SUBCOMMANDS).flags(&[Flag::NoScript]),
];

const SUBCOMMANDS: Subcommands = &[
    ("delete", delete),
    ("dump", dump),
    ("flush", flush),
    ("help", help),
    ("kill", kill),
    ("list", list),
    ("load", load),
    ("restore", restore),
    ("stats", stats),
];

/// The text of FUNCTION HELP, as in Redis.
const HELP: &[&str] = &[
    "LOAD [REPLACE] <FUNCTION CODE>",
    "    Create a new library with the given library name and code.",
    "DELETE <LIBRARY NAME>",
    "    Delete the given library.",
    "LIST [LIBRARYNAME PATTERN] [WITHCODE]",
    "    Return general information on all the libraries:",
    "    * Library name",
    "    * The engine used to run the Library",
    "    * Library description",
    "    * Functions list",
    "    * Library code (if WITHCODE is given)",
    "    It also possible to get only function that matches a pattern using LIBRARYNAME argument.",
    "STATS",
    "    Return information about the current function running:",
    "    * Function name",
    "    * Command used to run the function",
    "    * Duration in MS that the function is running",
    "    If no function is running, return nil",
    "    In addition, returns a list of available engines.",
    "KILL",
    "    Kill the current running function.",
    "FLUSH [ASYNC|SYNC]",
    "    Delete all the libraries.",
    "    When called without the optional mode argument, the behavior is determined by the",
    "    lazyfree-lazy-user-flush configuration directive. Valid modes are:",
    "    * ASYNC: Asynchronously flush the libraries.",
    "    * SYNC: Synchronously flush the libraries.",
    "DUMP",
    "    Return a serialized payload representing the current libraries, can be restored using FUNCTION RESTORE command",
    "RESTORE <PAYLOAD> [FLUSH|APPEND|REPLACE]",
    "    Restore the libraries represented by the given payload, it is possible to give a restore policy to",
    "    control how to handle existing libraries (default APPEND):",
    "    * FLUSH: delete all existing libraries.",
    "    * APPEND: appends the restored libraries to the existing libraries. On collision, abort.",
    "    * REPLACE: appends the restored libraries to the existing libraries, On collision, replace the old",
    "      libraries with the new libraries (notice that even on this option there is a chance of failure",
    "      in case of functions name collision with another library).",
];

/// The name of the only engine, as Redis writes it.
const ENGINE: &str = "LUA";

/// What begins a library in a payload.
const LIBRARY: u8 = 245;

fn fcall(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    call(context, args, false, out)
}

fn fcall_ro(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    call(context, args, true, out)
}

fn call(context: &mut Context<'_>, args: &[&[u8]], is_read_only: bool, out: &mut ReplyEncoder<'_>) -> Result<()> {
    let scripts = &context.server.scripts;
    let found = scripts.functions.find(args[1]);
    let found = found.ok_or(CommandError::line("ERR Function not found"))?;
    let count = parse::integer(args[2]);
    let count = count.map_err(|_text| CommandError::line("ERR Bad number of keys provided"))?;
    let arguments = Arguments::divide(count, &args[3..])?;
    let mut lease = lease(context.server, Task::Function(args))?;
    let function = lease.library_function(&found)?;
    let FunctionSpec { name, flags, .. } = found.spec();
    let call = Call {
        name,
        function: &function,
        arguments,
        flags: Some(*flags),
        is_read_only,
    };
    let tag = scripts.profile.tag_of_function(name.as_bytes());
    lease.measure(&scripts.profile, [tag, None])?;
    let (result, busy) = profile::timed(|| call.run(context, &lease, out));
    // The name may be another function's by now.
    if let Some(tag) = tag.filter(|_| scripts.functions.is_current(&found)) {
        scripts.profile.record(tag, busy);
    }
    result
}

fn help(_: &mut Context<'_>, _: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    subcommand::write_help("function", HELP, out);
    Ok(())
}

fn load(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    admit(context)?;
    let (code, options) = args[2..].split_last().ok_or(CommandError::Syntax)?;
    let is_replace = |option: &&&[u8]| !parse::is(option, "REPLACE");
    if let Some(option) = options.iter().find(is_replace) {
        return Err(unknown("Unknown option given:", option));
    }
    let policy = match options {
        [] => Policy::Append,
        _ => Policy::Replace,
    };
    let name = shebang::library_name(code)?;
    if policy == Policy::Append && context.server.scripts.functions.contains(&name) {
        return Err(already_exists(&name));
    }
    let library = compile(context.server, &name, code)?;
    add(context.server, vec![library], policy)?;
    out.bulk(name.as_bytes());
    Ok(())
}

/// Libraries count as writes that may store more.
fn admit(context: &Context<'_>) -> Result<()> {
    if context.server.is_out_of_memory(Instant::now()) {
        return Err(CommandError::OutOfMemory);
    }
    Ok(())
}

/// The library `name`, which an interpreter has run.
fn compile(server: &ServerState, name: &str, code: &[u8]) -> Result<FunctionLibrary> {
    let id = server.scripts.functions.next_id();
    lease(server, Task::Load)?.load(id, name, code)
}

/// Adds a library of a file.
///
/// # Errors
/// Its text is wrong, or a name is taken.
pub(crate) fn load_library(server: &ServerState, code: &[u8], policy: Policy) -> Result<()> {
    let name = shebang::library_name(code)?;
    let library = compile(server, &name, code)?;
    add(server, vec![library], policy)
}

/// Removes all libraries.
///
/// # Errors
/// None: there is nothing that could have no room.
pub(crate) fn remove_libraries(server: &ServerState) -> Result<()> {
    add(server, Vec::new(), Policy::Flush)
}

/// Adds libraries. The functions of those that go for others lose their measures.
fn add(server: &ServerState, libraries: Vec<FunctionLibrary>, policy: Policy) -> Result<()> {
    let journal = server.databases.journal();
    let told = Told::of(journal);
    if policy == Policy::Flush {
        told.says(&[b"FUNCTION", b"FLUSH"]);
    }
    for library in &libraries {
        told.adds(&[b"FUNCTION", b"LOAD", b"REPLACE", &library.code]);
    }
    let gone = server.scripts.functions.add(libraries, policy, || journal.record(&told));
    let gone = gone.map_err(|refused| CommandError::Other(refused.to_string().into()))?;
    for library in gone {
        forget(server, &library);
    }
    Ok(())
}

/// What will have the names of these functions is measured anew.
fn forget(server: &ServerState, library: &FunctionLibrary) {
    let profile = &server.scripts.profile;
    for function in &library.functions {
        if let Some(tag) = profile.tag_of_function(function.name.as_bytes()) {
            profile.forget(tag);
        }
    }
}

fn already_exists(name: &str) -> CommandError {
    CommandError::Other(format!("ERR Library '{name}' already exists").into())
}

fn unknown(what: &str, argument: &[u8]) -> CommandError {
    let argument = String::from_utf8_lossy(argument);
    CommandError::Other(format!("ERR {what} {argument}").into())
}

fn delete(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let name = str::from_utf8(args[2]).ok();
    let journal = context.server.databases.journal();
    let sent = context.sent(args);
    let remove = |name| context.server.scripts.functions.remove(name, || journal.record(&sent));
    let gone = name.and_then(remove);
    let gone = gone.ok_or(CommandError::line("ERR Library not found"))?;
    forget(context.server, &gone);
    out.simple("OK");
    Ok(())
}

/// ASYNC and SYNC act alike.
fn flush(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    match args[2..] {
        [] => {}
        [mode] if parse::is(mode, "ASYNC") || parse::is(mode, "SYNC") => {}
        [_] => {
            return Err(CommandError::line("ERR FUNCTION FLUSH only supports SYNC|ASYNC option"));
        }
        _ => return Err(subcommand::wrong_arguments("function", args[1])),
    }
    remove_libraries(context.server)?;
    out.simple("OK");
    Ok(())
}

fn kill(context: &mut Context<'_>, _: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    scripting::stop(context, Form::Function, out)
}

fn list(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let (mut with_code, mut pattern) = (false, None);
    let mut options = args[2..].iter();
    while let Some(option) = options.next() {
        if !with_code && parse::is(option, "WITHCODE") {
            with_code = true;
        } else if pattern.is_none() && parse::is(option, "LIBRARYNAME") {
            let given = options.next();
            let given = given.ok_or(CommandError::line("ERR library name argument was not given"))?;
            pattern = Some(given.to_ascii_lowercase());
        } else {
            return Err(unknown("Unknown argument", option));
        }
    }
    let mut libraries = context.server.scripts.functions.libraries();
    if let Some(pattern) = pattern {
        let (pattern, steps) = (Pattern::new(&pattern), Steps::new());
        libraries.retain(|library| pattern.matches(library.name.to_ascii_lowercase().as_bytes(), &steps));
    }
    out.array(libraries.len());
    let pace = Pace::new();
    for library in libraries {
        pace.step();
        write_library(&library, with_code, out);
    }
    Ok(())
}

fn write_library(library: &FunctionLibrary, with_code: bool, out: &mut ReplyEncoder<'_>) {
    out.map(3 + usize::from(with_code));
    out.bulk(b"library_name");
    out.bulk(library.name.as_bytes());
    out.bulk(b"engine");
    out.bulk(ENGINE.as_bytes());
    out.bulk(b"functions");
    out.array(library.functions.len());
    for function in &library.functions {
        out.map(3);
        out.bulk(b"name");
        out.bulk(function.name.as_bytes());
        out.bulk(b"description");
        match &function.description {
            Some(description) => out.bulk(description),
            None => out.null(),
        }
        out.bulk(b"flags");
        out.set(function.flags.names().count());
        for name in function.flags.names() {
            out.simple(name);
        }
    }
    if with_code {
        out.bulk(b"library_code");
        out.bulk(&library.code);
    }
}

/// The function that has been running longest: there may be several.
fn stats(context: &mut Context<'_>, _: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let scripts = &context.server.scripts;
    out.map(2);
    out.bulk(b"running_script");
    match scripts.pool.longest_function() {
        None => out.null(),
        Some((running, ms)) => {
            out.map(3);
            out.bulk(b"name");
            out.bulk(&running.name);
            out.bulk(b"command");
            out.raw(&running.command);
            out.bulk(b"duration_ms");
            out.integer(i64::try_from(ms).unwrap_or(i64::MAX));
        }
    }
    let (libraries, functions) = scripts.functions.counts();
    out.bulk(b"engines");
    out.map(1);
    out.bulk(ENGINE.as_bytes());
    out.map(2);
    for (name, count) in [("libraries_count", libraries), ("functions_count", functions)] {
        out.bulk(name.as_bytes());
        out.integer(i64::try_from(count).unwrap_or(i64::MAX));
    }
    Ok(())
}

/// A payload that redis-server restores, too.
fn dump(context: &mut Context<'_>, _: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let mut parts = Vec::new();
    for library in context.server.scripts.functions.libraries() {
        parts.push(LIBRARY);
        rdb::put_string(&library.code, &mut parts);
    }
    out.bulk_shared(rdb::seal(parts, &|| {}).into());
    Ok(())
}

fn restore(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    admit(context)?;
    let policy = match args[3..] {
        [] => Policy::Append,
        [policy] => policy_of(policy)?,
        _ => return Err(subcommand::wrong_arguments("function", args[1])),
    };
    let pace = Pace::new();
    let visit = || pace.step();
    let reader = rdb::open(args[2], &visit).map_err(Damaged::into_error)?;
    let libraries = read(context, reader)?;
    add(context.server, libraries, policy)?;
    out.simple("OK");
    Ok(())
}

fn policy_of(word: &[u8]) -> Result<Policy> {
    const POLICIES: [(&str, Policy); 3] =
        [("APPEND", Policy::Append), ("REPLACE", Policy::Replace), ("FLUSH", Policy::Flush)];
    let found = POLICIES.iter().find(|(name, _)| parse::is(word, name));
    let (_, policy) = found.ok_or(CommandError::line(
        "ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.",
    ))?;
    Ok(*policy)
}

/// Runs the libraries of a payload. Together they may be as long as all libraries of the server.
fn read(context: &Context<'_>, mut reader: Reader<'_>) -> Result<Vec<FunctionLibrary>> {
    let (mut libraries, mut names) = (Vec::new(), HashSet::new());
    let mut left = BYTES_MAX;
    while !reader.is_empty() {
        let opcode = reader.byte().unwrap_or_default();
        if opcode != LIBRARY {
            return Err(CommandError::line("ERR given type is not a function"));
        }
        let code = reader.string(left);
        let code = code.map_err(|Malformed| CommandError::line("ERR Failed loading library payload"))?;
        let name = shebang::library_name(&code)?;
        if names.contains(&name) {
            return Err(already_exists(&name));
        }
        let library = compile(context.server, &name, &code)?;
        left = left.saturating_sub(library.bytes());
        libraries.push(library);
        names.insert(name);
    }
    Ok(libraries)
}

#[cfg(test)]
mod tests;
