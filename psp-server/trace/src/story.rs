//! Tells turns, requests and queues from events.

use std::collections::HashMap;
use std::io::{self, Write};

use crate::event::{Event, Kind};
use crate::json::{Events, Micros, PROCESS, REQUESTS, quoted, thread_of};

/// A trace, but for its events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    /// The program that served, or simulated.
    pub server: String,
    /// Settings and whatever else the reader should know, as names and texts.
    pub about: Vec<(String, String)>,
    /// Names of the types, by their slots.
    pub types: Vec<String>,
    /// All workers, present or absent.
    pub workers: usize,
    /// When the trace begins, by the clock of the events.
    pub from_ns: u64,
    /// When it ends.
    pub until_ns: u64,
    /// Events that were lost because there was no room for them. They are later than `until_ns`.
    pub dropped: u64,
}

/// What a request does between its arrival and its reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// In a queue. It is counted there if its arrival or its last turn is in the trace.
    Waits {
        is_counted: bool,
    },
    Runs,
    Blocked,
}

/// A request without its reply.
#[derive(Debug, Clone, Copy)]
struct Open {
    number: u64,
    slot: u16,
    turns: u32,
    state: State,
    /// It was woken before its turn was over.
    is_woken: bool,
}

impl Open {
    /// The type of a turn of the request: those of a run may differ.
    const fn slot_of(&self, event: &Event) -> u16 {
        match event.slot {
            Event::NO_SLOT => self.slot,
            slot => slot,
        }
    }
}

/// A turn that runs.
#[derive(Debug, Clone, Copy)]
struct Running {
    began_ns: u64,
    number: u64,
    slot: u16,
    turn: u32,
    count: u16,
    /// It began before the trace.
    is_cut: bool,
}

impl Trace {
    /// Writes the file. Events may come in any order; those of the same time happened in the order in which they come.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(&self, mut events: Vec<Event>, out: impl Write) -> io::Result<()> {
        events.retain(|event| (self.from_ns..=self.until_ns).contains(&event.at_ns));
        events.sort_by_key(|event| event.at_ns);
        let mut story = Story {
            trace: self,
            out: Events::begin(out)?,
            open: HashMap::new(),
            workers: vec![None; self.workers],
            waiting: vec![0; self.types.len()],
            requests: 0,
        };
        story.name_tracks()?;
        for event in &events {
            story.tell(event)?;
        }
        story.end(events.len())
    }

    fn name(&self, slot: u16) -> String {
        let name = self.types.get(usize::from(slot));
        quoted(name.map_or("unknown", String::as_str))
    }
}

struct Story<'a, W> {
    trace: &'a Trace,
    out: Events<W>,
    /// By the scheduler's names.
    open: HashMap<u32, Open>,
    workers: Vec<Option<Running>>,
    /// Per slot.
    waiting: Vec<u64>,
    /// Numbers given to requests.
    requests: u64,
}

impl<W: Write> Story<'_, W> {
    fn name_tracks(&mut self) -> io::Result<()> {
        let server = quoted(&self.trace.server);
        self.out
            .event('M', REQUESTS, format_args!("\"name\":\"process_name\",\"args\":{{\"name\":{server}}}"))?;
        self.name_track(REQUESTS, "requests")?;
        for worker in 0..self.trace.workers {
            self.name_track(thread_of(worker), &format!("worker {worker}"))?;
        }
        Ok(())
    }

    fn name_track(&mut self, thread: u32, name: &str) -> io::Result<()> {
        self.out
            .event('M', thread, format_args!("\"name\":\"thread_name\",\"args\":{{\"name\":\"{name}\"}}"))?;
        self.out.event(
            'M',
            thread,
            format_args!("\"name\":\"thread_sort_index\",\"args\":{{\"sort_index\":{thread}}}"),
        )
    }

    fn since(&self, at_ns: u64) -> Micros {
        Micros(at_ns.saturating_sub(self.trace.from_ns))
    }

    fn tell(&mut self, event: &Event) -> io::Result<()> {
        match event.kind {
            Kind::Arrived => self.arrived(event),
            Kind::Begun => self.begun(event),
            Kind::Completed | Kind::Yielded | Kind::Blocked => self.ended(event),
            Kind::Woken => self.woken(event),
            Kind::Asked => self.instant(event, "preempt", None),
            Kind::Stolen => self.instant(event, "stolen", Some(event.request)),
            Kind::HandedOver => self.instant(event, "handed over", Some(event.request)),
            Kind::Rejected | Kind::Dropped => self.refused(event),
        }
    }

    /// Begins a request.
    fn open(&mut self, event: &Event, state: State, is_cut: bool) -> io::Result<Open> {
        let open = Open {
            number: self.requests,
            slot: event.slot,
            turns: 0,
            state,
            is_woken: false,
        };
        self.requests += 1;
        let at_ns = if is_cut { self.trace.from_ns } else { event.at_ns };
        let (ts, name, number) = (self.since(at_ns), self.trace.name(event.slot), open.number);
        let (key, cut) = (event.request, if is_cut { ",\"arrived\":\"before\"" } else { "" });
        self.out.event(
            'b',
            REQUESTS,
            format_args!(
                "\"ts\":{ts},\"cat\":\"request\",\"id\":\"{number:#x}\",\"name\":{name},\"args\":{{\"key\":{key}{cut}}}"
            ),
        )?;
        Ok(open)
    }

    /// The request of an event. One that is not known arrived before the trace.
    fn known(&mut self, event: &Event, state: State) -> io::Result<Open> {
        match self.open.get(&event.request) {
            Some(&open) => Ok(open),
            None => self.open(event, state, true),
        }
    }

    /// Ends a request.
    fn close(&mut self, at_ns: u64, mut open: Open, end: &str, replies: u16) -> io::Result<()> {
        self.leave(at_ns, &mut open)?;
        let (ts, name, number) = (self.since(at_ns), self.trace.name(open.slot), open.number);
        self.out.event(
            'e',
            REQUESTS,
            format_args!(
                "\"ts\":{ts},\"cat\":\"request\",\"id\":\"{number:#x}\",\"name\":{name},\
                 \"args\":{{\"end\":\"{end}\",\"replies\":{replies}}}"
            ),
        )
    }

    /// A wait without a worker begins or ends.
    fn wait(&mut self, phase: char, at_ns: u64, number: u64) -> io::Result<()> {
        let ts = self.since(at_ns);
        self.out.event(
            phase,
            REQUESTS,
            format_args!("\"ts\":{ts},\"cat\":\"request\",\"id\":\"{number:#x}\",\"name\":\"waits\",\"args\":{{}}"),
        )
    }

    /// One request more, or less, waits for a worker.
    fn count(&mut self, at_ns: u64, slot: u16, is_more: bool) -> io::Result<()> {
        let (ts, name) = (self.since(at_ns), self.trace.types.get(usize::from(slot)));
        let Some((name, waiting)) = name.zip(self.waiting.get_mut(usize::from(slot))) else {
            return Ok(());
        };
        *waiting = match is_more {
            true => *waiting + 1,
            false => waiting.saturating_sub(1),
        };
        let (name, waiting) = (quoted(&format!("waiting {name}")), *waiting);
        self.out.event(
            'C',
            REQUESTS,
            format_args!("\"ts\":{ts},\"name\":{name},\"args\":{{\"requests\":{waiting}}}"),
        )
    }

    fn waits_again(&mut self, at_ns: u64, open: &mut Open) -> io::Result<()> {
        open.state = State::Waits { is_counted: true };
        self.count(at_ns, open.slot, true)
    }

    /// The request waits no longer, for a worker or for something else.
    fn leave(&mut self, at_ns: u64, open: &mut Open) -> io::Result<()> {
        match std::mem::replace(&mut open.state, State::Runs) {
            State::Waits { is_counted: true } => self.count(at_ns, open.slot, false),
            State::Blocked => self.wait('e', at_ns, open.number),
            State::Waits { is_counted: false } | State::Runs => Ok(()),
        }
    }

    fn arrived(&mut self, event: &Event) -> io::Result<()> {
        if let Some(before) = self.open.remove(&event.request) {
            self.close(event.at_ns, before, "unknown", 0)?;
        }
        let mut open = self.open(event, State::Runs, false)?;
        self.waits_again(event.at_ns, &mut open)?;
        self.open.insert(event.request, open);
        Ok(())
    }

    fn begun(&mut self, event: &Event) -> io::Result<()> {
        let worker = usize::from(event.worker);
        if let Some(before) = self.workers.get_mut(worker).and_then(Option::take) {
            self.turn(worker, before, event.at_ns, "unknown", 0)?;
        }
        let mut open = self.known(event, State::Waits { is_counted: false })?;
        self.leave(event.at_ns, &mut open)?;
        open.turns += 1;
        self.open.insert(event.request, open);
        let slot = open.slot_of(event);
        if let Some(place) = self.workers.get_mut(worker) {
            *place = Some(Running {
                began_ns: event.at_ns,
                number: open.number,
                slot,
                turn: open.turns,
                count: event.count,
                is_cut: false,
            });
        }
        Ok(())
    }

    fn ended(&mut self, event: &Event) -> io::Result<()> {
        let worker = usize::from(event.worker);
        let mut open = self.known(event, State::Runs)?;
        self.leave(event.at_ns, &mut open)?;
        let running = self.workers.get_mut(worker).and_then(Option::take);
        let running = running.unwrap_or(Running {
            began_ns: self.trace.from_ns,
            number: open.number,
            slot: open.slot_of(event),
            turn: open.turns + 1,
            count: 0,
            is_cut: true,
        });
        open.turns = running.turn;
        let (end, replies) = match event.kind {
            Kind::Yielded => ("gave way", 0),
            Kind::Blocked => ("waits", 0),
            _ => ("replied", event.count),
        };
        self.turn(worker, running, event.at_ns, end, replies)?;
        match event.kind {
            Kind::Yielded => self.waits_again(event.at_ns, &mut open)?,
            Kind::Blocked => {
                self.wait('b', event.at_ns, open.number)?;
                open.state = State::Blocked;
                if std::mem::take(&mut open.is_woken) {
                    self.wait('e', event.at_ns, open.number)?;
                    self.waits_again(event.at_ns, &mut open)?;
                }
            }
            _ => {
                self.open.remove(&event.request);
                return self.close(event.at_ns, open, end, replies);
            }
        }
        self.open.insert(event.request, open);
        Ok(())
    }

    fn turn(&mut self, worker: usize, running: Running, until_ns: u64, end: &str, replies: u16) -> io::Result<()> {
        let (ts, name) = (self.since(running.began_ns), self.trace.name(running.slot));
        let dur = Micros(until_ns.saturating_sub(running.began_ns));
        let Running { number, turn, count, is_cut, .. } = running;
        let cut = if is_cut { ",\"began\":\"before\"" } else { "" };
        self.out.event(
            'X',
            thread_of(worker),
            format_args!(
                "\"ts\":{ts},\"dur\":{dur},\"cat\":\"turn\",\"name\":{name},\"args\":{{\"request\":{number},\
                 \"turn\":{turn},\"requests\":{count},\"replies\":{replies},\"end\":\"{end}\"{cut}}}"
            ),
        )
    }

    fn woken(&mut self, event: &Event) -> io::Result<()> {
        let mut open = match self.open.get(&event.request) {
            Some(&open) => open,
            None => {
                let open = self.open(event, State::Blocked, true)?;
                self.wait('b', self.trace.from_ns, open.number)?;
                open
            }
        };
        match open.state {
            State::Blocked => {
                self.wait('e', event.at_ns, open.number)?;
                self.waits_again(event.at_ns, &mut open)?;
            }
            State::Runs => open.is_woken = true,
            State::Waits { .. } => {}
        }
        self.open.insert(event.request, open);
        Ok(())
    }

    fn refused(&mut self, event: &Event) -> io::Result<()> {
        let open = self.known(event, State::Waits { is_counted: false })?;
        self.open.remove(&event.request);
        let end = match event.kind {
            Kind::Rejected => "rejected",
            _ => "dropped",
        };
        self.close(event.at_ns, open, end, 0)
    }

    fn instant(&mut self, event: &Event, name: &str, request: Option<u32>) -> io::Result<()> {
        let (ts, thread) = (self.since(event.at_ns), thread_of(event.worker.into()));
        let open = request.and_then(|request| self.open.get(&request));
        let args = open.map_or_else(String::new, |open| format!("\"request\":{}", open.number));
        self.out.event(
            'i',
            thread,
            format_args!("\"ts\":{ts},\"s\":\"t\",\"cat\":\"scheduler\",\"name\":\"{name}\",\"args\":{{{args}}}"),
        )
    }

    /// Ends what is not over, and the file.
    fn end(mut self, events: usize) -> io::Result<()> {
        let trace = self.trace;
        for worker in 0..self.workers.len() {
            if let Some(running) = self.workers[worker].take() {
                self.turn(worker, running, trace.until_ns, "unfinished", 0)?;
            }
        }
        let mut left: Vec<Open> = self.open.drain().map(|(_, open)| open).collect();
        left.sort_unstable_by_key(|open| open.number);
        for mut open in left {
            if let State::Waits { is_counted } = &mut open.state {
                // It waits on.
                *is_counted = false;
            }
            self.close(trace.until_ns, open, "unfinished", 0)?;
        }
        let length = Micros(trace.until_ns.saturating_sub(trace.from_ns));
        let mut about = vec![
            ("server", quoted(&trace.server)),
            ("length_us", length.to_string()),
            ("events", events.to_string()),
            ("dropped", trace.dropped.to_string()),
            ("process", PROCESS.to_string()),
        ];
        let given = trace.about.iter();
        about.extend(given.map(|(name, value)| (name.as_str(), quoted(value))));
        self.out.end(&about)
    }
}
