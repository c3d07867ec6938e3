//! ACL.

use rand::RngExt as _;

use super::subcommand::{write_help, wrong_arguments};
use crate::acl::categories::Categories;
use crate::acl::{Closing, DEFAULT, Denial, Selector};
use crate::command::{CommandTable, Context, Entry, Flag, ReplyEncoder, Row, Subcommands};
use crate::error::{CommandError, quotable};
use crate::parse::{self, Result};
use psp_protocols::resp::{CATEGORIES, CommandId};
use psp_store::unix_time_ms;

/// Rows of the command table.
pub(crate) const COMMANDS: &[Row] = &[Row::container("acl", SUBCOMMANDS).flags(&[Flag::Admin, Flag::NoScript])];

const SUBCOMMANDS: Subcommands = &[
    ("cat", cat),
    ("deluser", deluser),
    ("dryrun", dryrun),
    ("genpass", genpass),
    ("getuser", getuser),
    ("help", help),
    ("list", list),
    ("load", load),
    ("log", log),
    ("save", save),
    ("setuser", setuser),
    ("users", users),
    ("whoami", whoami),
];

/// The text of ACL HELP, as in Redis.
const HELP: &[&str] = &[
    "CAT [<category>]",
    "    List all commands that belong to <category>, or all command categories",
    "    when no category is specified.",
    "DELUSER <username> [<username> ...]",
    "    Delete a list of users.",
    "DRYRUN <username> <command> [<arg> ...]",
    "    Returns whether the user can execute the given command without executing the command.",
    "GETUSER <username>",
    "    Get the user's details.",
    "GENPASS [<bits>]",
    "    Generate a secure 256-bit user password. The optional `bits` argument can",
    "    be used to specify a different size.",
    "LIST",
    "    Show users details in config file format.",
    "LOAD",
    "    Reload users from the ACL file.",
    "LOG [<count> | RESET]",
    "    Show the ACL log entries.",
    "SAVE",
    "    Save the current config to the ACL file.",
    "SETUSER <username> <attribute> [<attribute> ...]",
    "    Create or modify a user with the specified attributes.",
    "USERS",
    "    List all the registered usernames.",
    "WHOAMI",
    "    Return the current connection username.",
];

/// Bits of a password that GENPASS makes without a number, and the most that it makes.
const GENPASS_BITS: i64 = 256;
const GENPASS_BITS_MAX: i64 = 4096;

/// Entries that ACL LOG shows without a count.
const LOG_COUNT: i64 = 10;

fn help(_: &mut Context<'_>, _: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    write_help("acl", HELP, out);
    Ok(())
}

fn error(line: String) -> CommandError {
    CommandError::Other(line.into())
}

fn write_number(number: u64, out: &mut ReplyEncoder<'_>) {
    out.integer(i64::try_from(number).unwrap_or(i64::MAX));
}

/// `ACL CAT [category]`.
fn cat(_: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let names: Vec<&str> = match args[2..] {
        [] => CATEGORIES.to_vec(),
        [name] => {
            let category =
                Categories::one(name).ok_or_else(|| error(format!("ERR Unknown category '{}'", quotable(name))))?;
            let is_member = |entry: &&Entry| Categories::named(&entry.facts.categories).has(category);
            let entries = CommandTable::get().entries().iter().filter(is_member);
            entries.map(Entry::name).collect()
        }
        _ => return Err(wrong_arguments("acl", args[1])),
    };
    out.array(names.len());
    names.iter().for_each(|name| out.bulk(name.as_bytes()));
    Ok(())
}

/// Closes connections. The client itself gets its reply first.
fn close(context: &mut Context<'_>, closing: &Closing) {
    for client in closing {
        if client.id == context.client.id {
            context.close = true;
        } else {
            context.server.clients.kill(client);
        }
    }
}

fn setuser(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let server = context.server;
    let changed = server.acl.set_user(&server.clients, args[2], &args[3..]);
    let closing = changed.map_err(|wrong| error(format!("ERR {}", quotable_line(&wrong))))?;
    close(context, &closing);
    out.simple("OK");
    Ok(())
}

/// Text of a client in an error, on one line.
fn quotable_line(text: &impl ToString) -> String {
    text.to_string().replace(['\r', '\n', '\0'], " ")
}

fn deluser(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let names = &args[2..];
    if names.contains(&DEFAULT) {
        return Err(CommandError::line("ERR The 'default' user cannot be removed"));
    }
    let server = context.server;
    let (deleted, closing) = server.acl.delete(&server.clients, names);
    close(context, &closing);
    write_number(deleted as u64, out);
    Ok(())
}

fn getuser(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let Some(user) = context.server.acl.user(args[2]) else {
        out.null();
        return Ok(());
    };
    out.map(6);
    out.bulk(b"flags");
    let flags = user.flags();
    out.set(flags.len());
    flags.iter().for_each(|flag| out.bulk(flag.as_bytes()));
    out.bulk(b"passwords");
    let passwords = user.passwords();
    out.array(passwords.len());
    passwords.for_each(|digits| out.bulk(digits.as_bytes()));
    write_selector(user.root(), out);
    out.bulk(b"selectors");
    out.array(user.selectors().len());
    for selector in user.selectors() {
        out.map(3);
        write_selector(selector, out);
    }
    Ok(())
}

/// Three fields.
fn write_selector(selector: &Selector, out: &mut ReplyEncoder<'_>) {
    for (field, rules) in [
        ("commands", selector.describe_commands()),
        ("keys", selector.describe_keys()),
        ("channels", selector.describe_channels()),
    ] {
        out.bulk(field.as_bytes());
        out.bulk(&rules);
    }
}

fn list(context: &mut Context<'_>, _: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let users = context.server.acl.users();
    out.array(users.len());
    users.iter().for_each(|user| out.bulk(&user.line()));
    Ok(())
}

fn users(context: &mut Context<'_>, _: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let users = context.server.acl.users();
    out.array(users.len());
    users.iter().for_each(|user| out.bulk(user.name()));
    Ok(())
}

fn whoami(context: &mut Context<'_>, _: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    out.bulk(context.client.account.user().name());
    Ok(())
}

fn no_file() -> CommandError {
    CommandError::line(
        "ERR This Redis instance is not configured to use an ACL file. You may want to specify users via the ACL \
         SETUSER command and then issue a CONFIG REWRITE (assuming you have a Redis configuration file set) in order \
         to store users in the Redis configuration.",
    )
}

fn load(context: &mut Context<'_>, _: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let server = context.server;
    let path = server.settings.config.aclfile.as_ref();
    let loaded = server.acl.load(&server.clients, path.ok_or_else(no_file)?);
    let closing = loaded.map_err(|wrong| error(format!("ERR {}", quotable_line(&wrong))))?;
    close(context, &closing);
    out.simple("OK");
    Ok(())
}

fn save(context: &mut Context<'_>, _: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let path = context.server.settings.config.aclfile.as_ref();
    if let Err(error) = context.server.acl.save(path.ok_or_else(no_file)?) {
        tracing::warn!(%error, "the users could not be saved");
        return Err(CommandError::line(
            "ERR There was an error trying to save the ACLs. Please check the server logs for more information",
        ));
    }
    out.simple("OK");
    Ok(())
}

/// `ACL GENPASS [bits]`.
fn genpass(_: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let bits = match args[2..] {
        [] => GENPASS_BITS,
        [bits] => parse::integer(bits)?,
        _ => return Err(wrong_arguments("acl", args[1])),
    };
    if !(1..=GENPASS_BITS_MAX).contains(&bits) {
        return Err(error(format!(
            "ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to \
             {GENPASS_BITS_MAX}"
        )));
    }
    let mut rng = rand::rng();
    let digits = (bits + 3) / 4;
    let password: Vec<u8> = (0..digits).map(|_| DIGITS[rng.random_range(0..DIGITS.len())]).collect();
    out.bulk(&password);
    Ok(())
}

/// `ACL LOG [count|RESET]`.
fn log(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let log = &context.server.acl.log;
    let count = match args[2..] {
        [] => LOG_COUNT,
        [word] if parse::is(word, "RESET") => {
            log.clear();
            out.simple("OK");
            return Ok(());
        }
        [count] => parse::integer(count)?,
        _ => return Err(wrong_arguments("acl", args[1])),
    };
    let entries = log.last(usize::try_from(count).unwrap_or(0));
    let now_ms = unix_time_ms();
    out.array(entries.len());
    for entry in entries {
        out.map(7);
        out.bulk(b"count");
        write_number(entry.count, out);
        for (field, text) in [
            ("reason", entry.reason.name().as_bytes()),
            ("context", entry.place.name().as_bytes()),
            ("object", &entry.object),
            ("username", &entry.user),
        ] {
            out.bulk(field.as_bytes());
            out.bulk(text);
        }
        out.bulk(b"age-seconds");
        out.double(now_ms.saturating_sub(entry.at_ms) as f64 / 1000.0);
        out.bulk(b"client-info");
        out.bulk(entry.client.as_bytes());
    }
    Ok(())
}

/// `ACL DRYRUN user command [argument ..]`.
fn dryrun(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let (name, call) = (args[2], &args[3..]);
    let user = context.server.acl.user(name);
    let user = user.ok_or_else(|| error(format!("ERR User '{}' not found", quotable(name))))?;
    let table = CommandTable::get();
    let unknown = || error(format!("ERR Command '{}' not found", quotable(call[0])));
    let command = table.index_of(CommandId::of(call[0])).ok_or_else(unknown)?;
    let index = table.entry_of(command, call);
    let entry = &table.entries()[index];
    let is_container = entry.subcommand.is_none() && !entry.spec.subcommands.is_empty();
    if is_container && call.len() > 1 {
        return Err(unknown());
    }
    if !parse::arity_accepts(entry.arity(), call.len()) {
        return Err(CommandError::Arity(entry.name().into()));
    }
    let shown = |place: usize| String::from_utf8_lossy(call[place]);
    let denied = match user.check(index, call) {
        Ok(()) => {
            out.simple("OK");
            return Ok(());
        }
        Err(Denial::Command) => format!("run the '{}' command", entry.name()),
        Err(Denial::Key(place)) => format!("access the '{}' key", shown(place)),
        Err(Denial::Channel(place)) => format!("access the '{}' channel", shown(place)),
    };
    out.bulk(format!("This user has no permissions to {denied}").as_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::config::Config;
    use crate::testing::{Heard, Session};

    const NO_GET: &str = "-NOPERM this user has no permissions to run the 'get' command";
    const NO_KEY: &str = "-NOPERM this user has no permissions to access one of the keys used as arguments";
    const NO_CHANNEL: &str = "-NOPERM this user has no permissions to access one of the channels used as arguments";

    /// A client that is the user `alice`, with these rules.
    fn alice(admin: &mut Session, rules: &str) -> Session {
        let line = format!("ACL SETUSER alice reset on >pw {rules}");
        admin.expect(&[(&line, "+OK")]);
        let mut alice = admin.beside();
        alice.expect(&[("AUTH alice pw", "+OK")]);
        alice
    }

    #[test]
    fn users_do_what_their_rules_say() {
        let mut admin = Session::new();
        let mut alice = alice(&mut admin, "+get +set +acl|whoami ~a* %R~r*");
        alice.expect(&[
            ("ACL WHOAMI", "$5 alice"),
            ("SET a 1", "+OK"),
            ("GET a", "$1 1"),
            ("GET r", "$-1"),
            ("SET r 1", NO_KEY),
            ("GET b", NO_KEY),
            ("DEL a", "-NOPERM this user has no permissions to run the 'del' command"),
            ("ACL LIST", "-NOPERM this user has no permissions to run the 'acl|list' command"),
            ("GET", "-ERR wrong number of arguments for 'get' command"),
            ("RESET", "+RESET"),
            ("ACL WHOAMI", "$7 default"),
            ("DEL a", ":1"),
        ]);
    }

    #[test]
    fn changes_count_for_connected_clients_at_once() {
        let mut admin = Session::new();
        let mut alice = alice(&mut admin, "allcommands allkeys allchannels");
        alice.expect(&[("GET a", "$-1")]);
        admin.expect(&[("ACL SETUSER alice -get", "+OK")]);
        alice.expect(&[("GET a", NO_GET), ("SET a 1", "+OK")]);
        admin.expect(&[("ACL SETUSER alice +get resetkeys ~b", "+OK")]);
        alice.expect(&[("GET a", NO_KEY), ("GET b", "$-1")]);
        admin.expect(&[("ACL SETUSER alice allkeys off", "+OK")]);
        alice.expect(&[("GET a", "$1 1")]);
        let wrong = "-WRONGPASS invalid username-password pair or user is disabled.";
        alice.expect(&[("AUTH alice pw", wrong), ("ACL WHOAMI", "$5 alice")]);
        assert!(admin.run("CLIENT LIST").contains(" user=alice "));
        admin.expect(&[
            ("CLIENT KILL USER nobody", "-ERR No such user 'nobody'"),
            ("CLIENT KILL USER alice", ":1"),
        ]);
    }

    #[test]
    fn the_default_user_may_be_restricted_too() {
        let mut admin = Session::new();
        admin.expect(&[("ACL SETUSER root on nopass +@all ~* &*", "+OK")]);
        let (mut known, mut root) = (admin.beside(), admin.beside());
        root.expect(&[("AUTH root x", "+OK")]);
        root.expect(&[("ACL SETUSER default off", "+OK")]);
        let noauth = "-NOAUTH Authentication required.";
        let mut stranger = admin.beside();
        stranger.expect(&[("PING", noauth)]);
        known.expect(&[("PING", "+PONG"), ("RESET", "+RESET"), ("PING", noauth)]);
        root.expect(&[("ACL SETUSER default on -@all", "+OK")]);
        stranger.expect(&[("PING", "-NOPERM this user has no permissions to run the 'ping' command")]);
        assert!(stranger.run("HELLO 2 AUTH root x").starts_with("*14"));
        stranger.expect(&[("PING", "+PONG")]);
        root.expect(&[
            ("CONFIG SET requirepass secret", "+OK"),
            ("CONFIG GET requirepass", "*2 $11 requirepass $6 secret"),
            ("ACL SETUSER default +@all", "+OK"),
        ]);
        let mut late = admin.beside();
        late.expect(&[("PING", noauth), ("AUTH secret", "+OK"), ("PING", "+PONG")]);
        root.expect(&[("ACL SETUSER default >other <secret", "+OK")]);
        let mut later = admin.beside();
        later.expect(&[("AUTH default other", "+OK"), ("PING", "+PONG")]);
        root.expect(&[("ACL DELUSER root default", "-ERR The 'default' user cannot be removed")]);
    }

    #[test]
    fn deleted_users_lose_their_connections() {
        let mut admin = Session::new();
        let mut alice = alice(&mut admin, "+@all ~*");
        let other = admin.beside();
        admin.expect(&[("ACL DELUSER nobody alice alice", ":1")]);
        assert_eq!(admin.server.clients.len(), 2);
        assert!(admin.server.clients.find(other.client.id).is_some());
        alice.expect(&[("PING", "-NOAUTH Authentication required.")]);
        let mut alice = self::alice(&mut admin, "+@all ~*");
        alice.expect(&[("ACL DELUSER alice", ":1")]);
        assert!(alice.closed && !admin.closed);
    }

    #[test]
    fn transactions_are_checked_when_queued_and_when_run() {
        let mut admin = Session::new();
        let mut alice = alice(&mut admin, "+multi +exec +set +incr ~a*");
        alice.expect(&[
            ("MULTI", "+OK"),
            ("GET a", NO_GET),
            ("SET a 1", "+QUEUED"),
            ("EXEC", "-EXECABORT Transaction discarded because of previous errors."),
            ("MULTI", "+OK"),
            ("SET a 1", "+QUEUED"),
            ("INCR a", "+QUEUED"),
        ]);
        admin.expect(&[("ACL SETUSER alice -incr", "+OK")]);
        alice.expect(&[(
            "EXEC",
            "*2 +OK -NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. \
             This command is no longer allowed for the following reason: no permission to execute the command or \
             subcommand",
        )]);
        admin.expect(&[("GET a", "$1 1")]);
        let log = admin.run("ACL LOG 1");
        assert!(log.contains("\r\nmulti\r\n") && log.contains("\r\nincr\r\n"), "{log}");
    }

    #[test]
    fn scripts_call_what_their_caller_may_call() {
        let mut admin = Session::new();
        let mut alice = alice(&mut admin, "+eval +set +fcall ~a*");
        let mut run = |script: &str| {
            let reply = alice.run_args(&[b"EVAL", script.as_bytes(), b"0"]);
            reply.replace("\r\n", " ")
        };
        assert_eq!(run("return redis.call('set','a',1)"), "+OK ");
        let reply = run("return redis.call('get','a')");
        let denied = "-ERR The user executing the script can't run this command or subcommand script:";
        assert!(reply.starts_with(denied), "{reply}");
        let reply = run("return redis.pcall('set','b',1)");
        let denied = "-ERR The user executing the script can't access at least one of the keys mentioned in the \
                      command arguments ";
        assert_eq!(reply, denied);
        for (call, expected) in [
            ("'set','a',1", ":1 "),
            ("'set','b',1", "$-1 "),
            ("'GET','a'", "$-1 "),
            ("'acl','list'", "$-1 "),
        ] {
            let script = format!("return redis.acl_check_cmd({call})");
            assert_eq!(run(&script), expected, "{call}");
        }
        let reply = run("return redis.acl_check_cmd('acl','nope')");
        assert!(
            reply.starts_with("-ERR Invalid command passed to redis.acl_check_cmd() script:"),
            "{reply}"
        );
        let log = admin.run("ACL LOG");
        assert!(log.contains("\r\nlua\r\n"), "{log}");
        admin.expect(&[("EVAL return(redis.call('acl','whoami')) 0", &admin_error())]);
    }

    fn admin_error() -> String {
        let digest = crate::scripts::digest::Digest::of(b"return(redis.call('acl','whoami'))");
        format!("-ERR This Redis command is not allowed from script script: {digest}, on @user_script:1.")
    }

    #[test]
    fn commands_that_wait_and_sorts_are_checked() {
        let mut admin = Session::new();
        let mut alice = alice(&mut admin, "+blpop +xread ~a* (+sort ~mylist ~v*)");
        admin.expect(&[("RPUSH mylist 1", ":1"), ("SET v1 1", "+OK")]);
        alice.expect(&[("BLPOP a b 0", NO_KEY), ("BLPOP a 0", "")]);
        admin.expect(&[("RPUSH a x", ":1")]);
        assert_eq!(alice.late().as_deref(), Some("*2 $1 a $1 x"));
        alice.expect(&[
            ("XREAD BLOCK 1 STREAMS a b 0 0", NO_KEY),
            ("SORT mylist", "*1 $1 1"),
            ("SORT mylist BY nosort", "*1 $1 1"),
            ("SORT mylist BY v*", "-ERR BY option of SORT denied due to insufficient ACL permissions."),
            ("SORT mylist GET #", "-ERR GET option of SORT denied due to insufficient ACL permissions."),
        ]);
        admin.expect(&[("ACL SETUSER alice (+sort ~mylist %R~*)", "+OK")]);
        alice.expect(&[("SORT mylist BY v* GET v*", "*1 $1 1")]);
    }

    #[test]
    fn subscribers_that_lose_a_channel_are_closed() {
        for (before, after, is_closed) in [
            ("&c", "resetchannels", true),
            ("&*", "resetchannels", true),
            ("&c &d", "resetchannels &c*", false),
            ("&c", "allchannels", false),
            ("&c", "-@all", false),
            ("&c &p*", "resetchannels &p*", true),
        ] {
            let mut admin = Session::new();
            let mut alice = alice(&mut admin, &format!("+@all {before}"));
            alice.client.subscriber.attach(|| Some(Heard::default().outlet()));
            alice.expect(&[
                (
                    "SUBSCRIBE x",
                    if before == "&*" {
                        "*3 $9 subscribe $1 x :1"
                    } else {
                        NO_CHANNEL
                    },
                ),
                ("SUBSCRIBE c", &format!("*3 $9 subscribe $1 c :{}", if before == "&*" { 2 } else { 1 })),
            ]);
            admin.expect(&[(&format!("ACL SETUSER alice {after}"), "+OK")]);
            let is_open = admin.server.clients.find(alice.client.id).is_some();
            assert_eq!(!is_open, is_closed, "{before} then {after}");
        }
    }

    #[test]
    fn publishers_need_their_channels() {
        let mut admin = Session::new();
        let mut alice = alice(&mut admin, "+publish +spublish +psubscribe +multi +exec &foo:*");
        alice.expect(&[
            ("PUBLISH foo:1 x", ":0"),
            ("SPUBLISH bar x", NO_CHANNEL),
            ("PSUBSCRIBE foo:1", NO_CHANNEL),
            ("MULTI", "+OK"),
            ("PUBLISH bar x", NO_CHANNEL),
        ]);
        let log = admin.run("ACL LOG 1");
        assert!(log.contains("\r\nchannel\r\n") && log.contains("\r\nbar\r\n"), "{log}");
    }

    #[test]
    fn failed_authentication_is_logged() {
        let mut admin = Session::new();
        let mut stranger = admin.beside();
        stranger.run("AUTH nobody x");
        stranger.run("HELLO 3 AUTH nobody x");
        stranger.run("auth nobody y");
        let log = admin.run("ACL LOG").replace("\r\n", " ");
        assert!(
            log.starts_with("*3 *14 $5 count :1 $6 reason $4 auth $7 context $8 toplevel $6 object $4 auth "),
            "{log}"
        );
        assert!(log.contains(" $6 object $5 HELLO $8 username $6 nobody "), "{log}");
        assert!(log.contains(" user=default "), "{log}");
        admin.expect(&[
            ("CONFIG SET acllog-max-len 2", "+OK"),
            ("CONFIG GET acllog-max-len", "*2 $14 acllog-max-len $1 2"),
            ("AUTH a b", "-WRONGPASS invalid username-password pair or user is disabled."),
        ]);
        assert!(admin.run("ACL LOG 10").starts_with("*2\r\n"));
        admin.expect(&[("ACL LOG RESET", "+OK"), ("ACL LOG", "*0"), ("ACL LOG -1", "*0")]);
    }

    #[test]
    fn dry_runs_say_what_would_be_denied() {
        let mut admin = Session::new();
        admin.expect(&[
            ("ACL SETUSER bob +@all -acl %R~read* %W~write* &c", "+OK"),
            ("ACL DRYRUN bob GET read", "+OK"),
        ]);
        let dry = |admin: &mut Session, line: &str| {
            let reply = admin.run(&format!("ACL DRYRUN {line}"));
            let text = reply.trim_end().rsplit("\r\n").next().unwrap_or_default();
            text.replace("This user has no permissions to ", "")
        };
        for (line, expected) in [
            ("bob GET write", "access the 'write' key"),
            ("bob SET write v get", "access the 'write' key"),
            ("bob PUBLISH d x", "access the 'd' channel"),
            ("bob ACL LIST", "run the 'acl|list' command"),
            ("bob SUNSUBSCRIBE d", "+OK"),
            ("bob EVAL x 0 nothing", "+OK"),
            ("bob EVAL x 3 nothing", "+OK"),
            ("bob GEORADIUS read 1 2 3 m STORE write1", "+OK"),
            ("bob GEORADIUS read 1 2 3 m STORE read1", "access the 'read1' key"),
            ("bob XREADGROUP GROUP STREAMS c STREAMS nothing >", "access the 'nothing' key"),
            ("bob STRLEN write", "+OK"),
            ("nobody GET a", "-ERR User 'nobody' not found"),
            ("bob NOPE a", "-ERR Command 'NOPE' not found"),
            ("bob CLIENT NOPE", "-ERR Command 'CLIENT' not found"),
            ("bob GET", "-ERR wrong number of arguments for 'get' command"),
            ("bob CLIENT", "-ERR wrong number of arguments for 'client' command"),
        ] {
            assert_eq!(dry(&mut admin, line), expected, "{line}");
        }
    }

    #[test]
    fn categories_and_passwords_are_told() {
        let mut session = Session::new();
        assert!(session.run("ACL CAT").starts_with("*21\r\n$8\r\nkeyspace\r\n"));
        let scripting = session.run("ACL CAT Scripting");
        assert!(scripting.contains("function|list") && !scripting.contains("\r\nget\r\n"));
        assert_eq!(session.run("ACL GENPASS").len(), "$64\r\n\r\n".len() + 64);
        assert!(session.run("ACL GENPASS 5").starts_with("$2\r\n"));
        let genpass = "-ERR ACL GENPASS argument must be the number of bits for the output password, a positive number \
                       up to 4096";
        session.expect(&[
            ("ACL CAT nope", "-ERR Unknown category 'nope'"),
            (
                "ACL CAT a b",
                "-ERR unknown subcommand or wrong number of arguments for 'CAT'. Try ACL HELP.",
            ),
            ("ACL GENPASS 0", genpass),
            ("ACL GENPASS 4097", genpass),
            ("ACL USERS", "*1 $7 default"),
            ("ACL LIST", "*1 $51 user default on nopass sanitize-payload ~* &* +@all"),
            ("ACL GETUSER none", "$-1"),
            ("ACL NOPE", "-ERR unknown subcommand 'NOPE'. Try ACL HELP."),
        ]);
        let refused = session.run_args(&[b"ACL", b"SETUSER", b"a b"]);
        assert_eq!(refused, "-ERR Usernames can't contain spaces or null characters\r\n");
        let refused = session.run_args(&[b"ACL", b"SETUSER", b"a", b"\r\nx"]);
        assert_eq!(refused, "-ERR Error in ACL SETUSER modifier '  x': Syntax error\r\n");
        assert!(session.run("ACL LOAD").starts_with("-ERR This Redis instance is not"));
        assert!(session.run("ACL SAVE").starts_with("-ERR This Redis instance is not"));
        session.expect(&[("ACL SETUSER t on >x %R~r &c (+get ~k)", "+OK")]);
        let user = session.run("ACL GETUSER t").replace("\r\n", " ");
        assert!(
            user.starts_with("*12 $5 flags *2 $2 on $16 sanitize-payload $9 passwords *1 $64 2d711642"),
            "{user}"
        );
        assert!(
            user.ends_with(
                " $8 commands $5 -@all $4 keys $4 %R~r $8 channels $2 &c $9 selectors *1 *6 $8 commands $10 -@all +get \
                 $4 keys $2 ~k $8 channels $0  "
            ),
            "{user}"
        );
        let mut session = session.resp3();
        let user = session.run("ACL GETUSER t");
        assert!(user.starts_with("%6\r\n$5\r\nflags\r\n~2\r\n"), "{user}");
    }

    #[test]
    fn files_are_loaded_as_a_whole_or_not_at_all() {
        let directory = tempfile::tempdir().expect("a folder");
        let path = directory.path().join("users.acl");
        let text = "user alice on nopass ~* +@all\nuser default on nopass ~* &* +@all -flushdb\n";
        std::fs::write(&path, text).expect("a file");
        let mut admin = Session::with(Config { aclfile: Some(path.clone()), ..Config::default() });
        let server = Arc::clone(&admin.server);
        let configured = server.acl.configure(&server.clients, &server.settings.config);
        assert_eq!(configured, Ok(()));
        let mut alice = admin.beside();
        alice.expect(&[("AUTH alice x", "+OK")]);
        admin.expect(&[
            ("FLUSHDB", "-NOPERM this user has no permissions to run the 'flushdb' command"),
            ("ACL SETUSER eve on nopass +get ~*", "+OK"),
            ("ACL SAVE", "+OK"),
        ]);
        let wrong = std::fs::read_to_string(&path).expect("a file") + "user eve\n";
        std::fs::write(&path, &wrong).expect("a file");
        let refused = admin.run("ACL LOAD");
        assert!(refused.contains("Duplicate user 'eve' found on line 4"), "{refused}");
        alice.expect(&[("ACL WHOAMI", "$5 alice")]);
        std::fs::write(&path, "user eve on nopass +get ~*\n").expect("a file");
        admin.expect(&[("ACL LOAD", "+OK"), ("ACL USERS", "*2 $7 default $3 eve"), ("FLUSHDB", "+OK")]);
        assert!(server.clients.find(alice.client.id).is_none());
        assert!(server.clients.find(admin.client.id).is_some());
    }

    #[test]
    fn users_of_the_configuration_are_there_at_the_start() {
        let configured = |change: fn(&mut Config)| {
            let mut config = Config::default();
            change(&mut config);
            let session = Session::with(config);
            let server = Arc::clone(&session.server);
            let result = server.acl.configure(&server.clients, &server.settings.config);
            result.map(|()| session)
        };
        let mut session = configured(|config| {
            config.requirepass = Some("secret".into());
            config.user = vec!["alice on >pw +ping".parse().expect("a user")];
        })
        .expect("right users");
        session.expect(&[
            ("PING", "-NOAUTH Authentication required."),
            ("AUTH alice pw", "+OK"),
            ("PING", "+PONG"),
            ("GET a", NO_GET),
            ("AUTH secret", "+OK"),
            ("GET a", "$-1"),
        ]);
        let refused = |change| configured(change).map(drop).expect_err("wrong settings");
        let both = refused(|config| {
            config.user = vec!["alice on".parse().expect("a user")];
            config.aclfile = Some("users.acl".into());
        });
        assert!(both.contains("exclude each other"), "{both}");
        let ignored = refused(|config| {
            config.requirepass = Some("secret".into());
            config.aclfile = Some("users.acl".into());
        });
        assert!(ignored.contains("has no effect beside 'aclfile'"), "{ignored}");
        let pattern = refused(|config| {
            config.acl_pubsub_default = crate::acl::PubSubDefault::AllChannels;
            config.user = vec!["alice on &c".parse().expect("a user")];
        });
        assert!(pattern.contains("user 'alice'") && pattern.contains("'&c'"), "{pattern}");
    }
}
