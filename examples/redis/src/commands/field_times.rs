//! Commands that read and set the times of hash fields. A field that is due is none.

use psp_store::{Element, Hash, Slot};

use super::hashes::{Found, is_due};
use super::{large, walk};
use crate::command::{Context, ReplyEncoder, Row};
use crate::effects::Told;
use crate::error::CommandError;
use crate::expire_time::TimeForm;
use crate::keyspace_events::{Class, Rule};
use crate::parse::{self, Result};
use crate::typed::{expect, expect_mut, expect_or_default, snapshot};

/// Rows of the command table.
pub(crate) const COMMANDS: &[Row] = &[
    Row::new("hexpire", hexpire).effect(Class::Hash, Rule::Fields),
    Row::new("hexpireat", hexpireat).effect(Class::Hash, Rule::Fields),
    Row::new("hexpiretime", hexpiretime),
    Row::new("hgetdel", hgetdel).effect(Class::Hash, Rule::Fields),
    Row::new("hgetex", hgetex).effect(Class::Hash, Rule::Fields),
    Row::new("hpersist", hpersist).effect(Class::Hash, Rule::Fields),
    Row::new("hpexpire", hpexpire).effect(Class::Hash, Rule::Fields),
    Row::new("hpexpireat", hpexpireat).effect(Class::Hash, Rule::Fields),
    Row::new("hpexpiretime", hpexpiretime),
    Row::new("hpttl", hpttl),
    Row::new("hsetex", hsetex).event(Class::Hash, "hset", Rule::Fields),
    Row::new("httl", httl),
];

/// The last time of a field: Redis needs two bits of its 48 for itself.
const LAST_MS: i64 = (1 << 46) - 1;

const NO_FIELD: i8 = -2;
const NO_TIME: i8 = -1;
const REFUSED: i8 = 0;
const DONE: i8 = 1;
const DELETED: i8 = 2;

/// The fields behind `FIELDS count`, which is at `args[at]`, each with so many arguments.
fn fields_at<'a>(args: &'a [&'a [u8]], at: usize, width: usize, bad_count: &'static str) -> Result<&'a [&'a [u8]]> {
    match args.get(at..) {
        Some([word, count, fields @ ..]) if parse::is(word, "FIELDS") => {
            let count = parse::integer(count).ok().and_then(|count| usize::try_from(count).ok());
            let count = count.filter(|count| *count > 0).ok_or(CommandError::line(bad_count))?;
            match count.checked_mul(width) {
                Some(len) if len == fields.len() => Ok(fields),
                _ => Err(CommandError::line("ERR The `numfields` parameter must match the number of arguments")),
            }
        }
        _ => Err(CommandError::line(
            "ERR Mandatory argument FIELDS is missing or not at the right position",
        )),
    }
}

const NOT_POSITIVE: &str = "ERR Number of fields must be a positive integer";

/// The time that `arg` says.
fn deadline_ms(context: &Context<'_>, arg: &[u8], form: TimeForm, name: &'static str) -> Result<u64> {
    if parse::integer(arg)? < 0 {
        return Err(CommandError::line("ERR invalid expire time, must be >= 0"));
    }
    let at_ms = form.any_deadline_ms(arg, &context.now, name)?;
    let at_ms = Some(at_ms).filter(|at_ms| *at_ms <= LAST_MS);
    let at_ms = at_ms.and_then(|at_ms| u64::try_from(at_ms).ok());
    at_ms.ok_or(CommandError::InvalidExpire(name.into()))
}

/// Fails if the key holds no hash.
fn check_type(context: &Context<'_>, key: &[u8]) -> Result<()> {
    context
        .store
        .peek(key, |entry| expect::<Hash>(entry.map(psp_store::Entry::value)).map(|_| ()))
}

/// Which old times of a field accept a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Condition {
    None,
    Without,
    With,
    Later,
    Earlier,
}

impl Condition {
    const WORDS: [(&str, Self); 4] =
        [("NX", Self::Without), ("XX", Self::With), ("GT", Self::Later), ("LT", Self::Earlier)];

    fn of(arg: &[u8]) -> Self {
        let found = Self::WORDS.iter().find(|(word, _)| parse::is(arg, word));
        found.map_or(Self::None, |(_, condition)| *condition)
    }

    /// A field that never expires counts as expiring after all others.
    fn accepts(self, old_ms: Option<u64>, new_ms: u64) -> bool {
        match self {
            Self::None => true,
            Self::Without => old_ms.is_none(),
            Self::With => old_ms.is_some(),
            Self::Later => old_ms.is_some_and(|old_ms| new_ms > old_ms),
            Self::Earlier => old_ms.is_none_or(|old_ms| new_ms < old_ms),
        }
    }
}

/// What a command does to a field that is there and not due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    Nothing,
    Refused,
    Delete,
    Expire(u64),
    Persist,
}

/// What became of the fields of a command, for its reply and for the journal.
#[derive(Default)]
struct Changes<'a> {
    replies: Vec<i8>,
    deleted: Vec<&'a [u8]>,
    timed: Vec<&'a [u8]>,
    expire_at_ms: Option<u64>,
}

impl<'a> Changes<'a> {
    /// Does with each field what `judge` says of its time; `Nothing` of a field that has gone.
    fn make(
        context: &Context<'_>,
        key: &'a [u8],
        fields: &'a [&'a [u8]],
        judge: impl Fn(Option<u64>) -> Change,
        see: &mut dyn FnMut(&Hash),
    ) -> Result<Self> {
        let told = context.told();
        large::update(context.store.telling(&told), key, fields.len(), |slot, pace| {
            told.says_nothing();
            let mut done = Self::default();
            let Some(hash) = expect::<Hash>(slot.value())? else {
                see(&Hash::new());
                done.replies.resize(fields.len(), NO_FIELD);
                return Ok(done);
            };
            see(hash);
            let change = |hash: &Hash, field: &[u8]| {
                let held = hash.find(field).filter(|held| !is_due(context, held))?;
                Some(judge(held.expire_at_ms))
            };
            let is_change = |change| matches!(change, Some(Change::Delete | Change::Expire(_) | Change::Persist));
            if !fields.iter().any(|field| is_change(change(hash, field))) {
                done.replies.extend(fields.iter().map(|field| match change(hash, field) {
                    None => NO_FIELD,
                    Some(Change::Refused) => REFUSED,
                    Some(_) => NO_TIME,
                }));
                return Ok(done);
            }
            if let Some(hash) = expect_mut::<Hash>(slot)? {
                for field in fields.iter().inspect(|_| pace.step()) {
                    let change = change(hash, field);
                    done.apply(hash, field, change);
                }
            }
            done.tell(&told, key);
            Ok(done)
        })
    }

    fn apply(&mut self, hash: &mut Hash, field: &'a [u8], change: Option<Change>) {
        self.replies.push(match change {
            None => NO_FIELD,
            Some(Change::Nothing) => NO_TIME,
            Some(Change::Refused) => REFUSED,
            Some(Change::Delete) => {
                hash.remove(field);
                self.deleted.push(field);
                DELETED
            }
            Some(Change::Expire(at_ms)) => {
                hash.set_expire_at_ms(field, Some(at_ms));
                self.timed.push(field);
                self.expire_at_ms = Some(at_ms);
                DONE
            }
            Some(Change::Persist) => {
                hash.set_expire_at_ms(field, None);
                self.timed.push(field);
                DONE
            }
        });
    }

    fn tell(&self, told: &Told, key: &[u8]) {
        told.adds_removed_fields(key, &self.deleted);
        told.adds_field_times(key, self.expire_at_ms, &self.timed);
    }

    fn reply(&self, out: &mut ReplyEncoder<'_>) {
        out.array(self.replies.len());
        self.replies.iter().for_each(|reply| out.integer(i64::from(*reply)));
    }
}

/// What a new time does: one that has passed deletes.
fn expiry_change(context: &Context<'_>, at_ms: u64) -> Change {
    if context.store.has_passed(at_ms, &context.now) {
        Change::Delete
    } else {
        Change::Expire(at_ms)
    }
}

fn hexpire(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    set_times(context, args, out, "hexpire", TimeForm { unit_ms: 1000, relative: true })
}

fn hpexpire(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    set_times(context, args, out, "hpexpire", TimeForm { unit_ms: 1, relative: true })
}

fn hexpireat(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    set_times(context, args, out, "hexpireat", TimeForm { unit_ms: 1000, relative: false })
}

fn hpexpireat(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    set_times(context, args, out, "hpexpireat", TimeForm { unit_ms: 1, relative: false })
}

fn set_times(
    context: &Context<'_>,
    args: &[&[u8]],
    out: &mut ReplyEncoder<'_>,
    name: &'static str,
    form: TimeForm,
) -> Result<()> {
    check_type(context, args[1])?;
    let at_ms = deadline_ms(context, args[2], form, name)?;
    let condition = Condition::of(args[3]);
    let fields_word = if condition == Condition::None { 3 } else { 4 };
    let fields = fields_at(args, fields_word, 1, "ERR Parameter `numFields` should be greater than 0")?;
    let judge = |old_ms| match condition.accepts(old_ms, at_ms) {
        true => expiry_change(context, at_ms),
        false => Change::Refused,
    };
    Changes::make(context, args[1], fields, judge, &mut |_| ())?.reply(out);
    Ok(())
}

fn hpersist(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    check_type(context, args[1])?;
    let fields = fields_at(args, 2, 1, NOT_POSITIVE)?;
    let judge = |old_ms: Option<u64>| old_ms.map_or(Change::Nothing, |_| Change::Persist);
    Changes::make(context, args[1], fields, judge, &mut |_| ())?.reply(out);
    Ok(())
}

fn httl(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    write_times(context, args, out, |at_ms| at_ms.saturating_sub(context.now.ms()).div_ceil(1000))
}

fn hpttl(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    write_times(context, args, out, |at_ms| at_ms.saturating_sub(context.now.ms()))
}

fn hexpiretime(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    write_times(context, args, out, |at_ms| at_ms.div_ceil(1000))
}

fn hpexpiretime(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    write_times(context, args, out, |at_ms| at_ms)
}

/// For each field: -2 if it is missing, -1 if it never expires, otherwise `convert` of its time.
fn write_times(
    context: &Context<'_>,
    args: &[&[u8]],
    out: &mut ReplyEncoder<'_>,
    convert: impl Fn(u64) -> u64,
) -> Result<()> {
    let hash: Hash = snapshot(context.store, args[1])?.unwrap_or_default();
    let fields = fields_at(args, 2, 1, NOT_POSITIVE)?;
    out.array(fields.len());
    for field in fields {
        let held = hash.find(field).filter(|held| !is_due(context, held));
        out.integer(match held.map(|held| held.expire_at_ms) {
            None => i64::from(NO_FIELD),
            Some(None) => i64::from(NO_TIME),
            Some(Some(at_ms)) => convert(at_ms) as i64,
        });
    }
    Ok(())
}

/// [`Changes::make`], which replies the values of the fields as they were.
fn change_and_reply_values(
    context: &Context<'_>,
    (key, fields): (&[u8], &[&[u8]]),
    out: &mut ReplyEncoder<'_>,
    judge: impl Fn(Option<u64>) -> Change,
) -> Result<()> {
    let mut before = Hash::new();
    let changes = Changes::make(context, key, fields, judge, &mut |hash| before = hash.clone())?;
    out.array(changes.replies.len());
    for (index, field) in fields.iter().enumerate() {
        let is_gone = changes.deleted.contains(field) && fields[..index].contains(field);
        let value = Found::of(context, Some(&before), field).value().filter(|_| !is_gone);
        walk::element_or_null(out, value);
    }
    Ok(())
}

fn hgetdel(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    check_type(context, args[1])?;
    let fields = fields_at(args, 2, 1, NOT_POSITIVE)?;
    change_and_reply_values(context, (args[1], fields), out, |_| Change::Delete)
}

/// `HGETEX key [EX s | PX ms | EXAT s | PXAT ms | PERSIST] FIELDS count field ..`
fn hgetex(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    check_type(context, args[1])?;
    let form = TimeForm::of_option(args[2]);
    let is_persist = parse::is(args[2], "PERSIST");
    let fields_word = match (form, is_persist) {
        (Some(_), _) => 4,
        (None, true) => 3,
        (None, false) => 2,
    };
    let at_ms = form.map(|form| deadline_ms(context, args[3], form, "hgetex")).transpose()?;
    let fields = fields_at(args, fields_word, 1, NOT_POSITIVE)?;
    change_and_reply_values(context, (args[1], fields), out, |old_ms| match at_ms {
        Some(at_ms) => expiry_change(context, at_ms),
        None if is_persist && old_ms.is_some() => Change::Persist,
        None => Change::Nothing,
    })
}

/// The options of HSETEX.
#[derive(Default)]
struct SetOptions {
    /// All fields must be missing, or all there.
    presence: Option<bool>,
    keeps_times: bool,
    expire_at_ms: Option<u64>,
}

impl SetOptions {
    /// The options, and where the word FIELDS is.
    fn parse(context: &Context<'_>, args: &[&[u8]]) -> Result<(Self, usize)> {
        let mut options = Self::default();
        let mut at = 2;
        while let Some(&option) = args.get(at).filter(|arg| !parse::is(arg, "FIELDS")) {
            let has_time = options.keeps_times || options.expire_at_ms.is_some();
            if parse::is(option, "FNX") || parse::is(option, "FXX") {
                if options.presence.replace(parse::is(option, "FXX")).is_some() {
                    return Err(CommandError::line("ERR Only one of FXX or FNX arguments can be specified"));
                }
            } else if parse::is(option, "KEEPTTL") || TimeForm::of_option(option).is_some() {
                if has_time {
                    return Err(CommandError::line(
                        "ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified",
                    ));
                }
                match TimeForm::of_option(option) {
                    None => options.keeps_times = true,
                    Some(form) => {
                        at += 1;
                        let arg = args.get(at).ok_or(CommandError::Syntax)?;
                        options.expire_at_ms = Some(deadline_ms(context, arg, form, "hsetex")?);
                    }
                }
            } else {
                let line = format!("ERR unknown argument: {}", String::from_utf8_lossy(option));
                return Err(CommandError::Other(line.into()));
            }
            at += 1;
        }
        Ok((options, at))
    }

    fn accepts(&self, context: &Context<'_>, hash: Option<&Hash>, pairs: &[&[u8]]) -> bool {
        self.presence.is_none_or(|wanted| {
            let is_there = |field| Found::of(context, hash, field).value().is_some();
            pairs.chunks_exact(2).all(|pair| is_there(pair[0]) == wanted)
        })
    }
}

/// `HSETEX key [FNX | FXX] [EX s | PX ms | EXAT s | PXAT ms | KEEPTTL] FIELDS count field value ..`
fn hsetex(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    check_type(context, args[1])?;
    let (options, fields_word) = SetOptions::parse(context, args)?;
    let pairs = fields_at(args, fields_word, 2, NOT_POSITIVE)?;
    let told = context.told();
    let set = large::update(context.store.telling(&told), args[1], large::work(pairs), |slot, pace| {
        told.says_nothing();
        if !options.accepts(context, expect::<Hash>(slot.value())?, pairs) {
            return Ok::<_, CommandError>(false);
        }
        for pair in pairs.chunks_exact(2) {
            pace.step();
            set_field(context, slot, &options, pair, (&told, args[1]))?;
        }
        Ok(true)
    })?;
    out.integer(i64::from(set));
    Ok(())
}

fn set_field(
    context: &Context<'_>,
    slot: &mut Slot<'_>,
    options: &SetOptions,
    pair: &[&[u8]],
    (told, key): (&Told, &[u8]),
) -> Result<()> {
    let hash = expect_or_default::<Hash>(slot)?;
    let field = &pair[..1];
    let passed = |at_ms: u64| context.store.has_passed(at_ms, &context.now);
    if options.expire_at_ms.is_some_and(passed) {
        if hash.remove(pair[0]) {
            told.adds_removed_fields(key, field);
        }
        return Ok(());
    }
    let held = hash.find(pair[0]).filter(|held| options.keeps_times && !is_due(context, held));
    let expire_at_ms = options.expire_at_ms.or(held.and_then(|held| held.expire_at_ms));
    hash.insert_expiring(pair[0], Element::from(pair[1]), expire_at_ms);
    told.adds(&[b"HSET", key, pair[0], pair[1]]);
    if expire_at_ms.is_some() {
        told.adds_field_times(key, expire_at_ms, field);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::Session;

    #[test]
    fn fields_get_and_lose_times() {
        Session::new().expect(&[
            ("HSET h a 1 b 2 c 3", ":3"),
            ("HTTL h FIELDS 2 a none", "*2 :-1 :-2"),
            ("HTTL none FIELDS 2 a b", "*2 :-2 :-2"),
            ("HEXPIRE h 100 FIELDS 2 a none", "*2 :1 :-2"),
            ("OBJECT ENCODING h", "$10 listpackex"),
            ("HTTL h FIELDS 1 a", "*1 :100"),
            ("HEXPIRE h 200 NX FIELDS 2 a b", "*2 :0 :1"),
            ("HEXPIRE h 50 GT FIELDS 3 a b c", "*3 :0 :0 :0"),
            ("HEXPIRE h 150 LT FIELDS 3 a b c", "*3 :0 :1 :1"),
            ("HEXPIRE h 300 XX FIELDS 1 b", "*1 :1"),
            ("HEXPIREAT h 33000000000 FIELDS 1 a", "*1 :1"),
            ("HEXPIRETIME h FIELDS 1 a", "*1 :33000000000"),
            ("HPEXPIREAT h 33000000000123 FIELDS 1 a", "*1 :1"),
            ("HPEXPIRETIME h FIELDS 1 a", "*1 :33000000000123"),
            ("HEXPIRETIME h FIELDS 1 a", "*1 :33000000001"),
            ("HINCRBY h a 1", ":2"),
            ("HINCRBYFLOAT h a 0.5", "$3 2.5"),
            ("HPEXPIRETIME h FIELDS 1 a", "*1 :33000000000123"),
            ("COPY h copy", ":1"),
            ("RENAME copy moved", "+OK"),
            ("HPEXPIRETIME moved FIELDS 2 a none", "*2 :33000000000123 :-2"),
            ("HSET h a 5", ":0"),
            ("HTTL h FIELDS 1 a", "*1 :-1"),
            ("HPERSIST h FIELDS 3 a b none", "*3 :-1 :1 :-2"),
            ("HPEXPIRE h 0 FIELDS 2 a none", "*2 :2 :-2"),
            ("HEXPIREAT h 1 FIELDS 2 b c", "*2 :2 :2"),
            ("EXISTS h", ":0"),
            ("HPERSIST h FIELDS 1 a", "*1 :-2"),
            ("HEXPIRE h 1 FIELDS 1 a", "*1 :-2"),
        ]);
    }

    #[test]
    fn arguments_are_checked_as_in_redis() {
        const POSITION: &str = "-ERR Mandatory argument FIELDS is missing or not at the right position";
        const MATCH: &str = "-ERR The `numfields` parameter must match the number of arguments";
        const COUNT: &str = "-ERR Number of fields must be a positive integer";
        const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value";
        Session::new().expect(&[
            ("HSET h a 1", ":1"),
            ("HEXPIRE h 1 FIELDS 1", "-ERR wrong number of arguments for 'hexpire' command"),
            ("HTTL h FIELDS 1", "-ERR wrong number of arguments for 'httl' command"),
            ("HEXPIRE h x FIELDS 1 a", "-ERR value is not an integer or out of range"),
            ("HEXPIRE h -1 FIELDS 1 a", "-ERR invalid expire time, must be >= 0"),
            ("HEXPIRE h 70368744177 FIELDS 1 a", "-ERR invalid expire time in 'hexpire' command"),
            (
                "HPEXPIREAT h 70368744177664 FIELDS 1 a",
                "-ERR invalid expire time in 'hpexpireat' command",
            ),
            ("HPEXPIREAT h 70368744177663 FIELDS 1 a", "*1 :1"),
            ("HEXPIRE h 1 ZZ FIELDS 1 a", POSITION),
            ("HEXPIRE h 1 NX XX 1 a", POSITION),
            ("HEXPIRE h 1 FIELDS 0 a", "-ERR Parameter `numFields` should be greater than 0"),
            ("HEXPIRE h 1 FIELDS x a", "-ERR Parameter `numFields` should be greater than 0"),
            ("HEXPIRE h 1 FIELDS 2 a", MATCH),
            ("HEXPIRE h 1 FIELDS 1 a b", MATCH),
            ("HTTL h FIELD 1 a", POSITION),
            ("HTTL h FIELDS 0 a", COUNT),
            ("HPERSIST h FIELDS 2 a", MATCH),
            ("HGETEX h EX 1 PERSIST FIELDS 1 a", POSITION),
            ("HGETEX h FIELDS 0 a", COUNT),
            ("HGETDEL h FIELDS 2 a", MATCH),
            ("HSETEX h FNX FXX FIELDS 1 a 1", "-ERR Only one of FXX or FNX arguments can be specified"),
            (
                "HSETEX h EX 1 KEEPTTL FIELDS 1 a 1",
                "-ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified",
            ),
            ("HSETEX h XX FIELDS 1 a 1", "-ERR unknown argument: XX"),
            ("SET s v", "+OK"),
            ("HEXPIRE s x FIELDS 1 a", WRONG_TYPE),
            ("HTTL s FIELDS 0 a", WRONG_TYPE),
            ("HPERSIST s FIELDS 0 a", WRONG_TYPE),
            ("HGETDEL s FIELDS 1 a", WRONG_TYPE),
            ("HSETEX s FIELDS 1 a 1", WRONG_TYPE),
        ]);
    }

    /// A field with a value, and when it expires.
    type Model = std::collections::BTreeMap<u8, (u32, Option<u64>)>;

    const FAR_MS: u64 = 33_000_000_000_000;

    /// A random command of one field, and what a model replies.
    fn step(model: &mut Model, random: &mut impl rand::Rng) -> (String, String) {
        let mut below = |count: u64| random.next_u64() % count;
        let (field, number) = (below(6) as u8, below(1000) as u32);
        let at_ms = if below(5) == 0 { 1 } else { FAR_MS + below(8) };
        let held = model.get(&field).copied();
        let time = held.and_then(|(_, time)| time);
        let old = held.map_or("*1 $-1".to_owned(), |(value, _)| format!("*1 ${} {value}", value.to_string().len()));
        let mut expire = |accepts: bool| match (held, accepts) {
            (None, _) => "*1 :-2",
            (_, false) => "*1 :0",
            _ if at_ms == 1 => model.remove(&field).map_or("", |_| "*1 :2"),
            (Some((value, _)), _) => model.insert(field, (value, Some(at_ms))).map_or("", |_| "*1 :1"),
        };
        match below(10) {
            0 => {
                let is_new = model.insert(field, (number, None)).is_none();
                (format!("HSET h {field} {number}"), format!(":{}", u8::from(is_new)))
            }
            1 => (format!("HPEXPIREAT h {at_ms} FIELDS 1 {field}"), expire(true).to_owned()),
            2 => (format!("HPEXPIREAT h {at_ms} NX FIELDS 1 {field}"), expire(time.is_none()).to_owned()),
            3 => (
                format!("HPEXPIREAT h {at_ms} GT FIELDS 1 {field}"),
                expire(time.is_some_and(|time| at_ms > time)).to_owned(),
            ),
            4 => (
                format!("HPEXPIREAT h {at_ms} LT FIELDS 1 {field}"),
                expire(time.is_none_or(|time| at_ms < time)).to_owned(),
            ),
            5 => {
                let reply = match held {
                    None => -2,
                    Some((_, None)) => -1,
                    Some((value, Some(_))) => model.insert(field, (value, None)).map_or(0, |_| 1),
                };
                (format!("HPERSIST h FIELDS 1 {field}"), format!("*1 :{reply}"))
            }
            6 => {
                let sum = held.map_or(0, |(value, _)| value) + number;
                model.insert(field, (sum, time));
                (format!("HINCRBY h {field} {number}"), format!(":{sum}"))
            }
            7 => {
                model.insert(field, (number, time));
                (format!("HSETEX h KEEPTTL FIELDS 1 {field} {number}"), ":1".to_owned())
            }
            8 => {
                expire(true);
                (format!("HGETEX h PXAT {at_ms} FIELDS 1 {field}"), old)
            }
            _ => {
                model.remove(&field);
                (format!("HGETDEL h FIELDS 1 {field}"), old)
            }
        }
    }

    #[test]
    fn random_commands_do_as_a_model() {
        use rand::SeedableRng as _;

        for entries in ["512", "0"] {
            let mut session = Session::new();
            let mut random = rand::rngs::StdRng::seed_from_u64(1);
            let config = format!("CONFIG SET hash-max-listpack-entries {entries}");
            session.expect(&[(&config, "+OK")]);
            let mut model = Model::new();
            for _ in 0..3000 {
                let (line, expected) = step(&mut model, &mut random);
                session.expect(&[(&line, &expected)]);
                session.expect(&[("HLEN h", &format!(":{}", model.len()))]);
                for (field, (_, time)) in &model {
                    let time = time.map_or("-1".to_owned(), |time| time.to_string());
                    session.expect(&[(&format!("HPEXPIRETIME h FIELDS 1 {field}"), &format!("*1 :{time}"))]);
                }
            }
        }
    }

    #[test]
    fn what_is_due_is_seen_by_nobody() {
        let mut session = Session::new();
        let lines = [
            ("HSET h a 1 b 2 c 3", ":3"),
            ("HPEXPIRE h 1 FIELDS 2 a b", "*2 :1 :1"),
            ("wait", ""),
            ("HLEN h", ":3"),
            ("HGETALL h", "*2 $1 c $1 3"),
            ("HKEYS h", "*1 $1 c"),
            ("HVALS h", "*1 $1 3"),
            ("HSCAN h 0", "*2 $1 0 *2 $1 c $1 3"),
            ("HTTL h FIELDS 2 a c", "*2 :-2 :-1"),
            ("HPERSIST h FIELDS 1 a", "*1 :-2"),
            ("HEXPIRE h 9 FIELDS 1 a", "*1 :-2"),
            ("HGET h a", "$-1"),
            ("HLEN h", ":2"),
            ("HSETNX h b 5", ":1"),
            ("HGET h b", "$1 5"),
            ("HPEXPIRE h 1 FIELDS 2 b c", "*2 :1 :1"),
            ("wait", ""),
            ("HRANDFIELD h 9", "*0"),
            ("EXISTS h", ":0"),
            ("HSET h n 5", ":1"),
            ("HPEXPIRE h 1 FIELDS 1 n", "*1 :1"),
            ("wait", ""),
            ("HINCRBY h n 2", ":2"),
            ("HTTL h FIELDS 1 n", "*1 :-1"),
        ];
        for (line, expected) in lines {
            if line == "wait" {
                std::thread::sleep(std::time::Duration::from_millis(3));
            } else {
                session.expect(&[(line, expected)]);
            }
        }
    }

    #[test]
    fn values_are_read_and_set_with_times() {
        Session::new().expect(&[
            ("HSETEX h EXAT 33000000000 FIELDS 2 a 1 b 2", ":1"),
            ("HSETEX h FNX FIELDS 2 b 3 c 3", ":0"),
            ("HSETEX h FXX KEEPTTL FIELDS 1 a 3", ":1"),
            ("HEXPIRETIME h FIELDS 3 a b c", "*3 :33000000000 :33000000000 :-2"),
            ("HSETEX h FIELDS 1 a 4", ":1"),
            ("HGETEX h PERSIST FIELDS 3 a b c", "*3 $1 4 $1 2 $-1"),
            ("HTTL h FIELDS 2 a b", "*2 :-1 :-1"),
            ("HGETEX h EX 100 FIELDS 1 a", "*1 $1 4"),
            ("HTTL h FIELDS 1 a", "*1 :100"),
            ("HGETEX h PXAT 1 FIELDS 2 a a", "*2 $1 4 $-1"),
            ("HGETDEL h FIELDS 3 b none b", "*3 $1 2 $-1 $-1"),
            ("EXISTS h", ":0"),
            ("HGETDEL h FIELDS 1 b", "*1 $-1"),
            ("HGETEX h FIELDS 1 b", "*1 $-1"),
            ("HSETEX h PXAT 1 FIELDS 1 a 1", ":1"),
            ("EXISTS h", ":0"),
        ]);
    }
}
