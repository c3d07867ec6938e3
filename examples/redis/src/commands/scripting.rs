//! EVAL, EVALSHA, their read-only forms, and SCRIPT.

use std::sync::Arc;

use crate::command::{Context, Flag, ReplyEncoder, Row, Subcommands};
use crate::error::CommandError;
use crate::parse::{self, Result};
use crate::scripts::control::{Form, Task};
use crate::scripts::digest::Digest;
use crate::scripts::library::Script;
use crate::scripts::pool::{Killed, Lease};
use crate::scripts::profile::{self, Tag};
use crate::scripts::shebang;

use super::script_call::{Arguments, Call, lease};
use super::subcommand;

/// Rows of the command table.
pub(crate) const COMMANDS: &[Row] = &[
    Row::new("eval", eval).flags(&[Flag::MayReplicate]),
    Row::new("eval_ro", eval_ro),
    Row::new("evalsha", evalsha).flags(&[Flag::MayReplicate]),
    Row::new("evalsha_ro", evalsha_ro),
    Row::container("script", SUBCOMMANDS).flags(&[Flag::NoScript]),
];

const SUBCOMMANDS: Subcommands = &[
    ("debug", debug),
    ("exists", exists),
    ("flush", flush),
    ("help", help),
    ("kill", kill),
    ("load", load),
    ("show", show),
];

/// The text of SCRIPT HELP, as in Redis.
const HELP: &[&str] = &[
    "DEBUG (YES|SYNC|NO)",
    "    Set the debug mode for subsequent scripts executed.",
    "EXISTS <sha1> [<sha1> ...]",
    "    Return information about the existence of the scripts in the script cache.",
    "FLUSH [ASYNC|SYNC]",
    "    Flush the Lua scripts cache. Very dangerous on replicas.",
    "    When called without the optional mode argument, the behavior is determined by the",
    "    lazyfree-lazy-user-flush configuration directive. Valid modes are:",
    "    * ASYNC: Asynchronously flush the scripts cache.",
    "    * SYNC: Synchronously flush the scripts cache.",
    "KILL",
    "    Kill the currently executing Lua script.",
    "LOAD <script>",
    "    Load a script into the scripts cache without executing it.",
];

/// `SCRIPT SHOW digest`, as in Valkey.
fn show(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let library = &context.server.scripts.library;
    let found = Digest::parse(args[2]).and_then(|digest| library.find(&digest));
    let script = found.ok_or(CommandError::line("NOSCRIPT No matching script. Please use EVAL."))?;
    out.bulk(&script.body);
    Ok(())
}

fn eval(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    call_body(context, args, false, out)
}

fn eval_ro(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    call_body(context, args, true, out)
}

fn evalsha(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    call_digest(context, args, false, out)
}

fn evalsha_ro(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    call_digest(context, args, true, out)
}

fn call_body(context: &mut Context<'_>, args: &[&[u8]], is_read_only: bool, out: &mut ReplyEncoder<'_>) -> Result<()> {
    let arguments = arguments(args)?;
    let scripts = &context.server.scripts;
    let body = args[1];
    let digest = Digest::of(body);
    let mut lease = lease(context.server, Task::Script)?;
    let script = match scripts.library.find(&digest) {
        Some(script) => script,
        None => {
            let script = compile(&mut lease, digest, body)?;
            scripts.library.add(&script);
            script
        }
    };
    let body_tag = scripts.profile.tag_of_body(body);
    call(context, &script, arguments, is_read_only, body_tag, &mut lease, out)
}

fn call_digest(
    context: &mut Context<'_>,
    args: &[&[u8]],
    is_read_only: bool,
    out: &mut ReplyEncoder<'_>,
) -> Result<()> {
    let arguments = arguments(args)?;
    let scripts = &context.server.scripts;
    let found = Digest::parse(args[1]).and_then(|digest| scripts.library.find(&digest));
    let script = found.ok_or(CommandError::line("NOSCRIPT No matching script. Please use EVAL."))?;
    let mut lease = lease(context.server, Task::Script)?;
    call(context, &script, arguments, is_read_only, None, &mut lease, out)
}

fn arguments<'a>(args: &'a [&'a [u8]]) -> Result<Arguments<'a>> {
    Arguments::divide(parse::integer(args[2])?, &args[3..])
}

/// The script with this body, if it is Lua.
fn compile(lease: &mut Lease<'_>, digest: Digest, body: &[u8]) -> Result<Arc<Script>> {
    let flags = shebang::flags_of(body)?;
    let script = Arc::new(Script::new(digest, body, flags));
    lease.function(&script)?;
    Ok(script)
}

/// Runs `script` and lets the classifier know how long that took. `body_tag` is the tag under which the classifier
/// knows the body, too.
fn call(
    context: &mut Context<'_>,
    script: &Script,
    arguments: Arguments<'_>,
    is_read_only: bool,
    body_tag: Option<Tag>,
    lease: &mut Lease<'_>,
    out: &mut ReplyEncoder<'_>,
) -> Result<()> {
    let function = lease.function(script)?;
    let call = Call {
        name: &script.digest,
        function: &function,
        arguments,
        flags: script.flags,
        is_read_only,
    };
    let profile = &context.server.scripts.profile;
    let tags = [Some(profile.tag_of_digest(&script.digest)), body_tag];
    lease.measure(profile, tags)?;
    let (result, busy) = profile::timed(|| call.run(context, lease, out));
    for tag in tags.into_iter().flatten() {
        profile.record(tag, busy);
    }
    result
}

fn help(_: &mut Context<'_>, _: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    subcommand::write_help("script", HELP, out);
    Ok(())
}

fn load(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let digest = Digest::of(args[2]);
    let mut lease = lease(context.server, Task::Script)?;
    let library = &context.server.scripts.library;
    let script = match library.find(&digest) {
        Some(script) => script,
        None => compile(&mut lease, digest, args[2])?,
    };
    library
        .load(&script)
        .map_err(|_full| CommandError::line("ERR too many bytes of scripts are loaded: SCRIPT FLUSH removes them"))?;
    out.bulk(digest.to_string().as_bytes());
    Ok(())
}

fn exists(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let library = &context.server.scripts.library;
    out.array(args.len() - 2);
    for digest in &args[2..] {
        let digest = Digest::parse(digest);
        out.integer(digest.is_some_and(|digest| library.contains(&digest)).into());
    }
    Ok(())
}

fn flush(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    match args[2..] {
        [] => {}
        [mode] if parse::is(mode, "ASYNC") || parse::is(mode, "SYNC") => {}
        _ => {
            return Err(CommandError::line("ERR SCRIPT FLUSH only support SYNC|ASYNC option"));
        }
    }
    context.server.scripts.library.clear();
    out.simple("OK");
    Ok(())
}

fn kill(context: &mut Context<'_>, _: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    stop(context, Form::Script, out)
}

/// SCRIPT KILL and FUNCTION KILL: stops all scripts, or all functions, that have been running for long.
pub(super) fn stop(context: &Context<'_>, form: Form, out: &mut ReplyEncoder<'_>) -> Result<()> {
    let Killed { stopped, unstoppable, others } = context.server.scripts.pool.kill(form);
    let line = match (stopped, unstoppable, others, form) {
        (0, 0, 0, _) => "NOTBUSY No scripts in execution right now.",
        (0, 0, _, Form::Script) => {
            "BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE."
        }
        (0, 0, _, _) => "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
        (0, ..) => {
            "UNKILLABLE Sorry the script already executed write commands against the dataset within a \
             transaction. Wait until the transaction ends."
        }
        _ => {
            out.simple("OK");
            return Ok(());
        }
    };
    Err(CommandError::line(line))
}

/// There is no debugger.
fn debug(_: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let is = |mode| parse::is(args[2], mode);
    if is("NO") {
        out.simple("OK");
        return Ok(());
    }
    Err(CommandError::line(if is("YES") || is("SYNC") {
        "ERR the debugger of scripts is not supported"
    } else {
        "ERR Use SCRIPT DEBUG YES/SYNC/NO"
    }))
}
