//! CLIENT KILL.

use crate::acl::Acl;
use crate::client::{ClientInfo, ClientKind, LocalAddresses};
use crate::command::{Context, ReplyEncoder};
use crate::error::{CommandError, quotable};
use crate::parse::{self, Result};

use super::client::kind_named;
use super::pace::Pace;

/// Which clients to kill: those that have all that is set.
#[derive(Debug, Default)]
struct Filter<'a> {
    id: Option<u64>,
    kind: Option<ClientKind>,
    user: Option<&'a [u8]>,
    address: Option<&'a [u8]>,
    local_address: Option<&'a [u8]>,
    /// The connection is that old.
    age_s_min: Option<u64>,
    /// The client itself may be one of them.
    includes_self: bool,
}

impl<'a> Filter<'a> {
    fn parse(options: &[&'a [u8]], acl: &Acl) -> Result<Self> {
        let (pairs, rest) = options.as_chunks::<2>();
        if !rest.is_empty() {
            return Err(CommandError::Syntax);
        }
        let mut filter = Self::default();
        for &[option, value] in pairs {
            if parse::is(option, "ID") {
                let id = parse::integer(value).ok().and_then(|id| u64::try_from(id).ok());
                let id = id.filter(|id| *id > 0);
                let wrong = CommandError::line("ERR client-id should be greater than 0");
                filter.id = Some(id.ok_or(wrong)?);
            } else if parse::is(option, "TYPE") {
                filter.kind = Some(kind_named(value)?);
            } else if parse::is(option, "ADDR") {
                filter.address = Some(value);
            } else if parse::is(option, "LADDR") {
                filter.local_address = Some(value);
            } else if parse::is(option, "USER") {
                if acl.user(value).is_none() {
                    let line = format!("ERR No such user '{}'", quotable(value));
                    return Err(CommandError::Other(line.into()));
                }
                filter.user = Some(value);
            } else if parse::is(option, "MAXAGE") {
                let age_s = parse::integer(value)
                    .map_err(|_text| CommandError::line("ERR maxage is not an integer or out of range"))?;
                let age_s = u64::try_from(age_s).ok().filter(|age_s| *age_s > 0);
                filter.age_s_min = Some(age_s.ok_or(CommandError::line("ERR maxage should be greater than 0"))?);
            } else if parse::is(option, "SKIPME") {
                filter.includes_self = match () {
                    () if parse::is(value, "YES") => false,
                    () if parse::is(value, "NO") => true,
                    () => return Err(CommandError::Syntax),
                };
            } else {
                return Err(CommandError::Syntax);
            }
        }
        Ok(filter)
    }

    fn matches(&self, client: &ClientInfo, own: &ClientInfo, local: &LocalAddresses) -> bool {
        let has_address = |wanted: Option<&[u8]>, has: &str| wanted.is_none_or(|wanted| wanted == has.as_bytes());
        let is_itself = client.id == own.id;
        if (is_itself && !self.includes_self)
            || self.id.is_some_and(|id| id != client.id)
            || self.age_s_min.is_some_and(|age_s| client.age().as_secs() < age_s)
            || self.kind.is_some_and(|kind| kind != client.kind())
            || self.user.is_some_and(|user| *user != *client.account.user().name())
        {
            return false;
        }
        let (address, local_address) = local.of(&client.peer);
        has_address(self.address, &address) && has_address(self.local_address, &local_address)
    }
}

/// `CLIENT KILL address`, or `CLIENT KILL option value ..`.
pub(super) fn kill(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    if let [address] = args[2..] {
        let filter = Filter {
            address: Some(address),
            includes_self: true,
            ..Filter::default()
        };
        if kill_all(context, &filter) == 0 {
            return Err(CommandError::line("ERR No such client"));
        }
        out.simple("OK");
        return Ok(());
    }
    let filter = Filter::parse(&args[2..], &context.server.acl)?;
    out.integer(kill_all(context, &filter));
    Ok(())
}

/// Returns how many there were. The client itself gets its reply first.
fn kill_all(context: &mut Context<'_>, filter: &Filter<'_>) -> i64 {
    let registry = &context.server.clients;
    let local = context.server.local_addresses();
    let mut killed = 0;
    let pace = Pace::new();
    for client in registry.snapshot().values() {
        pace.step();
        if !filter.matches(client, context.client, local) {
            continue;
        }
        killed += 1;
        if client.id == context.client.id {
            context.close = true;
        } else {
            registry.kill(client);
        }
    }
    killed
}

#[cfg(test)]
mod tests {
    use crate::testing::Session;

    #[test]
    fn clients_are_killed_by_what_they_are() {
        let mut session = Session::new();
        let _second = session.beside();
        let mut third = session.beside();
        third.run("SUBSCRIBE c");
        session.expect(&[
            ("CLIENT KILL ID 77", ":0"),
            ("CLIENT KILL ID 1", ":0"),
            ("CLIENT KILL ID 2 TYPE pubsub", ":0"),
            ("CLIENT KILL TYPE pubsub", ":1"),
            ("CLIENT KILL USER default LADDR 127.0.0.1:1", ":0"),
            ("CLIENT KILL LADDR 127.0.0.1:6379 ADDR 127.0.0.1:50000", ":1"),
        ]);
        assert_eq!(session.server.clients.len(), 1);
        assert!(!session.closed);
        session.expect(&[("CLIENT KILL SKIPME no", ":1")]);
        assert!(session.closed);
        let mut session = Session::new();
        session.expect(&[("CLIENT KILL 127.0.0.1:1", "-ERR No such client"), ("CLIENT KILL 127.0.0.1:50000", "+OK")]);
        assert!(session.closed);
    }

    #[test]
    fn wrong_filters_are_refused_in_words_of_redis() {
        Session::new().expect(&[
            ("CLIENT KILL", "-ERR wrong number of arguments for 'client|kill' command"),
            ("CLIENT KILL ID 10 x", "-ERR syntax error"),
            ("CLIENT KILL NOPE 10", "-ERR syntax error"),
            ("CLIENT KILL ID 0", "-ERR client-id should be greater than 0"),
            ("CLIENT KILL ID x", "-ERR client-id should be greater than 0"),
            ("CLIENT KILL TYPE x", "-ERR Unknown client type 'x'"),
            ("CLIENT KILL USER x", "-ERR No such user 'x'"),
            ("CLIENT KILL SKIPME x", "-ERR syntax error"),
            ("CLIENT KILL MAXAGE x", "-ERR maxage is not an integer or out of range"),
            ("CLIENT KILL MAXAGE 0", "-ERR maxage should be greater than 0"),
            ("CLIENT KILL MAXAGE 100000 SKIPME no", ":0"),
        ]);
    }
}
