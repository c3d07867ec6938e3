//! The thread that runs paused commands.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;

use psp_protocols::Sink;
use psp_protocols::resp::Encoder;
use psp_server::Body;

use super::Paused;
use crate::dispatch::{Outcome, dispatch};
use crate::scripts::control::STACK_BYTES_MIN;
use crate::state::ServerState;
use crate::stats::WorkerStats;
use crate::tracking::behind_late_reply;
use crate::transcript::Transcript;

/// Runs paused commands when they need not wait any more, until it is dropped.
#[derive(Debug)]
pub struct PauseThread {
    server: Arc<ServerState>,
}

impl PauseThread {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system has no thread.
    pub fn start(server: Arc<ServerState>) -> io::Result<Self> {
        let served = Arc::clone(&server);
        thread::Builder::new()
            .name("psp-paused".to_owned())
            // A script may run on it.
            .stack_size(STACK_BYTES_MIN)
            .spawn(move || {
                let stats = served.add_worker();
                while let Some(paused) = served.paused.next(&served) {
                    // A command that panics drops its reply, which tells the client.
                    let command = AssertUnwindSafe(|| run(&served, &stats, paused));
                    let _panicked = catch_unwind(command);
                }
            })?;
        Ok(Self { server })
    }
}

/// The thread ends when the command that it runs has ended. A program that ends does not wait for that.
impl Drop for PauseThread {
    fn drop(&mut self) {
        let paused = &self.server.paused;
        paused.state.lock().is_over = true;
        paused.changed.notify_one();
    }
}

fn run(server: &ServerState, stats: &WorkerStats, paused: Paused) {
    paused.client.set_blocked(false);
    if paused.reply.is_abandoned() {
        return paused.reply.discard();
    }
    let args: Vec<&[u8]> = paused.args.iter().map(|arg| &**arg).collect();
    let mut text = Transcript::new(usize::MAX);
    let client = &paused.client;
    let (id, request_type) = paused.command;
    let command = (id, request_type, Body::default());
    let outcome = dispatch(server, client, stats, command, &args, &mut text);
    let mut reply = paused.reply;
    if server.fence(client).is_some_and(|fence| psp_server::wait(fence).is_err()) {
        return reply.discard();
    }
    match outcome {
        Outcome::Keep | Outcome::Close => {
            let out: &mut dyn Sink = &mut *reply;
            let mut out = Encoder::new(out, client.version());
            text.copy_to(&mut out);
            if let Some(bytes) = behind_late_reply(client) {
                out.raw_shared(bytes);
            }
            if matches!(outcome, Outcome::Close) {
                server.clients.leave(client);
                reply.close();
            }
            reply.finish();
        }
        Outcome::Wait(command) => {
            let blocked = &server.clients.blocked;
            blocked.wait(server, stats, client, *command, reply);
        }
        Outcome::Pause => {
            let (client, command) = (paused.client, paused.command);
            server.paused.add(Paused { client, command, args: paused.args, reply });
        }
    }
}

#[cfg(test)]
mod tests {
    use psp_protocols::resp::CommandId;

    use super::*;
    use crate::command::CommandTable;
    use crate::pause::holds;
    use crate::testing::Session;

    #[test]
    fn writes_wait_for_the_end_of_a_pause() {
        let mut session = Session::new();
        let _thread = PauseThread::start(Arc::clone(&session.server)).expect("a thread");
        let mut other = session.beside();
        session.expect(&[("CLIENT PAUSE 1000000 WRITE", "+OK"), ("GET a", "$-1")]);
        other.expect(&[("SET a 1", "")]);
        assert_eq!(other.late(), None);
        session.expect(&[("GET a", "$-1"), ("SET", "-ERR wrong number of arguments for 'set' command")]);
        assert!(session.run("INFO clients").contains("blocked_clients:1\r\n"));
        assert!(session.run("CLIENT LIST").contains(" flags=b "));
        session.expect(&[("CLIENT UNPAUSE", "+OK")]);
        assert_eq!(other.late_soon(), "+OK");
        session.expect(&[("GET a", "$1 1")]);
    }

    #[test]
    fn a_pause_ends_with_its_time() {
        let mut session = Session::new();
        let _thread = PauseThread::start(Arc::clone(&session.server)).expect("a thread");
        let mut other = session.beside();
        session.expect(&[("CLIENT PAUSE 20", "+OK"), ("CONFIG GET save", "*2 $4 save $0")]);
        other.expect(&[("GET a", "")]);
        assert_eq!(other.late_soon(), "$-1");
        session.expect(&[("GET a", "$-1")]);
    }

    #[test]
    fn transactions_and_scripts_wait_if_they_may_write() {
        let session = Session::new();
        let mut session = session.beside();
        session.expect(&[
            ("MULTI", "+OK"),
            ("GET a", "+QUEUED"),
            ("CLIENT PAUSE 1000000 WRITE", "+QUEUED"),
            ("EXEC", "*2 $-1 +OK"),
            ("MULTI", "+OK"),
            ("GET a", "+QUEUED"),
            ("EXEC", "*1 $-1"),
        ]);
        for (line, is_held) in [
            ("SET a 1", true),
            ("PUBLISH a 1", true),
            ("PFCOUNT a", true),
            ("XGROUP CREATE s g $", true),
            ("EVALSHA nope 0", true),
            ("FCALL nope 0", true),
            ("EVAL_RO x 0", false),
            ("GET a", false),
            ("EXEC", false),
            ("CONFIG SET save x", false),
        ] {
            let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            let table = CommandTable::get();
            let spec = table.find(CommandId::of(args[0])).expect(line);
            assert_eq!(holds(&session.server, &session.client, spec, &args), is_held, "{line}");
        }
        let spec = CommandTable::get().find(CommandId::of(b"eval")).expect("eval");
        let reads = [&b"eval"[..], b"#!lua flags=no-writes\nreturn 1", b"0"];
        assert!(!holds(&session.server, &session.client, spec, &reads));
        assert!(holds(&session.server, &session.client, spec, &[b"eval", b"return 1", b"0"]));
        session.expect(&[
            ("CLIENT PAUSE x", "-ERR timeout is not an integer or out of range"),
            ("CLIENT PAUSE -1", "-ERR timeout is negative"),
            ("CLIENT PAUSE 0 SOME", "-ERR CLIENT PAUSE mode must be WRITE or ALL"),
            ("CLIENT PAUSE x SOME", "-ERR CLIENT PAUSE mode must be WRITE or ALL"),
            (
                "CLIENT PAUSE 1 ALL SOME",
                "-ERR unknown subcommand or wrong number of arguments for 'PAUSE'. Try CLIENT HELP.",
            ),
            ("CLIENT UNPAUSE", "+OK"),
        ]);
    }

    #[test]
    fn who_has_left_changes_nothing() {
        let mut session = Session::new();
        let _thread = PauseThread::start(Arc::clone(&session.server)).expect("a thread");
        let (mut other, mut last) = (session.beside(), session.beside());
        session.expect(&[("CLIENT PAUSE 1000000", "+OK")]);
        other.expect(&[("SET a 1", "")]);
        last.expect(&[("SET b 1", "")]);
        other.leave();
        session.expect(&[("CLIENT UNPAUSE", "+OK")]);
        assert_eq!(last.late_soon(), "+OK");
        session.expect(&[("EXISTS a b", ":1")]);
    }
}
