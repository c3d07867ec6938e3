//! The size of a request's work, judged by all that decides it: its length, its arguments, and the sizes of its keys.
//!
//! A command's name alone does not tell its cost: `HGETALL` of a session with ten fields and
//! `HGETALL` of a million are one command and two kinds of work. The rules of [`RespClassifier::redis`] know the
//! arguments alone. What the keys decide follows from the [work](Work) that the table of commands
//! names. The check looks at a few keys for a short time each.

use std::sync::{Arc, LazyLock};

use psp_protocols::Framing;
use psp_protocols::resp::{CommandId, Encoder, Resp, RespHead, Version, parse_integer};
use psp_server::{Classifier, RequestType};
use psp_store::{Databases, Element, Entry, Keyspace, Value};

use psp_classifiers::resp::{RespClassifier, Work};
use smallvec::SmallVec;

use crate::client::ClientInfo;
use crate::command::{CommandSpec, CommandTable, Flag, KeyPositions};
use crate::commands::{geo, streams};
use crate::glob::StepsBound;
use crate::hyperloglog::{REGISTERS, SPARSE_BYTES_MAX, Sketch};
use crate::pubsub::{PubSub, TopicKind};
use crate::rdb;
use crate::scripts::digest::Digest;
use crate::scripts::profile::{Kind, Profile};
use crate::state::ServerState;
use crate::tracking::Tracking;

/// Work on up to this many elements counts as small. The rules of the classifier have the same bound.
const SMALL_ELEMENTS_MAX: usize = 128;
/// Up to this many commands of a transaction take no longer than one write.
const FEW_COMMANDS_MAX: usize = 8;
/// Keys to check. Work on more keys counts as large without a check.
const KEYS_MAX: usize = 16;

/// A request of up to this many bytes can be small, and copying so many bytes is.
const SMALL_BYTES_MAX: usize = 64 * 1024;
/// A request of up to this many arguments can be small, the name included.
const SMALL_ARGS_MAX: usize = SMALL_ELEMENTS_MAX + 1;

/// Bytes that take as long to copy as one element takes.
const COPIED_BYTES_PER_ELEMENT: usize = SMALL_BYTES_MAX / SMALL_ELEMENTS_MAX;
/// Bytes that take as long to compare as one element takes.
const COMPARED_BYTES_PER_ELEMENT: usize = 4096;
/// Steps of matching a pattern that take as long as one element takes.
const STEPS_PER_ELEMENT: usize = 128;

/// The size of a request's work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SizeClass {
    /// At most about a hundred elements.
    Small,
    /// More elements, or an unknown number.
    Large,
}

/// Whether the rules of [`RespClassifier::redis`] found that a request touches few elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Span {
    Few,
    Unknown,
}

/// What requests are judged by.
#[derive(Debug, Clone)]
pub struct Sources {
    databases: Arc<Databases>,
    scripts: Arc<Profile>,
    pubsub: Arc<PubSub>,
    tracking: Arc<Tracking>,
}

impl Sources {
    /// What this server holds.
    #[must_use]
    pub fn of(server: &ServerState) -> Self {
        Self {
            databases: Arc::clone(&server.databases),
            scripts: Arc::clone(&server.scripts.profile),
            pubsub: Arc::clone(&server.clients.pubsub),
            tracking: Arc::clone(&server.clients.tracking),
        }
    }

    fn judge(&self, database: usize) -> Judge<'_> {
        Judge {
            store: self.databases.get(database),
            changes_in_place: true,
            scripts: &self.scripts,
            pubsub: &self.pubsub,
            tracking: &self.tracking,
        }
    }
}

/// The types by name that the sizes of keys refine, the type of a small request, and what the name says of it.
const REFINED: [(&str, &str, Span); 4] = [
    ("health", "health", Span::Few),
    ("write", "write", Span::Few),
    ("range", "range", Span::Few),
    ("scan", "range", Span::Unknown),
];

/// The classifier of Redis commands. It judges the cost of commands by the sizes of their keys in database 0, too: a
/// small request keeps a short type, a large one is a `scan`. A script is of the type that its runs were like.
#[must_use]
pub fn classifier(sources: &Sources) -> RespClassifier {
    let by_name = RespClassifier::redis();
    let types = by_name.types();
    let type_of = |name| types.by_name(name).unwrap_or(RequestType::UNKNOWN);
    let [write, range, scan] = ["write", "range", "scan"].map(type_of);
    let refined = REFINED.into_iter();
    let judged = refined.fold(by_name, |classifier, (name, small, span)| {
        let sources = sources.clone();
        let small = type_of(small);
        classifier.refine(name, move |frame, head| {
            if is_few(Work::of(head.command()), span) && !sources.tracking.is_any() {
                return small;
            }
            let judge = sources.judge(0);
            if let Some(kind) = judge.kind_of_script(frame, head) {
                return match kind {
                    Kind::Write => write,
                    Kind::Range => range,
                    Kind::Long => scan,
                };
            }
            match judge.size_of(frame, head, span) {
                SizeClass::Small => small,
                SizeClass::Large => scan,
            }
        })
    });
    judged.oversized(SMALL_BYTES_MAX, SMALL_ARGS_MAX, "scan")
}

/// The type of a request that ends `count` subscriptions.
#[must_use]
pub fn of_unsubscribing(count: usize) -> Option<RequestType> {
    (count > SMALL_ELEMENTS_MAX).then(of_long).flatten()
}

/// The type of long requests.
#[must_use]
pub fn of_long() -> Option<RequestType> {
    static SCAN: LazyLock<Option<RequestType>> = LazyLock::new(|| RespClassifier::redis().types().by_name("scan"));
    *SCAN
}

/// The type of an EXEC that runs `count` commands, the longest of which is `longest`. The types ascend by length.
#[must_use]
pub fn of_transaction(count: usize, longest: RequestType) -> RequestType {
    static BY_COUNT: LazyLock<[RequestType; 3]> = LazyLock::new(|| {
        let types = RespClassifier::redis().types();
        ["write", "range", "scan"].map(|name| types.by_name(name).unwrap_or(RequestType::UNKNOWN))
    });
    let [write, range, scan] = *BY_COUNT;
    let by_count = if count <= FEW_COMMANDS_MAX {
        write
    } else if count <= SMALL_ELEMENTS_MAX {
        range
    } else {
        scan
    };
    by_count.max(longest)
}

const EVAL: CommandId = CommandId::of(b"eval");
const EVAL_RO: CommandId = CommandId::of(b"eval_ro");
const FCALL: CommandId = CommandId::of(b"fcall");
const FCALL_RO: CommandId = CommandId::of(b"fcall_ro");

/// Finds requests that are longer than the classifier thinks, which does not know the database of a connection, nor
/// whether it has sent MULTI.
#[derive(Debug)]
pub struct OtherDatabases {
    sources: Sources,
    by_name: RespClassifier,
    /// [`REFINED`], with the numbers of the types.
    spans: [(RequestType, Span); REFINED.len()],
    scan: RequestType,
}

impl OtherDatabases {
    /// Judges by these sources.
    #[must_use]
    pub fn new(sources: Sources) -> Self {
        let by_name = RespClassifier::redis();
        let types = by_name.types();
        let type_of = |name| types.by_name(name).unwrap_or(RequestType::UNKNOWN);
        let spans = REFINED.map(|(name, _, span)| (type_of(name), span));
        let scan = type_of("scan");
        Self { sources, by_name, spans, scan }
    }

    /// The type of a request that works on `database`, within a transaction if `is_queued`, if it is longer than
    /// `found`, the type that the classifier gave it by database 0.
    #[must_use]
    pub fn longer(
        &self,
        (database, is_queued): (usize, bool),
        frame: &[u8],
        head: &RespHead,
        found: RequestType,
    ) -> Option<RequestType> {
        let work = Work::of(head.command());
        let is_known = database == 0 && !(is_queued && matches!(work, Work::Copy | Work::Bit | Work::Fields));
        if is_known || found >= self.scan || matches!(work, Work::Constant | Work::Script) {
            return None;
        }
        let name = self.by_name.classify(frame, head);
        let (_, span) = self.spans.iter().find(|(known, _)| *known == name)?;
        let judge = Judge { changes_in_place: !is_queued, ..self.sources.judge(database) };
        let size = judge.size_of(frame, head, *span);
        (size == SizeClass::Large).then_some(self.scan)
    }

    /// The type of `client`'s EXEC: that of what was queued, or longer if a key has grown since.
    #[must_use]
    pub fn of_exec(&self, client: &ClientInfo) -> Option<RequestType> {
        let queued = client.transaction.request_type()?;
        if queued >= self.scan {
            return Some(queued);
        }
        let mut database = client.database();
        let has_grown = client.transaction.has_queued(|index, args| {
            let spec = &CommandTable::get().specs()[index];
            if spec.name == "select" {
                let number = args.get(1).copied().and_then(parse_integer);
                let number = number.and_then(|number| usize::try_from(number).ok());
                let number = number.filter(|number| *number < self.sources.databases.count());
                database = number.unwrap_or(database);
            }
            self.is_large(database, CommandId::of(spec.name.as_bytes()), args)
        });
        Some(if has_grown { self.scan } else { queued })
    }

    /// Whether a command with these arguments would be a scan now.
    fn is_large(&self, database: usize, command: CommandId, args: &[&[u8]]) -> bool {
        let work = Work::of(command);
        if matches!(work, Work::Constant | Work::Administration | Work::Script) {
            return false;
        }
        let mut frame = Vec::new();
        let mut out = Encoder::new(&mut frame, Version::Resp2);
        out.array(args.len());
        args.iter().for_each(|arg| out.bulk(arg));
        let Some(head) = Resp::default().head_of(&frame) else {
            return true;
        };
        let name = self.by_name.classify(&frame, &head);
        let span = self.spans.iter().find(|(known, _)| *known == name);
        let judge = self.sources.judge(database);
        span.is_some_and(|(_, span)| judge.size_of(&frame, &head, *span) == SizeClass::Large)
    }
}

/// Whether a command touches few elements, by its name and by what the rules found.
fn is_few(work: Work, span: Span) -> bool {
    match work {
        Work::Constant | Work::Administration => true,
        Work::Arguments
        | Work::Count
        | Work::Span
        | Work::SpanOrLimit
        | Work::Limit
        | Work::Pop(_)
        | Work::Unbounded => span == Span::Few,
        _ => false,
    }
}

/// The position of the first key, the number of keys, and the distance from one to the next.
fn positions(spec: &CommandSpec, head: &RespHead) -> Option<(usize, usize, usize)> {
    let KeyPositions { first, last, step } = spec.keys;
    let count = head.arg_count();
    let first = usize::try_from(first).ok().filter(|first| *first > 0)?;
    let step = usize::try_from(step).unwrap_or(1).max(1);
    let last = match usize::try_from(last) {
        Ok(last) => last,
        Err(_from_the_end) => count.saturating_sub(last.unsigned_abs() as usize),
    };
    let has_keys = first <= last && last < count;
    has_keys.then(|| (first, (last - first) / step + 1, step))
}

/// Judges requests by what the server holds.
struct Judge<'s> {
    store: &'s Keyspace,
    /// Strings with room change in place. Those of a transaction are copied first, as its origin holds them.
    changes_in_place: bool,
    scripts: &'s Profile,
    pubsub: &'s PubSub,
    tracking: &'s Tracking,
}

impl Judge<'_> {
    /// What the runs of the script or the function were like that the request calls; `None` for other requests.
    fn kind_of_script(&self, frame: &[u8], head: &RespHead) -> Option<Kind> {
        if Work::of(head.command()) != Work::Script {
            return None;
        }
        let name = head.arg(frame, 1).unwrap_or_default();
        let tag = match head.command() {
            EVAL | EVAL_RO => self.scripts.tag_of_body(name),
            FCALL | FCALL_RO => self.scripts.tag_of_function(name),
            _by_digest => Digest::parse(name).map(|digest| self.scripts.tag_of_digest(&digest)),
        };
        let is_quoted = frame.first() != Some(&b'*');
        let kind = tag.filter(|_| !is_quoted).map(|tag| self.scripts.kind_of(tag));
        Some(kind.unwrap_or(Kind::Long))
    }

    fn size_of(&self, frame: &[u8], head: &RespHead, span: Span) -> SizeClass {
        let is_heard_by_many = self.tracking.is_any() && self.listeners(frame, head) > SMALL_ELEMENTS_MAX;
        if !is_heard_by_many && self.elements(frame, head, span) <= SMALL_ELEMENTS_MAX {
            SizeClass::Small
        } else {
            SizeClass::Large
        }
    }

    /// The work of a request in elements.
    fn elements(&self, frame: &[u8], head: &RespHead, span: Span) -> usize {
        let work = Work::of(head.command());
        match (work, span) {
            (Work::Constant | Work::Administration, _) => 0,
            _ if is_few(work, span) => 0,
            (Work::Script | Work::Unbounded, _) => usize::MAX,
            _ if has_quotes(frame) => usize::MAX,
            (Work::Arguments, _) => head.arg_count() - 1,
            (Work::Count, _) => self.counted(frame, head),
            (Work::Elements | Work::Span | Work::SpanOrLimit | Work::Limit, _) => self.of_keys(frame, head),
            (Work::CountedKeys(arg) | Work::Pop(arg), _) => self.of_counted_keys(arg, frame, head),
            (Work::Sort, _) => self.sorted(frame, head),
            (Work::Copy, _) => self.copied(frame, head),
            (Work::Bit | Work::Fields, _) => self.patched(frame, head),
            (Work::Bits(first), _) => self.bits(first, frame, head),
            (Work::Subscribers, _) => self.subscribers(frame, head),
            (Work::Sketch, _) => self.added_to_sketch(frame, head),
            (Work::Sketches, _) => self.sketches(frame, head),
            (Work::Places(key), _) => self.places(key, frame, head),
            (Work::Pairs, _) => self.pairs(frame, head),
            (Work::Payload, _) => restored(frame, head),
            (Work::Stream | Work::Entries | Work::EntryRange, _) => {
                let args: SmallVec<[&[u8]; 16]> = head.args(frame).collect();
                streams::size::elements(self.store, &args)
            }
            (Work::Cursor, _) => self.cursor(frame, head, span),
            (Work::KeyspaceCursor, _) => {
                let count = scan_count(frame, head, 2, span);
                self.keyspace(scan_pattern(frame, head, 2), count)
            }
            (Work::Keyspace, _) => self.keyspace(head.arg(frame, 1), usize::MAX),
            (Work::AnyKey, _) => self.store.key_len_max() / COPIED_BYTES_PER_ELEMENT,
        }
    }

    fn counted(&self, frame: &[u8], head: &RespHead) -> usize {
        match head.arg(frame, 2).map(parse_integer) {
            None => 1,
            Some(None) => 0,
            Some(Some(count)) => {
                let wanted = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
                if count < 0 {
                    wanted
                } else {
                    wanted.min(self.of_keys(frame, head))
                }
            }
        }
    }

    /// The elements of all keys of the request.
    fn of_keys(&self, frame: &[u8], head: &RespHead) -> usize {
        let Some(spec) = CommandTable::get().find(head.command()) else {
            return usize::MAX;
        };
        // Too few arguments give an error, which is quick.
        let (first, count, step) = positions(spec, head).unwrap_or((0, 0, 1));
        if count > KEYS_MAX {
            return usize::MAX;
        }
        self.of_each(head.args(frame).skip(first).step_by(step).take(count))
    }

    /// The clients that hear of a change of the keys, as far as the request may change them.
    #[cold]
    fn listeners(&self, frame: &[u8], head: &RespHead) -> usize {
        let spec = CommandTable::get().find(head.command());
        let Some(spec) = spec.filter(|spec| spec.flags.contains(Flag::Write)) else {
            return 0;
        };
        let (first, count, step) = positions(spec, head).unwrap_or((0, 0, 1));
        let keys = head.args(frame).skip(first).step_by(step);
        let keys = keys.take(count.min(KEYS_MAX));
        keys.map(|key| self.tracking.listeners(key)).sum()
    }

    /// The elements of the keys that argument `count_arg` counts and that follow it.
    fn of_counted_keys(&self, count_arg: usize, frame: &[u8], head: &RespHead) -> usize {
        let count = head.arg(frame, count_arg).and_then(parse_integer);
        match count.and_then(|count| usize::try_from(count).ok()) {
            // It gets an error.
            None => 0,
            Some(count) if count > KEYS_MAX => usize::MAX,
            Some(count) => self.of_each(head.args(frame).skip(count_arg + 1).take(count)),
        }
    }

    fn of_each<'k>(&self, keys: impl Iterator<Item = &'k [u8]>) -> usize {
        let elements = keys.map(|key| {
            let size = |entry: Option<&Entry>| entry.map_or(0, |entry| in_elements(entry.value()));
            self.store.peek(key, size)
        });
        elements.fold(0, usize::saturating_add)
    }

    /// Strings of unknown length are compared with BY. Each GET looks up a key for each element.
    fn sorted(&self, frame: &[u8], head: &RespHead) -> usize {
        let is_option = |arg: &[u8], name: &str| arg.eq_ignore_ascii_case(name.as_bytes());
        let options = || head.args(frame).skip(2);
        if options().any(|arg| is_option(arg, "by")) {
            return usize::MAX;
        }
        let gets = options().filter(|arg| is_option(arg, "get")).count();
        let key_elements = 1 + frame.len() / COPIED_BYTES_PER_ELEMENT;
        let each = 1 + gets.saturating_mul(key_elements);
        self.of_keys(frame, head).saturating_mul(each)
    }

    /// Bytes are put into a string that has room for them and that no other request reads. SETRANGE puts zeros before
    /// them.
    fn copied(&self, frame: &[u8], head: &RespHead) -> usize {
        const SETRANGE: CommandId = CommandId::of(b"setrange");
        let Some(key) = head.arg(frame, 1) else {
            return 0;
        };
        let offset = (head.command() == SETRANGE).then(|| {
            let offset = head.arg(frame, 2).and_then(parse_integer);
            offset.map_or(0, |offset| usize::try_from(offset).unwrap_or(0))
        });
        let copied = self.store.peek(key, |entry| match entry.map(Entry::value) {
            Some(Value::String(bytes)) => {
                let start = offset.unwrap_or(bytes.len());
                match self.has_room(bytes, start.saturating_add(frame.len())) {
                    true => start.saturating_sub(bytes.len()),
                    false => start.max(bytes.len()),
                }
            }
            _ => offset.unwrap_or(0),
        });
        frame.len().saturating_add(copied).div_ceil(COPIED_BYTES_PER_ELEMENT)
    }

    fn has_room(&self, string: &Element, len: usize) -> bool {
        self.changes_in_place && string.has_room(len)
    }

    /// Bits change in place in a string that reaches so far and that no other request reads.
    fn patched(&self, frame: &[u8], head: &RespHead) -> usize {
        let Some(key) = head.arg(frame, 1) else {
            return 0;
        };
        let reach = patched_bytes(frame, head);
        let copied = self.store.peek(key, |entry| match entry.map(Entry::value) {
            Some(Value::String(bytes)) if self.has_room(bytes, reach) => 0,
            Some(Value::String(bytes)) => reach.max(bytes.len()),
            Some(_) => 0,
            None => reach,
        });
        head.arg_count() - 1 + copied / COPIED_BYTES_PER_ELEMENT
    }

    /// The bytes between the ends in the arguments from `first` on, which may be absent.
    fn bits(&self, first: usize, frame: &[u8], head: &RespHead) -> usize {
        let Some(key) = head.arg(frame, 1) else {
            return 0;
        };
        let end = |arg| head.arg(frame, arg).and_then(parse_integer);
        let is_bits = head.arg(frame, first + 2).is_some_and(|unit| unit.eq_ignore_ascii_case(b"bit"));
        let span = match (end(first), end(first + 1)) {
            (Some(start), Some(end)) if (start < 0) == (end < 0) => {
                let units = usize::try_from(end.saturating_sub(start)).unwrap_or(0);
                if is_bits { units / 8 } else { units }
            }
            _ => usize::MAX,
        };
        let len = self.store.peek(key, |entry| match entry.map(Entry::value) {
            Some(Value::String(bytes)) => bytes.len(),
            _ => 0,
        });
        len.min(span) / COMPARED_BYTES_PER_ELEMENT
    }

    /// Each subscriber is work as of one element.
    fn subscribers(&self, frame: &[u8], head: &RespHead) -> usize {
        const SPUBLISH: CommandId = CommandId::of(b"spublish");
        let channel = head.arg(frame, 1).unwrap_or_default();
        if head.command() == SPUBLISH {
            return self.pubsub.subscribers(TopicKind::Shard, channel);
        }
        let patterns = self.pubsub.len(TopicKind::Pattern);
        let steps = StepsBound::longest(self.pubsub.pattern_len_max()).for_text(channel.len());
        let matched = patterns.saturating_mul(1 + steps / STEPS_PER_ELEMENT);
        self.pubsub.subscribers(TopicKind::Channel, channel) + self.pubsub.pattern_subscriptions() + matched
    }

    fn added_to_sketch(&self, frame: &[u8], head: &RespHead) -> usize {
        let walked = head.arg(frame, 1).map_or(0, |key| {
            self.store.peek(key, |entry| match entry.map(Entry::value) {
                Some(Value::String(bytes)) if bytes.len() <= SPARSE_BYTES_MAX => bytes.len(),
                _ => 0,
            })
        });
        (head.arg_count() - 1).saturating_mul(1 + walked / STEPS_PER_ELEMENT)
    }

    fn sketches(&self, frame: &[u8], head: &RespHead) -> usize {
        let is_remembered = |key| {
            self.store.peek(key, |entry| match entry.map(Entry::value) {
                Some(Value::String(bytes)) => Sketch::of(bytes).is_ok_and(|sketch| sketch.cached_count().is_some()),
                _ => false,
            })
        };
        match (head.arg_count() - 1, head.arg(frame, 1)) {
            (1, Some(key)) if is_remembered(key) => 0,
            (keys, _) => keys.saturating_mul(REGISTERS / STEPS_PER_ELEMENT),
        }
    }

    fn places(&self, key: usize, frame: &[u8], head: &RespHead) -> usize {
        let args: SmallVec<[&[u8]; 16]> = head.args(frame).collect();
        let Some(key) = args.get(key) else {
            return 0;
        };
        let arity = CommandTable::get().find(head.command());
        if arity.is_none_or(|spec| !spec.accepts(args.len())) {
            return 0;
        }
        self.store.peek(key, |entry| match entry.map(Entry::value) {
            Some(Value::SortedSet(set)) if set.len() > SMALL_ELEMENTS_MAX => geo::candidates(&args, set),
            Some(Value::SortedSet(set)) => set.len(),
            _ => 0,
        })
    }

    fn pairs(&self, frame: &[u8], head: &RespHead) -> usize {
        let bytes = |arg| {
            let key = head.arg(frame, arg).unwrap_or_default();
            self.store.peek(key, |entry| match entry.map(Entry::value) {
                Some(Value::String(bytes)) => bytes.len(),
                _ => 0,
            })
        };
        bytes(1).saturating_mul(bytes(2)) / STEPS_PER_ELEMENT
    }

    fn cursor(&self, frame: &[u8], head: &RespHead, span: Span) -> usize {
        let (Some(key), Some(cursor)) = (head.arg(frame, 1), head.arg(frame, 2)) else {
            return 0;
        };
        let pattern = scan_pattern(frame, head, 3);
        if pattern.is_none() && span == Span::Few {
            return 0;
        }
        let cursor = parse_integer(cursor).and_then(|cursor| u64::try_from(cursor).ok());
        let Some(cursor) = cursor else {
            return usize::MAX;
        };
        let count = scan_count(frame, head, 3, span);
        self.store.peek(key, |entry| {
            let Some(value) = entry.map(Entry::value) else {
                return 0;
            };
            if value.cardinality().min(count) > SMALL_ELEMENTS_MAX {
                return usize::MAX;
            }
            let bound = pattern.map(StepsBound::of);
            let (mut elements, mut steps) = (0, 0_usize);
            value.visit_scanned_lens(cursor, count, |len| {
                elements += 1;
                steps = steps.saturating_add(bound.map_or(0, |bound| bound.for_text(len)));
            });
            elements + steps / STEPS_PER_ELEMENT
        })
    }

    /// The work of looking at `count` keys.
    fn keyspace(&self, pattern: Option<&[u8]>, count: usize) -> usize {
        let keys = self.store.len().min(count);
        let len_max = self.store.key_len_max();
        let steps = pattern.map_or(0, |pattern| StepsBound::of(pattern).for_text(len_max));
        let copied = keys.saturating_mul(len_max) / COPIED_BYTES_PER_ELEMENT;
        let matched = keys.saturating_mul(steps) / STEPS_PER_ELEMENT;
        keys.saturating_add(copied).saturating_add(matched)
    }
}

/// The payload says how many elements it has, and how long its strings are.
fn restored(frame: &[u8], head: &RespHead) -> usize {
    let (elements, bytes) = head.arg(frame, 3).map_or((0, 0), rdb::elements_max);
    let copied = bytes / COPIED_BYTES_PER_ELEMENT as u64;
    usize::try_from(elements.saturating_add(copied)).unwrap_or(usize::MAX)
}

/// Whether an inline command may hold quotes and escapes, which its head does not remove.
fn has_quotes(frame: &[u8]) -> bool {
    frame.first() != Some(&b'*') && memchr::memchr2(b'"', b'\'', frame).is_some()
}

/// Bytes of the string up to the last bit that SETBIT or BITFIELD writes.
fn patched_bytes(frame: &[u8], head: &RespHead) -> usize {
    const SETBIT: CommandId = CommandId::of(b"setbit");
    /// Bits of the widest field.
    const FIELD_BITS: usize = 64;
    let offset = |arg: &[u8]| {
        let (index, unit) = match arg {
            [b'#', index @ ..] => (index, FIELD_BITS),
            index => (index, 1),
        };
        let index = parse_integer(index).and_then(|index| usize::try_from(index).ok());
        index.unwrap_or(0).saturating_mul(unit)
    };
    if head.command() == SETBIT {
        return head.arg(frame, 2).map_or(0, offset) / 8 + 1;
    }
    let mut args = head.args(frame).skip(2);
    let mut reach = 0;
    while let Some(action) = args.next() {
        let is = |name: &str| action.eq_ignore_ascii_case(name.as_bytes());
        // The type, before the offset; what OVERFLOW does.
        args.next();
        if is("get") {
            args.next();
        } else if is("set") || is("incrby") {
            let end = args.next().map_or(0, offset).saturating_add(FIELD_BITS);
            reach = reach.max(end.div_ceil(8));
            args.next();
        }
    }
    reach
}

/// A value's elements, and their bytes if it has few elements.
fn in_elements(value: &Value) -> usize {
    let elements = value.cardinality();
    if elements > SMALL_ELEMENTS_MAX {
        return elements;
    }
    elements + value.payload_bytes(SMALL_ELEMENTS_MAX) / COMPARED_BYTES_PER_ELEMENT
}

/// The pattern of MATCH among the arguments from `first` on; the whole frame, which is longer, if several could be it.
fn scan_pattern<'f>(frame: &'f [u8], head: &RespHead, first: usize) -> Option<&'f [u8]> {
    let mut args = head.args(frame).skip(first);
    args.find(|arg| arg.eq_ignore_ascii_case(b"match"))?;
    let pattern = args.next()?;
    if args.any(|arg| arg.eq_ignore_ascii_case(b"match")) {
        return Some(frame);
    }
    Some(pattern)
}

/// The largest COUNT among the arguments from `first` on. The rules have found it small where the span is.
fn scan_count(frame: &[u8], head: &RespHead, first: usize, span: Span) -> usize {
    /// COUNT of a request without it.
    const DEFAULT: usize = 10;
    if span == Span::Unknown {
        return usize::MAX;
    }
    let mut args = head.args(frame).skip(first);
    let mut largest = DEFAULT;
    while let Some(arg) = args.next() {
        if arg.eq_ignore_ascii_case(b"count") {
            let count = args.clone().next().and_then(parse_integer);
            let count = count.and_then(|count| usize::try_from(count).ok());
            largest = largest.max(count.unwrap_or(0));
        }
    }
    largest
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use psp_protocols::Framing;
    use psp_protocols::resp::{Resp, encode_command};

    use super::*;
    use crate::testing::Session;

    /// A key, field or element of 60 KB. A request with it is just shorter than [`SMALL_BYTES_MAX`].
    fn long(byte: &str) -> String {
        byte.repeat(60_000)
    }

    /// A server with 200 strings and keys of each kind: three elements in `l`, `h`, `s`, `z`; 200 in `L`, `H`, `S`,
    /// `Z`; four of 256 KiB in `lb`, `hb`, `sb`, `zb`.
    fn filled() -> Session {
        let mut session = Session::new();
        for index in 0..200 {
            let small = if index < 3 { &["l", "h", "s", "z"][..] } else { &[] };
            let large = &["L", "H", "S", "Z"][..];
            let wide = if index < 4 { &["lb", "hb", "sb", "zb"][..] } else { &[] };
            for key in small.iter().chain(large).chain(wide) {
                let bytes = if key.len() == 2 { 1 << 18 } else { 1 };
                let element = format!("{}{index}", "x".repeat(bytes));
                let line = match key.as_bytes()[0].to_ascii_lowercase() {
                    b'l' => format!("RPUSH {key} {element}"),
                    b'h' => format!("HSET {key} {element} v"),
                    b's' => format!("SADD {key} {element}"),
                    _ => format!("ZADD {key} {index} {element}"),
                };
                session.run(&line);
            }
        }
        session.run(&format!("SET string {}", "x".repeat(1 << 20)));
        for index in 0..200 {
            session.run(&format!("SET k{index} v"));
        }
        session
    }

    /// The name of the type that the classifier gives the words of `line`.
    fn type_of(session: &Session, line: &str) -> String {
        let words: Vec<&[u8]> = line.split_ascii_whitespace().map(str::as_bytes).collect();
        let mut frame = Vec::new();
        encode_command(&words, &mut frame);
        type_of_frame(session, &frame)
    }

    fn type_of_frame(session: &Session, frame: &[u8]) -> String {
        let server = &session.server;
        let classifier = classifier(&Sources::of(server));
        let head = Resp::default().head_of(frame).expect("a whole frame");
        let types = classifier.types();
        types.name_of_slot(types.slot(classifier.classify(frame, &head))).to_owned()
    }

    #[test]
    fn the_sizes_of_a_clients_own_database_count() {
        let mut session = filled();
        session.run("SELECT 1");
        session.run("HSET H f v");
        for index in 0..300 {
            session.run(&format!("SADD only1 {index}"));
        }
        let server = &session.server;
        let others = OtherDatabases::new(Sources::of(server));
        let longer = |database: usize, line: &str| {
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            let mut frame = Vec::new();
            encode_command(&words, &mut frame);
            let head = Resp::default().head_of(&frame).expect("a whole frame");
            let found = classifier(&Sources::of(server)).classify(&frame, &head);
            let longer = others.longer((database, false), &frame, &head, found);
            longer.map(|longer| longer > found)
        };
        assert_eq!(longer(1, "SMEMBERS only1"), Some(true));
        assert_eq!(longer(1, "SRANDMEMBER only1 999"), Some(true));
        assert_eq!(longer(1, "KEYS *"), None, "long in database 0, and found so");
        assert_eq!(longer(1, "SRANDMEMBER only1 9"), None);
        assert_eq!(longer(0, "SMEMBERS only1"), None);
        assert_eq!(longer(2, "SMEMBERS only1"), None);
        assert_eq!(longer(1, "GET only1"), None);
    }

    #[test]
    fn a_transaction_copies_the_long_strings_that_it_changes() {
        let mut session = filled();
        let text = vec![b'x'; 200_000];
        session.run_args(&[b"SET", b"text", &text]);
        session.run("APPEND text it-has-room-now");
        let server = &session.server;
        let others = OtherDatabases::new(Sources::of(server));
        for line in ["APPEND text x", "SETRANGE text 1 x", "SETBIT text 1 1"] {
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            let mut frame = Vec::new();
            encode_command(&words, &mut frame);
            let head = Resp::default().head_of(&frame).expect("a whole frame");
            let found = classifier(&Sources::of(server)).classify(&frame, &head);
            let longer = |is_queued| others.longer((0, is_queued), &frame, &head, found);
            assert_eq!(longer(false), None, "{line}");
            assert!(longer(true) > Some(found), "{line}");
        }
    }

    #[test]
    fn commands_of_constant_work_are_short_at_their_worst() {
        let session = filled();
        for spec in CommandTable::get().specs() {
            let name = spec.name;
            if Work::of(CommandId::of(name.as_bytes())) != Work::Constant {
                continue;
            }
            for line in [format!("{name} {} 1 b", long("a")), format!("{name} string")] {
                let found = type_of(&session, &line);
                assert_ne!(found, "scan", "{line:.20}");
                assert_ne!(found, "UNKNOWN", "{line:.20}");
            }
        }
    }

    /// Per command: requests that are short, and the worst requests of less than 64 KiB, which are long.
    #[test]
    fn the_worst_requests_are_long() {
        let mut session = filled();
        session.run(&format!("SET read {}", "x".repeat(1 << 20)));
        let _reader = session.store().get(b"read");
        session.run("SET word ohmytext");
        for place in 0..300 {
            session.run(&format!("GEOADD earth {} {} p{place}", place % 20, place / 20));
        }
        // 500 short entries, of which the group `g` has delivered all; three; and three of 20 KB.
        for id in 1..=500 {
            session.run(&format!("XADD X {id} f v"));
        }
        for id in 1..=3 {
            session.run(&format!("XADD x {id} f v"));
            session.run(&format!("XADD xb {id} {}", " f v".repeat(5000)));
        }
        for group in ["g", "few"] {
            session.run(&format!("XGROUP CREATE X {group} 0"));
        }
        session.run("XREADGROUP GROUP g c STREAMS X >");
        session.run("XREADGROUP GROUP few c COUNT 3 STREAMS X >");
        session.run("XGROUP CREATE xb g 0");
        for (key, members) in [("sketch", 10_000), ("sparse", 1000)] {
            let members: Vec<String> = (0..members).map(|member| format!("m{member}")).collect();
            session.run(&format!("PFADD {key} {}", members.join(" ")));
        }
        let mut crowd: Vec<_> = (0..200).map(|_| session.beside()).collect();
        for subscriber in &mut crowd {
            subscriber.run("SSUBSCRIBE crowd");
            subscriber.run("SUBSCRIBE crowd");
        }
        crowd[0].run("PSUBSCRIBE c*");
        let many = |line: &str, each: &str| line.to_owned() + &each.repeat(200);
        let huge_list = |line: &str| format!("{line} {}", long("a"));
        // Matching them takes the product of both lengths.
        let slow = format!("*?{}b*", "a".repeat(2000));
        let matching = |line: &str| format!("{line} MATCH {slow}");
        let hidden = |line: &str, option: &str| format!("{line}{} {option}", " TYPE hash".repeat(10));
        let cases: Vec<(&str, &[&str], Vec<String>)> = vec![
            ("append", &["k v", "l v"], vec!["string v".into(), huge_list("string")]),
            (
                "bitcount",
                &["k", "string 0 100", "string -100 -1", "string 0 90000 bit"],
                vec!["string".into(), "string 0 -1".into(), "string 0 900000".into()],
            ),
            (
                "bitfield",
                &["k set u8 0 1", "string incrby u8 #9 1000000000", "k get u8 9000000 overflow fail"],
                vec![
                    "string set u8 9000000 1".into(),
                    "k get u8 0 incrby u8 #100000 1".into(),
                    "read set u8 0 1".into(),
                    many("k", " get u8 0"),
                ],
            ),
            ("bitfield_ro", &["string get u8 0"], vec![many("k", " get u8 0")]),
            ("bitop", &["and d k k"], vec!["and d k string".into(), many("or d", " k")]),
            (
                "bitpos",
                &["k 1", "string 1 0 100"],
                vec!["string 1".into(), "string 1 0".into(), "string 0 5 -1 bit".into()],
            ),
            ("blmpop", &["0 1 L left", "0 1 l left count 1000"], vec!["0 1 L left count 1000".into()]),
            ("blpop", &["L 0", "a b 0"], vec![many("", " k") + " 0"]),
            ("brpop", &["L 0", "a b 0"], vec![many("", " k") + " 0"]),
            ("bzmpop", &["0 1 Z min", "0 1 z min count 1000"], vec!["0 1 Z min count 1000".into()]),
            ("bzpopmax", &["Z 0", "a b 0"], vec![many("", " k") + " 0"]),
            ("bzpopmin", &["Z 0", "a b 0"], vec![many("", " k") + " 0"]),
            ("command", &["count"], vec![String::new(), "docs".into(), many("docs", " get")]),
            ("debug", &[], vec!["sleep 1".into()]),
            ("del", &["L", "a b c"], vec![many("", " k")]),
            ("dump", &["k"], vec!["L".into(), "string".into()]),
            ("eval", &[], vec!["return 0".into()]),
            ("eval_ro", &[], vec!["return 0".into()]),
            ("evalsha", &[], vec!["a 0".into()]),
            ("evalsha_ro", &[], vec!["a 0".into()]),
            ("exists", &["L", "a b c"], vec![many("", " k")]),
            ("fcall", &[], vec!["f 0".into()]),
            ("fcall_ro", &[], vec!["f 0".into()]),
            ("flushall", &[], vec![String::new()]),
            ("flushdb", &[], vec![String::new()]),
            (
                "function",
                &["kill", "stats"],
                vec![
                    "load x".into(),
                    "list".into(),
                    "dump".into(),
                    "restore x".into(),
                    "flush".into(),
                    "delete x".into(),
                    String::new(),
                ],
            ),
            ("geoadd", &["z 1 1 a"], vec![many("z", " 1 1 a")]),
            ("geohash", &["earth p0"], vec![many("earth", " p0")]),
            ("geopos", &["earth p0"], vec![many("earth", " p0")]),
            (
                "georadius",
                &["earth 0 0 1 km", "z 0 0 9000 km", "earth 0 0 9000 parsec"],
                vec!["earth 0 0 9000 km".into()],
            ),
            ("georadius_ro", &["earth 0 0 1 km"], vec!["earth 0 0 9000 km".into()]),
            (
                "georadiusbymember",
                &["earth p0 1 km", "earth none 9000 km"],
                vec!["earth p0 9000 km".into()],
            ),
            ("georadiusbymember_ro", &["earth p0 1 km"], vec!["earth p0 9000 km".into()]),
            (
                "geosearch",
                &["earth fromlonlat 0 0 bybox 1 1 km", "earth frommember p0 byradius 1 km"],
                vec![
                    "earth fromlonlat 0 0 bybox 9000 9000 km".into(),
                    "earth frommember p0 byradius 9000 km count 1 any".into(),
                ],
            ),
            (
                "geosearchstore",
                &["d earth fromlonlat 0 0 byradius 1 km"],
                vec!["d earth fromlonlat 0 0 byradius 9000 km".into()],
            ),
            ("hdel", &["H a", "h a b c"], vec![many("h", " f")]),
            ("hexpire", &["h 9 FIELDS 1 f"], vec![many("h 9 FIELDS 200", " f")]),
            ("hexpireat", &["h 9 FIELDS 1 f"], vec![many("h 9 FIELDS 200", " f")]),
            ("hexpiretime", &["h FIELDS 1 f"], vec![many("h FIELDS 200", " f")]),
            ("hgetall", &["h", "none"], vec!["H".into(), "hb".into()]),
            ("hgetdel", &["h FIELDS 1 f"], vec![many("h FIELDS 200", " f")]),
            ("hgetex", &["h FIELDS 1 f"], vec![many("h FIELDS 200", " f")]),
            ("hkeys", &["h"], vec!["H".into(), "hb".into()]),
            ("hmget", &["H a b"], vec![many("h", " f")]),
            ("hpersist", &["h FIELDS 1 f"], vec![many("h FIELDS 200", " f")]),
            ("hpexpire", &["h 9 FIELDS 1 f"], vec![many("h 9 FIELDS 200", " f")]),
            ("hpexpireat", &["h 9 FIELDS 1 f"], vec![many("h 9 FIELDS 200", " f")]),
            ("hpexpiretime", &["h FIELDS 1 f"], vec![many("h FIELDS 200", " f")]),
            ("hpttl", &["h FIELDS 1 f"], vec![many("h FIELDS 200", " f")]),
            ("hmset", &["h f v"], vec![many("h", " f v")]),
            (
                "hrandfield",
                &["h", "H 100", "h 1000 withvalues"],
                vec!["h -129".into(), "H 1000".into(), "h -900000 withvalues".into()],
            ),
            (
                "hscan",
                &["h 0", "H 0", "H 0 MATCH x* COUNT 100", "h 0 COUNT 1000"],
                vec![
                    "H 0 COUNT 1000".into(),
                    "H 0 COUNT 10 COUNT 1000".into(),
                    hidden("H 0", "COUNT 1000"),
                    matching("h 0"),
                    "hb 0 MATCH *x?x?x?x*b".into(),
                    format!("h 0 MATCH a MATCH {slow}"),
                ],
            ),
            ("hset", &["h f v"], vec![many("h", " f v")]),
            ("hsetex", &["h FIELDS 1 f v"], vec![many("h FIELDS 200", " f v")]),
            ("httl", &["h FIELDS 1 f"], vec![many("h FIELDS 200", " f")]),
            ("hvals", &["h"], vec!["H".into(), "hb".into()]),
            ("keys", &[], vec!["*".into(), slow.clone()]),
            ("lcs", &["k k", "word word"], vec!["string word".into()]),
            ("linsert", &["l before a b"], vec!["L before a b".into(), "lb before a b".into()]),
            (
                "lmpop",
                &["1 L left", "1 l left count 1000"],
                vec![
                    "1 L left count 1000".into(),
                    "2 count L left count 1000".into(),
                    "40 ".to_owned() + &"L ".repeat(40) + "left",
                ],
            ),
            ("lpop", &["L", "L 100", "l 1000"], vec!["L 1000".into()]),
            ("lpos", &["l a"], vec!["L a".into(), "lb a".into()]),
            ("lpush", &["L a"], vec![many("l", " a")]),
            ("lpushx", &["L a"], vec![many("l", " a")]),
            ("lrange", &["L 0 9", "l 0 -1"], vec!["L 0 -1".into(), "L 0 500".into()]),
            ("lrem", &["l 0 a"], vec!["L 0 a".into(), "lb 0 a".into()]),
            ("ltrim", &["l 0 1"], vec!["L 0 1".into()]),
            ("mget", &["a b c"], vec![many("", " k")]),
            ("mset", &["a b"], vec![many("", " k v")]),
            ("msetnx", &["a b"], vec![many("", " k v")]),
            (
                "pfadd",
                &["none a", "sketch a b c"],
                vec![many("none", " a"), "sparse a b c d e f g h i j k".into()],
            ),
            ("pfcount", &["none", "sketch"], vec!["a b".into(), many("", " a")]),
            ("pfmerge", &["none"], vec!["none sketch".into()]),
            (
                "restore",
                &["k 0 \u{0}\u{5}hello", "k 0 \u{2}\u{3}abcd", "k 0 \u{10}\u{3f}abcd"],
                vec![
                    "k 0 \u{2}\u{41}\u{0}".into(),
                    "k 0 \u{10}\u{41}\u{1f}".into(),
                    format!("k 0 \u{2}\u{1}\u{42}\u{0}{}", "x".repeat(1000)),
                ],
            ),
            ("rpop", &["L", "L 100"], vec!["L 1000".into()]),
            ("rpush", &["L a"], vec![many("l", " a")]),
            ("rpushx", &["L a"], vec![many("l", " a")]),
            ("sadd", &["S a"], vec![many("s", " a")]),
            (
                "scan",
                &["0", "0 COUNT 100", "0 MATCH user:* COUNT 5"],
                vec![matching("0"), "0 COUNT 10 COUNT 1000".into(), hidden("0", "COUNT 1000")],
            ),
            (
                "script",
                &["kill", "exists a"],
                vec!["load a".into(), "flush".into(), many("exists", " a")],
            ),
            ("sdiff", &["s s"], vec!["s S".into(), "s sb".into()]),
            (
                "setbit",
                &["k 9 1", "string 8000000 1", "none 100000 1"],
                vec!["string 9000000 1".into(), "k 1000000 1".into(), "read 0 1".into()],
            ),
            ("sdiffstore", &["d s s"], vec!["d s S".into()]),
            (
                "setrange",
                &["k 5 v", "string 9 v"],
                vec!["string 2000000 v".into(), "k 100000 v".into(), "read 0 v".into()],
            ),
            ("sinter", &["s s"], vec!["s S".into(), "sb sb".into()]),
            ("sintercard", &["2 s s"], vec!["2 s S".into(), many("200", " s")]),
            ("sinterstore", &["d s s"], vec!["d s S".into()]),
            ("smembers", &["s"], vec!["S".into(), "sb".into()]),
            ("smismember", &["S a"], vec![many("s", " a")]),
            (
                "sort",
                &["l", "l GET #", "none"],
                vec![
                    "L".into(),
                    "lb ALPHA".into(),
                    "l BY w_*".into(),
                    "l ALPHA".to_owned() + &" GET w_*".repeat(50),
                    format!("l GET w_*{}", long("a")),
                ],
            ),
            ("sort_ro", &["l"], vec!["L".into(), "l BY w_*".into()]),
            ("spop", &["S", "S 100"], vec!["S 1000".into()]),
            (
                "srandmember",
                &["s", "S 100", "s -5", "s 1000"],
                vec!["s -900000".into(), "none -900000".into(), "S 1000".into()],
            ),
            ("srem", &["S a"], vec![many("s", " a")]),
            ("sscan", &["s 0"], vec!["S 0 COUNT 1000".into(), matching("s 0")]),
            ("sunion", &["s s"], vec!["s S".into(), many("", " s")]),
            ("sunionstore", &["d s s"], vec!["d s S".into(), "d sb".into()]),
            ("touch", &["a b c"], vec![many("", " k")]),
            ("unlink", &["a b c"], vec![many("", " k")]),
            ("watch", &["a b c"], vec![many("", " k")]),
            ("xack", &["X g 1"], vec![many("X g", " 1")]),
            (
                "xadd",
                &["X * f v", "X MAXLEN ~ 1000 * f v", "X MAXLEN 450 * f v", "x NOMKSTREAM MINID 9 * f v"],
                vec![
                    many("X *", " f v"),
                    "X MAXLEN 0 * f v".into(),
                    "X NOMKSTREAM MINID 400 * f v".into(),
                    "X MAXLEN ~ 0 * f v".into(),
                ],
            ),
            (
                "xautoclaim",
                &["X few c 0 -", "X g c 0 - COUNT 5", "X none c 0 -"],
                vec!["X g c 0 -".into(), "X g c 0 - COUNT 100".into(), "X g c 0 - COUNT 5 COUNT 100".into()],
            ),
            ("xclaim", &["X g c 0 1 2"], vec![many("X g c 0", " 1"), "xb g c 0 1 2 3".into()]),
            ("xdel", &["X 1"], vec![many("X", " 1")]),
            (
                "xgroup",
                &["create X h 0", "destroy X few", "delconsumer X g none", "help"],
                vec!["destroy X g".into(), "delconsumer X g c".into()],
            ),
            (
                "xinfo",
                &["stream X", "stream X full", "groups X", "consumers X g"],
                vec!["stream X full count 0".into(), "stream X full count 400".into(), "stream xb".into()],
            ),
            (
                "xpending",
                &["X g", "X g - + 10", "X few - + 1000"],
                vec!["X g - + 1000".into(), "X g IDLE 5 - + 10".into()],
            ),
            (
                "xrange",
                &["X - + COUNT 50", "X 10 40", "x - +", "none - +"],
                vec!["X - +".into(), "xb - + COUNT 1".into(), "X - + COUNT 10 COUNT 400".into()],
            ),
            (
                "xread",
                &["COUNT 10 STREAMS X 0", "STREAMS X $", "STREAMS X 480", "BLOCK 0 STREAMS none 0"],
                vec!["STREAMS X 0".into(), "COUNT 0 STREAMS X 0".into(), "COUNT 1 STREAMS xb 0".into()],
            ),
            (
                "xreadgroup",
                &["GROUP g c COUNT 10 STREAMS X >", "GROUP g c STREAMS X >", "GROUP few c STREAMS X 0"],
                vec!["GROUP few c STREAMS X >".into(), "GROUP g c STREAMS X 0".into()],
            ),
            ("xrevrange", &["X + - COUNT 50", "X 40 10"], vec!["X + -".into(), "xb + - COUNT 1".into()]),
            (
                "xtrim",
                &["X MAXLEN 450", "X MAXLEN ~ 450", "none MAXLEN 0"],
                vec!["X MAXLEN 0".into(), "X MINID 400".into(), "X MAXLEN ~ 0".into()],
            ),
            ("zadd", &["Z 1 a"], vec![many("z", " 1 a")]),
            ("zdiff", &["2 z z"], vec!["2 z Z".into()]),
            ("zdiffstore", &["d 2 z z"], vec!["d 2 z Z".into(), "d 1 zb".into()]),
            ("zinter", &["2 z z"], vec!["2 z Z".into()]),
            ("zintercard", &["2 z z"], vec!["2 z Z".into()]),
            ("zinterstore", &["d 2 z z"], vec!["d 2 z Z".into()]),
            ("zmpop", &["1 Z min", "1 z min count 1000"], vec!["1 Z min count 1000".into()]),
            ("zmscore", &["Z a"], vec![many("z", " a")]),
            ("zpopmax", &["Z", "Z 100"], vec!["Z 1000".into()]),
            ("zpopmin", &["Z", "Z 100"], vec!["Z 1000".into()]),
            ("zrandmember", &["z", "Z 100"], vec!["z -900000".into(), "Z 1000".into()]),
            (
                "zrange",
                &["Z 0 9", "z 0 -1", "z 0 9 BYSCORE"],
                vec![
                    "Z 0 -1".into(),
                    "Z 0 9 BYSCORE".into(),
                    "Z 0 9".to_owned() + &" REV".repeat(20) + " BYSCORE",
                ],
            ),
            ("zrangebylex", &["Z - + LIMIT 0 9"], vec!["Z - +".into()]),
            (
                "zrangebyscore",
                &["Z 0 9 LIMIT 0 9", "z 0 9"],
                vec!["Z 0 9".into(), "Z 0 9 LIMIT 0 9 LIMIT 0 1000".into()],
            ),
            ("zrangestore", &["d z 0 -1"], vec!["d Z 0 -1".into()]),
            ("zrem", &["Z a"], vec![many("z", " a")]),
            ("zremrangebylex", &["z - +"], vec!["Z - +".into()]),
            ("zremrangebyrank", &["z 0 -1"], vec!["Z 0 -1".into()]),
            ("zremrangebyscore", &["z 0 1"], vec!["Z 0 1".into()]),
            ("zrevrange", &["Z 0 9"], vec!["Z 0 -1".into()]),
            ("zrevrangebylex", &["Z + - LIMIT 0 9"], vec!["Z + -".into()]),
            ("zrevrangebyscore", &["Z 9 0 LIMIT 0 9"], vec!["Z 9 0".into()]),
            ("zscan", &["z 0"], vec!["Z 0 COUNT 1000".into(), matching("z 0")]),
            ("zunion", &["2 z z"], vec!["2 z Z".into(), "1 zb".into()]),
            ("zunionstore", &["d 2 z z"], vec!["d 1 Z".into()]),
            ("randomkey", &[""], vec![]),
            ("psubscribe", &["a* b*"], vec![many("", " a")]),
            ("publish", &["few hello", "k v"], vec!["crowd hello".into()]),
            (
                "pubsub",
                &["numpat", "numsub crowd", "shardnumsub"],
                vec!["channels".into(), "shardchannels *".into(), String::new()],
            ),
            ("punsubscribe", &["a*"], vec![many("", " a")]),
            ("spublish", &["few hello"], vec!["crowd hello".into()]),
            ("ssubscribe", &["a b"], vec![many("", " a")]),
            ("subscribe", &["a b"], vec![many("", " a")]),
            ("sunsubscribe", &["a"], vec![many("", " a")]),
            ("unsubscribe", &["a"], vec![many("", " a")]),
        ];
        let is_decided =
            |name: &&str| !matches!(Work::of(CommandId::of(name.as_bytes())), Work::Constant | Work::Administration);
        for spec in CommandTable::get().specs() {
            let is_listed = cases.iter().any(|(name, ..)| *name == spec.name);
            assert_eq!(is_listed, is_decided(&spec.name), "{}", spec.name);
        }
        for (name, short, long) in &cases {
            for arguments in *short {
                let found = type_of(&session, &format!("{name} {arguments}"));
                assert!(found != "scan" && found != "UNKNOWN", "{name} {arguments}: {found}");
            }
            for arguments in long {
                let line = format!("{name} {arguments}");
                assert!(line.len() < SMALL_BYTES_MAX);
                assert_eq!(type_of(&session, &line), "scan", "{line:.60}");
            }
        }
    }

    #[test]
    fn a_small_keyspace_makes_patterns_no_shorter() {
        let mut session = Session::new();
        session.expect(&[("MSET a 1 b 2", "+OK")]);
        let slow = format!("*?{}b*", "a".repeat(10_000));
        for (line, expected) in [
            ("KEYS *", "range"),
            ("KEYS *a*", "range"),
            ("SCAN 0 MATCH a?* COUNT 100", "range"),
            ("RANDOMKEY", "range"),
            (&*format!("KEYS {slow}"), "scan"),
            (&*format!("SCAN 0 MATCH {slow}"), "scan"),
        ] {
            assert_eq!(type_of(&session, line), expected, "{line:.20}");
        }
        // A long key makes all of them long, until all keys are removed.
        session.run(&format!("SET {} v", "a".repeat(200_000)));
        for line in ["KEYS *", "SCAN 0", "RANDOMKEY"] {
            assert_eq!(type_of(&session, line), "scan", "{line}");
        }
        session.expect(&[("FLUSHALL", "+OK"), ("SET a 1", "+OK")]);
        assert_eq!(type_of(&session, "KEYS *"), "range");
    }

    #[test]
    fn patterns_that_have_to_be_matched_make_messages_long() {
        let session = Session::new();
        let mut subscriber = session.beside();
        subscriber.run("PSUBSCRIBE a* b*");
        assert_eq!(type_of(&session, "PUBLISH a x"), "write");
        for index in 0..100 {
            subscriber.run(&format!("PSUBSCRIBE {index}*"));
        }
        assert_eq!(type_of(&session, "PUBLISH a x"), "scan");
        assert_eq!(type_of(&session, "SPUBLISH a x"), "write");
        subscriber.run("RESET");
        assert_eq!(type_of(&session, "PUBLISH a x"), "write");
        subscriber.run(&format!("PSUBSCRIBE *?{}b*", "a".repeat(5000)));
        let channel = "a".repeat(10_000);
        assert_eq!(type_of(&session, &format!("PUBLISH {channel} x")), "scan");
    }

    #[test]
    fn long_requests_are_long_whatever_their_command_is() {
        let session = Session::new();
        let megabyte = "x".repeat(1 << 20);
        for line in ["PING", "GET", "SET k", "ECHO", "AUTH", "INCR", "NOPE"] {
            let line = format!("{line} {megabyte}");
            assert_eq!(type_of(&session, &line), "scan", "{line:.20}");
        }
        let many = format!("HELLO 3{}", " SETNAME a".repeat(100));
        assert_eq!(type_of(&session, &many), "scan");
    }

    #[test]
    fn quotes_of_inline_commands_hide_nothing() {
        let session = filled();
        for line in [
            "HGETALL \"\\x48\"",
            "HGETALL 'H'",
            "SRANDMEMBER s \"-900000\"",
            "SCAN 0 \"COUNT\" 100000",
            "APPEND 'string' v",
        ] {
            let frame = format!("{line}\r\n");
            assert_eq!(type_of_frame(&session, frame.as_bytes()), "scan", "{line}");
        }
        let plain = type_of_frame(&session, b"HGETALL h\r\n");
        assert_eq!(plain, "range");
    }

    #[test]
    fn functions_are_of_the_type_of_their_runs() {
        let session = filled();
        let profile = &session.server.scripts.profile;
        let tag = profile.tag_of_function(b"f").expect("a short name");
        assert_eq!(type_of(&session, "FCALL f 0"), "scan");
        for (busy_us, expected) in [(2, "write"), (100, "range"), (1000, "scan")] {
            for _ in 0..100 {
                profile.record(tag, Duration::from_micros(busy_us));
            }
            for line in ["FCALL f 0", "fcall_ro F 1 k x"] {
                assert_eq!(type_of(&session, line), expected, "{line}");
            }
            assert_eq!(type_of(&session, "FCALL g 0"), "scan");
            assert_eq!(type_of_frame(&session, b"FCALL 'f' 0\r\n"), "scan");
        }
    }

    #[test]
    fn a_change_that_many_hear_of_is_long() {
        let mut session = filled();
        let mut trackers: Vec<Session> = (0..SMALL_ELEMENTS_MAX).map(|_| session.beside().resp3()).collect();
        for tracker in &mut trackers {
            tracker.expect(&[("CLIENT TRACKING ON", "+OK")]);
            tracker.run("GET k");
        }
        assert_eq!(type_of(&session, "SET k 1"), "write");
        session.expect(&[("CLIENT TRACKING ON BCAST PREFIX k", "+OK")]);
        assert_eq!(type_of(&session, "SET k 1"), "scan");
        assert_eq!(type_of(&session, "MSET a 1 b 2 k 3"), "scan");
        assert_eq!(type_of(&session, "SET other 1"), "write");
        assert_eq!(type_of(&session, "GET k"), "read");
        drop(trackers);
        assert_eq!(type_of(&session, "SET k 1"), "write");
    }

    #[test]
    fn types_are_those_of_the_sizes() {
        let session = filled();
        for (line, expected) in [
            ("GET a", "read"),
            ("SET a b", "write"),
            ("APPEND none v", "write"),
            ("LRANGE l 0 -1", "range"),
            ("HGETALL h", "range"),
            ("SORT l ALPHA", "range"),
            ("CLIENT LIST", "health"),
            ("CONFIG SET policy darc", "health"),
            ("INFO", "health"),
        ] {
            assert_eq!(type_of(&session, line), expected, "{line}");
        }
    }
}
