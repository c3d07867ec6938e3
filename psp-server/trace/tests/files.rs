//! Files of traces: what is in them, and what the check refuses.

use proptest::prelude::*;
use psp_trace::{Checked, Disorder, Event, Kind, Trace, check};
use serde_json::Value;

fn trace(from_ns: u64, until_ns: u64) -> Trace {
    Trace {
        server: "a \"server\"".to_owned(),
        about: vec![("policy".to_owned(), "darc".to_owned())],
        types: vec!["short".to_owned(), "lo\\ng".to_owned()],
        workers: 2,
        from_ns,
        until_ns,
        dropped: 0,
    }
}

fn event(at_ns: u64, kind: Kind, request: u32, worker: u16) -> Event {
    Event {
        at_ns,
        kind,
        request,
        slot: (request % 2) as u16,
        worker,
        count: 1,
    }
}

fn written(trace: &Trace, events: Vec<Event>) -> String {
    let mut out = Vec::new();
    trace.write(events, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn checked(trace: &Trace, events: Vec<Event>) -> Checked {
    let text = written(trace, events);
    check(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// The events of a file that have this phase.
fn entries(text: &str, phase: &str) -> Vec<Value> {
    let file: Value = serde_json::from_str(text).unwrap();
    let entries = file["traceEvents"].as_array().unwrap();
    let of_phase = entries.iter().filter(|entry| entry["ph"] == phase);
    of_phase.cloned().collect()
}

#[test]
fn a_request_is_a_span_and_its_turns_are_on_tracks() {
    let events = vec![
        event(1_000, Kind::Arrived, 1, 0),
        event(1_500, Kind::Begun, 1, 0),
        event(3_000, Kind::Asked, 0, 0),
        event(3_250, Kind::Yielded, 1, 0),
        event(4_000, Kind::Begun, 1, 1),
        event(4_500, Kind::Blocked, 1, 1),
        event(6_000, Kind::Woken, 1, 0),
        event(6_001, Kind::Stolen, 1, 0),
        event(6_002, Kind::Begun, 1, 0),
        event(7_000, Kind::Completed, 1, 0),
    ];
    let text = written(&trace(1_000, 10_000), events);
    let expected = Checked {
        workers: 2,
        turns: 3,
        requests: 1,
        replied: 1,
        gave_way: 1,
        preemptions: 1,
        stolen: 1,
        waits: 1,
        ..Checked::default()
    };
    assert_eq!(check(&text).unwrap(), expected);
    let turns = entries(&text, "X");
    let times = turns.iter().map(|turn| (&turn["ts"], &turn["dur"]));
    let times: Vec<_> = times.map(|(ts, dur)| (ts.as_f64().unwrap(), dur.as_f64().unwrap())).collect();
    assert_eq!(times, [(0.5, 1.75), (3.0, 0.5), (5.002, 0.998)]);
    assert_eq!(turns[1]["tid"], 2);
    assert_eq!(turns[1]["name"], "lo\\ng");
    assert_eq!(turns[1]["args"]["end"], "waits");
    let waiting: Vec<u64> = entries(&text, "C")
        .iter()
        .map(|counter| counter["args"]["requests"].as_u64().unwrap())
        .collect();
    assert_eq!(waiting, [1, 0, 1, 0, 1, 0]);
    let file: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(file["otherData"]["server"], "a \"server\"");
    assert_eq!(file["otherData"]["policy"], "darc");
    assert_eq!(file["otherData"]["length_us"], 9.0);
}

#[test]
fn what_the_trace_cuts_says_so() {
    let events = vec![
        event(150, Kind::Completed, 2, 0), // began before
        event(160, Kind::Woken, 3, 0),     // blocked before
        event(170, Kind::Begun, 3, 1),     // and does not end
        event(180, Kind::Arrived, 4, 0),   // nor does this begin
        event(190, Kind::Begun, 5, 0),     // arrived before
        event(195, Kind::Completed, 5, 0),
        event(250, Kind::Completed, 3, 1), // after the trace
        event(50, Kind::Arrived, 6, 0),    // before it
    ];
    let trace = trace(100, 200);
    let expected = Checked {
        workers: 2,
        turns: 3,
        requests: 4,
        replied: 2,
        unfinished: 2,
        waits: 1,
        ..Checked::default()
    };
    assert_eq!(checked(&trace, events.clone()), expected);
    let text = written(&trace, events);
    let turns = entries(&text, "X");
    assert_eq!(turns[0]["args"]["began"], "before");
    assert_eq!(turns[0]["ts"], 0.0);
    assert_eq!(turns[2]["args"]["end"], "unfinished");
    assert!(text.contains("\"arrived\":\"before\""));
}

#[test]
fn requests_that_are_refused_or_woken_early_end_and_wait() {
    let events = vec![
        event(1, Kind::Arrived, 1, 0),
        event(2, Kind::Rejected, 1, 0),
        event(3, Kind::Arrived, 1, 0),
        event(4, Kind::Dropped, 1, 0),
        event(5, Kind::Arrived, 2, 0),
        event(6, Kind::Begun, 2, 0),
        event(7, Kind::Woken, 2, 0),
        event(8, Kind::Blocked, 2, 0),
        event(9, Kind::Begun, 2, 0),
        event(9, Kind::Completed, 2, 0),
        event(9, Kind::Rejected, 9, 0),
    ];
    let expected = Checked {
        workers: 2,
        turns: 2,
        requests: 4,
        replied: 1,
        refused: 3,
        waits: 1,
        ..Checked::default()
    };
    assert_eq!(checked(&trace(0, 10), events), expected);
}

#[test]
fn a_file_that_is_not_in_order_is_refused() {
    let events = vec![
        event(1, Kind::Arrived, 1, 0),
        event(2, Kind::Begun, 1, 0),
        event(3, Kind::Completed, 1, 0),
        event(4, Kind::Arrived, 2, 0),
        event(5, Kind::Begun, 2, 0),
        event(6, Kind::Completed, 2, 0),
    ];
    let text = written(&trace(0, 10), events);
    assert!(check(&text).is_ok());
    for (from, to, expected) in [
        ("\"ts\":0.002,\"dur\":0.001", "\"ts\":0.002,\"dur\":0.004", "overlap"),
        ("\"ts\":0.002,\"dur\":0.001", "\"ts\":0.000,\"dur\":0.001", "not within"),
        ("\"dur\":0.001", "\"dur\":-1", "no length"),
        (
            "\"ph\":\"e\",\"pid\":1,\"tid\":0,\"ts\":0.003",
            "\"ph\":\"e\",\"pid\":1,\"tid\":0,\"ts\":0.000",
            "ends as",
        ),
        ("\"id\":\"0x1\"", "\"id\":\"0x0\"", "begins again"),
        ("\"args\":{\"request\":1", "\"args\":{\"request\":7", "no turn"),
        ("\"thread_name\",\"args\":{\"name\":\"worker 0\"}", "\"name\",\"args\":{}", "has no name"),
        ("\"displayTimeUnit\":\"ns\"", "\"displayTimeUnit\":\"ms\"", "unit"),
        ("\"dropped\":0", "\"lost\":0", "lost"),
        ("\"cat\":\"request\"", "\"cat\":\"other\"", "of no request"),
        ("\"ph\":\"X\"", "\"ph\":\"Q\"", "no trace"),
    ] {
        assert!(text.contains(from), "{from}");
        let error = check(&text.replacen(from, to, 1)).unwrap_err();
        assert!(error.to_string().contains(expected), "{expected}: {error}");
    }
    assert!(matches!(check("{"), Err(Disorder::Form(_))));
}

proptest! {
    /// Whatever happens, in whatever order, the file is well formed: each begin has an end.
    #[test]
    fn any_events_make_a_file_whose_begins_have_ends(
        steps in proptest::collection::vec((0_u64..200, 1_u64..12, 0_u32..6, 0_u16..3), 0..80),
    ) {
        let events = steps.iter().map(|&(at_ns, kind, request, worker)| {
            Event::from_words([at_ns, kind | u64::from(worker) << 8, request.into()]).unwrap()
        });
        let text = written(&trace(20, 180), events.collect());
        let (mut depth, begins) = (std::collections::HashMap::<String, i64>::new(), entries(&text, "b"));
        for entry in begins {
            *depth.entry(entry["id"].to_string()).or_default() += 1;
        }
        for entry in entries(&text, "e") {
            *depth.entry(entry["id"].to_string()).or_default() -= 1;
        }
        prop_assert!(depth.values().all(|&depth| depth == 0), "{}", text);
        prop_assert!(entries(&text, "X").iter().all(|turn| turn["dur"].as_f64().unwrap() >= 0.0));
    }

    /// Requests that one worker after the other serves, in turns, are in order.
    #[test]
    fn any_schedule_is_in_order(
        steps in proptest::collection::vec((0_u32..8, 0_u16..2, 0_u8..4), 0..200), cut in 0_u64..100,
    ) {
        #[derive(Clone, Copy, PartialEq)]
        enum At { Nowhere, Waits, Runs(u16), Blocked }
        let mut at = [At::Nowhere; 8];
        let mut events = Vec::new();
        for (now, &(request, worker, choice)) in steps.iter().enumerate() {
            let place = &mut at[request as usize];
            let (kind, worker, next) = match (*place, choice) {
                (At::Nowhere, _) => (Kind::Arrived, 0, At::Waits),
                (At::Waits, 0) => (Kind::Rejected, 0, At::Nowhere),
                (At::Waits, _) => (Kind::Begun, worker, At::Runs(worker)),
                (At::Runs(worker), 0) => (Kind::Yielded, worker, At::Waits),
                (At::Runs(worker), 1) => (Kind::Blocked, worker, At::Blocked),
                (At::Runs(worker), _) => (Kind::Completed, worker, At::Nowhere),
                (At::Blocked, _) => (Kind::Woken, 0, At::Waits),
            };
            if kind == Kind::Begun && at.contains(&At::Runs(worker)) {
                continue;
            }
            at[request as usize] = next;
            events.push(event(now as u64, kind, request, worker));
        }
        let until_ns = steps.len() as u64;
        let text = written(&trace(cut.min(until_ns), until_ns), events);
        prop_assert!(check(&text).is_ok(), "{:?}\n{}", check(&text), text);
    }
}
