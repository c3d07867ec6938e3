//! Checks a file: its form, and the order of what it tells.

use std::collections::HashMap;
use std::fmt;

use serde::Deserialize;
use serde_json::{Map, Value};

/// What a file in order has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Checked {
    /// Tracks of workers.
    pub workers: usize,
    /// Turns on them.
    pub turns: usize,
    /// Requests.
    pub requests: usize,
    /// Those whose reply is in the trace.
    pub replied: usize,
    /// Those that were refused, or not run.
    pub refused: usize,
    /// Those that have not ended with the trace.
    pub unfinished: usize,
    /// Turns that ended because the request yielded.
    pub gave_way: usize,
    /// Preemptions that were asked for.
    pub preemptions: usize,
    /// Requests that a worker took from another one's queue.
    pub stolen: usize,
    /// Waits of requests without a worker.
    pub waits: usize,
    /// Events that the trace had no room for.
    pub dropped: u64,
}

impl fmt::Display for Checked {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{} workers, {} requests ({} replied, {} refused, {} unfinished), {} turns ({} gave way), {} preemptions, \
             {} steals, {} waits, {} events lost",
            self.workers,
            self.requests,
            self.replied,
            self.refused,
            self.unfinished,
            self.turns,
            self.gave_way,
            self.preemptions,
            self.stolen,
            self.waits,
            self.dropped
        )
    }
}

/// Why a file is not in order.
#[derive(Debug, thiserror::Error)]
pub enum Disorder {
    /// It is no trace.
    #[error("it is no trace: {0}")]
    Form(#[from] serde_json::Error),
    /// What it tells cannot be.
    #[error("{0}")]
    Order(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct File {
    trace_events: Vec<Entry>,
    display_time_unit: String,
    other_data: Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    ph: Phase,
    pid: u32,
    tid: u32,
    name: String,
    ts: Option<f64>,
    dur: Option<f64>,
    cat: Option<String>,
    id: Option<String>,
    /// Of an instant event: how wide it is drawn.
    s: Option<String>,
    args: Map<String, Value>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
enum Phase {
    #[serde(rename = "M")]
    Metadata,
    #[serde(rename = "X")]
    Complete,
    #[serde(rename = "b")]
    Begin,
    #[serde(rename = "e")]
    End,
    #[serde(rename = "i")]
    Instant,
    #[serde(rename = "C")]
    Counter,
}

impl Entry {
    fn at_ns(&self) -> Result<i64, Disorder> {
        let ts = self.ts.filter(|&ts| ts >= 0.0);
        ts.map(nanos).ok_or_else(|| order(format!("an event `{}` has no time", self.name)))
    }

    fn number(&self, arg: &str) -> Result<u64, Disorder> {
        let value = self.args.get(arg).and_then(Value::as_u64);
        value.ok_or_else(|| order(format!("`{}` has no number `{arg}`", self.name)))
    }

    fn text(&self, arg: &str) -> &str {
        self.args.get(arg).and_then(Value::as_str).unwrap_or("")
    }
}

/// A request, or a wait within it, that has not ended yet.
struct Begun<'a> {
    name: &'a str,
    from_ns: i64,
    /// The scheduler's name for the request; `None` for a wait.
    key: Option<u64>,
}

fn nanos(micros: f64) -> i64 {
    (micros * 1000.0).round() as i64
}

fn order(what: String) -> Disorder {
    Disorder::Order(what)
}

fn ensure(is_so: bool, what: impl FnOnce() -> String) -> Result<(), Disorder> {
    if is_so { Ok(()) } else { Err(order(what())) }
}

/// A turn, or a request.
#[derive(Debug, Clone, Copy)]
struct Span {
    from_ns: i64,
    until_ns: i64,
    /// Number of the request.
    request: u64,
    /// Number of the turn, or the scheduler's name for the request.
    number: u64,
    /// Whether the reply came at its end.
    is_last: bool,
}

/// Checks the text of a file: each event has what its kind needs, tracks have names, each begin has an end, turns of
/// one worker and turns of one request follow each other, a request arrives before its turns and ends with the last
/// one, and requests of one name follow each other.
///
/// # Errors
/// The first thing that is not in order.
pub fn check(text: &str) -> Result<Checked, Disorder> {
    let file: File = serde_json::from_str(text)?;
    ensure(file.display_time_unit == "ns", || format!("the unit is {}", file.display_time_unit))?;
    let dropped = file.other_data.get("dropped").and_then(Value::as_u64);
    let mut checked = Checked {
        dropped: dropped.ok_or_else(|| order("the file does not say what was lost".to_owned()))?,
        ..Checked::default()
    };
    let tracks = tracks(&file.trace_events, &mut checked)?;
    for entry in &file.trace_events {
        ensure(tracks.contains_key(&entry.tid), || {
            format!("thread {} of `{}` has no name", entry.tid, entry.name)
        })?;
    }
    let requests = requests(&file.trace_events, &mut checked)?;
    let turns = turns(&file.trace_events, &mut checked)?;
    let mut by_request: HashMap<u64, Vec<Span>> = HashMap::new();
    for (&thread, turns) in &turns {
        follow_each_other(turns, || tracks[&thread].clone())?;
        for turn in turns {
            by_request.entry(turn.request).or_default().push(*turn);
        }
    }
    let mut by_name: HashMap<u64, Vec<Span>> = HashMap::new();
    for (id, request) in &requests {
        by_name.entry(request.number).or_default().push(*request);
        let turns = by_request.remove(id).unwrap_or_default();
        within(request, turns)?;
    }
    ensure(by_request.is_empty(), || "a turn is of no request".to_owned())?;
    for (name, mut requests) in by_name {
        requests.sort_by_key(|request| request.request);
        follow_each_other(&requests, || format!("the requests of name {name}"))?;
    }
    Ok(checked)
}

/// The names of threads.
fn tracks(entries: &[Entry], checked: &mut Checked) -> Result<HashMap<u32, String>, Disorder> {
    let mut tracks = HashMap::new();
    for entry in entries {
        ensure(entry.pid == 1, || format!("a process {}", entry.pid))?;
        if entry.ph == Phase::Metadata && entry.name == "thread_name" {
            let name = entry.text("name").to_owned();
            checked.workers += usize::from(name.starts_with("worker "));
            let other = tracks.insert(entry.tid, name);
            ensure(other.is_none(), || format!("thread {} has two names", entry.tid))?;
        }
    }
    Ok(tracks)
}

/// A counter, or an instant.
fn mark(entry: &Entry, checked: &mut Checked) -> Result<(), Disorder> {
    match entry.ph {
        Phase::Counter => {
            entry.number("requests")?;
        }
        Phase::Instant => {
            ensure(entry.s.as_deref() == Some("t"), || format!("the instant `{}` has no scope", entry.name))?;
            checked.preemptions += usize::from(entry.name == "preempt");
            checked.stolen += usize::from(entry.name == "stolen");
        }
        Phase::Begin | Phase::End | Phase::Complete | Phase::Metadata => {}
    }
    Ok(())
}

/// The number of the request that an entry is of.
fn request_id(entry: &Entry) -> Result<u64, Disorder> {
    let id = entry.id.as_deref().and_then(|id| id.strip_prefix("0x"));
    let id = id.and_then(|id| u64::from_str_radix(id, 16).ok());
    let id = id.filter(|_| entry.cat.as_deref() == Some("request"));
    id.ok_or_else(|| order(format!("`{}` is of no request", entry.name)))
}

/// All requests, by their numbers: each begin has its end, and waits lie within.
fn requests(entries: &[Entry], checked: &mut Checked) -> Result<HashMap<u64, Span>, Disorder> {
    let mut begun: HashMap<u64, Vec<Begun<'_>>> = HashMap::new();
    let mut requests = HashMap::new();
    for entry in entries {
        if entry.ph == Phase::Metadata {
            continue;
        }
        let at_ns = entry.at_ns()?;
        if !matches!(entry.ph, Phase::Begin | Phase::End) {
            mark(entry, checked)?;
            continue;
        }
        let id = request_id(entry)?;
        let open = begun.entry(id).or_default();
        if entry.ph == Phase::Begin {
            let key = open.is_empty().then(|| entry.number("key")).transpose()?;
            checked.waits += usize::from(!open.is_empty());
            ensure(!requests.contains_key(&id), || format!("request {id} begins again"))?;
            open.push(Begun { name: &entry.name, from_ns: at_ns, key });
            continue;
        }
        let Some(Begun { name, from_ns, key }) = open.pop() else {
            return Err(order(format!("request {id} ends and has not begun")));
        };
        ensure(name == entry.name && from_ns <= at_ns, || {
            format!("`{name}` of request {id} ends as `{}`", entry.name)
        })?;
        let Some(key) = key else {
            continue;
        };
        let end = entry.text("end");
        let counter = match end {
            "replied" => &mut checked.replied,
            "rejected" | "dropped" => &mut checked.refused,
            "unfinished" | "unknown" => &mut checked.unfinished,
            other => return Err(order(format!("request {id} ends as {other}"))),
        };
        *counter += 1;
        let span = Span {
            from_ns,
            until_ns: at_ns,
            request: id,
            number: key,
            is_last: end == "replied",
        };
        requests.insert(id, span);
    }
    let left = begun.iter().find(|(_, open)| !open.is_empty());
    ensure(left.is_none(), || format!("request {} does not end", left.map_or(0, |(id, _)| *id)))?;
    checked.requests = requests.len();
    Ok(requests)
}

/// The turns of each worker, in order of time.
fn turns(entries: &[Entry], checked: &mut Checked) -> Result<HashMap<u32, Vec<Span>>, Disorder> {
    let mut turns: HashMap<u32, Vec<Span>> = HashMap::new();
    for entry in entries.iter().filter(|entry| entry.ph == Phase::Complete) {
        let from_ns = entry.at_ns()?;
        let Some(dur) = entry.dur.filter(|&dur| dur >= 0.0) else {
            return Err(order(format!("a turn of `{}` has no length", entry.name)));
        };
        checked.turns += 1;
        checked.gave_way += usize::from(entry.text("end") == "gave way");
        turns.entry(entry.tid).or_default().push(Span {
            from_ns,
            until_ns: from_ns + nanos(dur),
            request: entry.number("request")?,
            number: entry.number("turn")?,
            is_last: entry.text("end") == "replied",
        });
    }
    for turns in turns.values_mut() {
        turns.sort_by_key(|turn| (turn.from_ns, turn.until_ns));
    }
    Ok(turns)
}

fn follow_each_other(spans: &[Span], whose: impl Fn() -> String) -> Result<(), Disorder> {
    for pair in spans.windows(2) {
        ensure(pair[0].until_ns <= pair[1].from_ns, || format!("two of {} overlap: {:?}", whose(), pair))?;
    }
    Ok(())
}

/// The turns of a request lie within it, follow each other, and only the last one replies.
fn within(request: &Span, mut turns: Vec<Span>) -> Result<(), Disorder> {
    turns.sort_by_key(|turn| turn.number);
    follow_each_other(&turns, || format!("the turns of request {}", request.request))?;
    for (index, turn) in turns.iter().enumerate() {
        let is_within = request.from_ns <= turn.from_ns && turn.until_ns <= request.until_ns;
        ensure(is_within, || format!("{turn:?} is not within its request, {request:?}"))?;
        let replies = request.is_last && index + 1 == turns.len();
        ensure(turn.is_last == replies, || {
            format!("{turn:?} of {request:?} is not its last one, or should be")
        })?;
    }
    ensure(!request.is_last || !turns.is_empty(), || format!("{request:?} has a reply and no turn"))
}
