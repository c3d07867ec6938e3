//! EVAL, EVALSHA, their read-only forms, and SCRIPT.
//!
//! A script runs on a fork of the keyspace, as a transaction does: other clients see all that it did or nothing, and no
//! lock is held while it runs. If another client changed one of its keys meanwhile, it runs again.

use std::sync::Arc;
use std::time::Instant;

use psp_store::Keyspace;

use crate::command::{CommandSpec, Context, Flag, ReplyEncoder};
use crate::error::CommandError;
use crate::parse::{self, Result};
use crate::scripts::digest::Digest;
use crate::scripts::library::Script;
use crate::scripts::pool::Lease;
use crate::scripts::profile::Tag;
use crate::scripts::run::{Ended, Run};
use crate::scripts::shebang;
use crate::transaction::TransactionState;
use crate::transcript::Transcript;

use super::subcommand::{self, Subcommand};

/// Rows of the command table.
pub(crate) const COMMANDS: &[CommandSpec] = &[
    CommandSpec::new("eval", -3, eval).flags(&[Flag::NoScript]),
    CommandSpec::new("eval_ro", -3, eval_ro).flags(&[Flag::NoScript, Flag::Readonly]),
    CommandSpec::new("evalsha", -3, evalsha).flags(&[Flag::NoScript]),
    CommandSpec::new("evalsha_ro", -3, evalsha_ro).flags(&[Flag::NoScript, Flag::Readonly]),
    CommandSpec::new("script", -2, script)
        .flags(&[Flag::NoScript])
        .subcommands(SUBCOMMANDS),
];

const SUBCOMMANDS: &[Subcommand] = &[
    Subcommand::new("debug", 3, debug),
    Subcommand::new("exists", -3, exists),
    Subcommand::new("flush", -2, flush),
    Subcommand::new("kill", 2, kill),
    Subcommand::new("load", 3, load),
];

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

fn call_body(
    context: &mut Context<'_>,
    args: &[&[u8]],
    is_read_only: bool,
    out: &mut ReplyEncoder<'_>,
) -> Result<()> {
    let arguments = Arguments::parse(args)?;
    let scripts = &context.server.scripts;
    let body = args[1];
    let digest = Digest::of(body);
    let mut lease = lease(context)?;
    let script = match scripts.library.find(&digest) {
        Some(script) => script,
        None => {
            let script = compile(&mut lease, digest, body)?;
            scripts.library.add(&script);
            script
        }
    };
    let call = Call {
        script: &script,
        arguments,
        is_read_only,
        body_tag: scripts.profile.tag_of_body(body),
    };
    call.run(context, &mut lease, out)
}

fn call_digest(
    context: &mut Context<'_>,
    args: &[&[u8]],
    is_read_only: bool,
    out: &mut ReplyEncoder<'_>,
) -> Result<()> {
    let arguments = Arguments::parse(args)?;
    let scripts = &context.server.scripts;
    let found = Digest::parse(args[1]).and_then(|digest| scripts.library.find(&digest));
    let script = found.ok_or(CommandError::line(
        "NOSCRIPT No matching script. Please use EVAL.",
    ))?;
    let mut lease = lease(context)?;
    let call = Call {
        script: &script,
        arguments,
        is_read_only,
        body_tag: None,
    };
    call.run(context, &mut lease, out)
}

fn lease<'s>(context: &Context<'s>) -> Result<Lease<'s>> {
    let limit_ms = context.server.settings.script_time_limit_ms();
    context.server.scripts.pool.lease(limit_ms)
}

/// The script with this body, if it is Lua.
fn compile(lease: &mut Lease<'_>, digest: Digest, body: &[u8]) -> Result<Arc<Script>> {
    let flags = shebang::flags_of(body)?;
    let script = Arc::new(Script::new(digest, body, flags));
    lease.function(&script)?;
    Ok(script)
}

/// The keys and the other arguments of a call.
struct Arguments<'a> {
    keys: &'a [&'a [u8]],
    args: &'a [&'a [u8]],
}

impl<'a> Arguments<'a> {
    fn parse(args: &'a [&'a [u8]]) -> Result<Self> {
        let count = parse::integer(args[2])?;
        let count = usize::try_from(count)
            .map_err(|_negative| CommandError::line("ERR Number of keys can't be negative"))?;
        let (keys, args) = args[3..].split_at_checked(count).ok_or(CommandError::line(
            "ERR Number of keys can't be greater than number of args",
        ))?;
        Ok(Self { keys, args })
    }
}

/// One call of a script.
struct Call<'a> {
    script: &'a Arc<Script>,
    arguments: Arguments<'a>,
    is_read_only: bool,
    /// Under which the classifier knows the body, too.
    body_tag: Option<Tag>,
}

impl Call<'_> {
    fn run(
        &self,
        context: &mut Context<'_>,
        lease: &mut Lease<'_>,
        out: &mut ReplyEncoder<'_>,
    ) -> Result<()> {
        let function = lease.function(self.script)?;
        let server = context.server;
        let started = Instant::now();
        let flags = self.script.flags;
        let is_out_of_memory = !flags.allow_oom && server.is_out_of_memory(started);
        let limit_bytes = server.settings.config.server.reply_bytes_max;
        let is_within_transaction = context.store.is_fork();
        let Arguments { keys, args } = self.arguments;
        let run = |store: &Keyspace| {
            let mut reply = Transcript::new(limit_bytes);
            let run = Run {
                context,
                store,
                is_read_only: self.is_read_only || flags.no_writes,
                is_out_of_memory,
                is_within_transaction,
            };
            let ended = run.run(
                lease,
                &function,
                &self.script.digest,
                (keys, args),
                &mut reply,
            );
            if let Err(Ended::Stopped(_)) = ended
                && !is_within_transaction
            {
                store.roll_back();
            }
            ended.map(|()| reply)
        };
        let ended = if is_within_transaction {
            run(context.store)
        } else {
            TransactionState::commit(&server.store, &[], run)
                .ok_or(CommandError::line("ERR the script was not carried out"))?
        };
        self.record(context, started);
        match ended {
            Ok(reply) if reply.is_too_long() => Err(CommandError::line(
                "ERR the reply of the script, which was carried out, is longer than reply-bytes-max",
            )),
            Ok(reply) => {
                reply.copy_to(out);
                Ok(())
            }
            Err(Ended::Failed(error) | Ended::Stopped(error)) => Err(error),
        }
    }

    /// Lets the classifier know how long the call took.
    fn record(&self, context: &Context<'_>, started: Instant) {
        let busy = started.elapsed();
        let profile = &context.server.scripts.profile;
        let tag = profile.tag_of_digest(&self.script.digest);
        for tag in [Some(tag), self.body_tag].into_iter().flatten() {
            profile.record(tag, busy);
        }
    }
}

fn script(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    subcommand::run("script", SUBCOMMANDS, context, args, out)
}

fn load(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let digest = Digest::of(args[2]);
    let mut lease = lease(context)?;
    let library = &context.server.scripts.library;
    let script = match library.find(&digest) {
        Some(script) => script,
        None => compile(&mut lease, digest, args[2])?,
    };
    library.load(&script).map_err(|_full| {
        CommandError::line("ERR too many bytes of scripts are loaded: SCRIPT FLUSH removes them")
    })?;
    out.bulk(digest.to_string().as_bytes());
    Ok(())
}

fn exists(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let library = &context.server.scripts.library;
    out.array(args.len() - 2);
    for digest in &args[2..] {
        let digest = Digest::parse(digest);
        out.integer(
            digest
                .is_some_and(|digest| library.contains(&digest))
                .into(),
        );
    }
    Ok(())
}

fn flush(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    match args[2..] {
        [] => {}
        [mode] if parse::is(mode, "ASYNC") || parse::is(mode, "SYNC") => {}
        _ => {
            return Err(CommandError::line(
                "ERR SCRIPT FLUSH only support SYNC|ASYNC option",
            ));
        }
    }
    context.server.scripts.library.clear();
    out.simple("OK");
    Ok(())
}

fn kill(context: &mut Context<'_>, _: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let busy_ms = context.server.settings.busy_reply_threshold_ms();
    match context.server.scripts.pool.kill(busy_ms) {
        (0, 0) => Err(CommandError::line(
            "NOTBUSY No scripts in execution right now.",
        )),
        (0, _) => Err(CommandError::line(
            "UNKILLABLE Sorry the script already executed write commands against the dataset within a \
             transaction. Wait until the transaction ends.",
        )),
        _ => {
            out.simple("OK");
            Ok(())
        }
    }
}

/// There is no debugger.
fn debug(_: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    if !parse::is(args[2], "NO") {
        return Err(CommandError::line(
            "ERR the debugger of scripts is not supported",
        ));
    }
    out.simple("OK");
    Ok(())
}
