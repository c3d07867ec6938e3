//! CLIENT TRACKING, CACHING, GETREDIR and TRACKINGINFO.

use crate::command::{Context, ReplyEncoder};
use crate::error::CommandError;
use crate::parse::{self, Result};
use crate::tracking::{Mode, Modes, Redirect};

const ONE_REDIRECT: CommandError = CommandError::line("ERR A client can only redirect to a single other client");
const NO_SUCH_CLIENT: CommandError = CommandError::line("ERR The client ID you want redirect to does not exist");
const OTHER_MODE: &str =
    "mode before disabling tracking for this client, and then re-enabling it with a different mode.";

/// What CLIENT TRACKING asks for.
#[derive(Default)]
struct Options<'a> {
    modes: Modes,
    redirect: Option<Redirect>,
    prefixes: Vec<&'a [u8]>,
}

impl<'a> Options<'a> {
    fn parse(context: &Context<'_>, args: &[&'a [u8]]) -> Result<Self> {
        const MODES: [(&str, Mode); 4] = [
            ("BCAST", Mode::Broadcast),
            ("OPTIN", Mode::OptIn),
            ("OPTOUT", Mode::OptOut),
            ("NOLOOP", Mode::NoLoop),
        ];
        let mut options = Self::default();
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            if let Some((_, mode)) = MODES.iter().find(|(name, _)| parse::is(arg, name)) {
                options.modes = options.modes.with(*mode);
            } else if parse::is(arg, "PREFIX") {
                options.prefixes.push(args.next().ok_or(CommandError::Syntax)?);
            } else if parse::is(arg, "REDIRECT") {
                let id = args.next().ok_or(CommandError::Syntax)?;
                if options.redirect.is_some() {
                    return Err(ONE_REDIRECT);
                }
                options.redirect = redirect(context, parse::integer(id)?)?;
            } else {
                return Err(CommandError::Syntax);
            }
        }
        Ok(options)
    }

    /// Whether the modes go together, and with those that the client has.
    fn check(&self, now: Modes) -> Result<()> {
        let (has, had) = (|mode| self.modes.has(mode), |mode| now.has(mode));
        let line = if !has(Mode::Broadcast) && !self.prefixes.is_empty() {
            "ERR PREFIX option requires BCAST mode to be enabled".to_owned()
        } else if had(Mode::On) && had(Mode::Broadcast) != has(Mode::Broadcast) {
            format!("ERR You can't switch BCAST mode on/off {}", &OTHER_MODE[5..])
        } else if has(Mode::Broadcast) && (has(Mode::OptIn) || has(Mode::OptOut)) {
            "ERR OPTIN and OPTOUT are not compatible with BCAST".to_owned()
        } else if has(Mode::OptIn) && has(Mode::OptOut) {
            "ERR You can't specify both OPTIN mode and OPTOUT mode".to_owned()
        } else if (has(Mode::OptIn) && had(Mode::OptOut)) || (has(Mode::OptOut) && had(Mode::OptIn)) {
            format!("ERR You can't switch OPTIN/OPTOUT {OTHER_MODE}")
        } else {
            return Ok(());
        };
        Err(CommandError::Other(line.into()))
    }
}

/// 0 stands for the client itself, though Redis has no client of that number.
fn redirect(context: &Context<'_>, id: i64) -> Result<Option<Redirect>> {
    let id = u64::try_from(id).map_err(|_negative| NO_SUCH_CLIENT)?;
    let client = context.server.clients.find(id).ok_or(NO_SUCH_CLIENT)?;
    Ok(Some(Redirect::to(&client)))
}

/// `CLIENT TRACKING ON|OFF [REDIRECT id] [BCAST] [PREFIX prefix ..] [OPTIN] [OPTOUT] [NOLOOP]`.
pub(super) fn tracking(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let options = Options::parse(context, &args[3..])?;
    let clients = &context.server.clients;
    if parse::is(args[2], "ON") {
        context.server.check_memory()?;
        options.check(context.client.tracking.modes())?;
        let client = clients.find(context.client.id);
        let client = client.ok_or(CommandError::line("ERR the connection is closing"))?;
        let Options { modes, redirect, prefixes } = options;
        clients.tracking.enable(&client, modes.with(Mode::On), redirect, &prefixes)?;
    } else if parse::is(args[2], "OFF") {
        clients.tracking.disable(context.client);
    } else {
        return Err(CommandError::Syntax);
    }
    out.simple("OK");
    Ok(())
}

/// `CLIENT CACHING YES|NO`.
pub(super) fn caching(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let tracking = &context.client.tracking;
    let modes = tracking.modes();
    let line = if !modes.has(Mode::On) {
        "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled"
    } else if parse::is(args[2], "YES") && !modes.has(Mode::OptIn) {
        "ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode."
    } else if parse::is(args[2], "NO") && !modes.has(Mode::OptOut) {
        "ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode."
    } else if !parse::is(args[2], "YES") && !parse::is(args[2], "NO") {
        return Err(CommandError::Syntax);
    } else {
        tracking.begin_caching();
        out.simple("OK");
        return Ok(());
    };
    Err(CommandError::line(line))
}

pub(super) fn getredir(context: &mut Context<'_>, _: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    out.integer(context.client.tracking.redirect_id());
    Ok(())
}

pub(super) fn trackinginfo(context: &mut Context<'_>, _: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let tracking = &context.client.tracking;
    let modes = tracking.modes();
    let is_asked = modes.has(Mode::Caching);
    let flags = [
        (!modes.has(Mode::On), "off"),
        (modes.has(Mode::On), "on"),
        (modes.has(Mode::Broadcast), "bcast"),
        (modes.has(Mode::OptIn), "optin"),
        (modes.has(Mode::OptIn) && is_asked, "caching-yes"),
        (modes.has(Mode::OptOut), "optout"),
        (modes.has(Mode::OptOut) && is_asked, "caching-no"),
        (modes.has(Mode::NoLoop), "noloop"),
        (modes.has(Mode::BrokenRedirect), "broken_redirect"),
    ];
    let flags = flags.iter().filter(|(is_set, _)| *is_set);
    out.map(3);
    out.bulk(b"flags");
    out.set(flags.clone().count());
    flags.for_each(|(_, name)| out.bulk(name.as_bytes()));
    out.bulk(b"redirect");
    out.integer(tracking.redirect_id());
    out.bulk(b"prefixes");
    let prefixes = tracking.prefixes();
    out.array(prefixes.len());
    prefixes.iter().for_each(|prefix| out.bulk(prefix));
    Ok(())
}
