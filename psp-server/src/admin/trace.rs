//! `/trace`: what happens to requests in a time, as a file.

use std::num::NonZeroU64;
use std::time::Duration;

use hyper::body::Bytes;
use hyper::http::request::Parts;
use hyper::{Method, StatusCode};
use psp_trace::Trace;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::answer::Answer;
use super::routes::Routes;
use crate::shared::ServerHandle;
use crate::trace::{Recorded, Recording};

pub(super) const PATH: &str = "/trace";
const MS_DEFAULT: u64 = 200;
const MS_MAX: u64 = 10_000;

/// A trace, which may be long. There is no second one until this one has been read.
struct File {
    json: Vec<u8>,
    _place: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for File {
    fn as_ref(&self) -> &[u8] {
        &self.json
    }
}

/// Whether `routes` leaves the request to [`answer`].
pub(super) fn is_asked(head: &Parts) -> bool {
    head.method == Method::GET && head.uri.path() == PATH
}

/// Answers with a trace of the time that the request asks for, from now on.
pub(super) async fn answer(routes: &Routes, head: &Parts) -> Answer {
    if let Err(refused) = routes.admit(head) {
        return refused;
    }
    let Some(ms) = asked_ms(head.uri.query().unwrap_or("")) else {
        let text = format!("ask for ms=N, from 1 to {MS_MAX}, such as {PATH}?ms={MS_DEFAULT}");
        return Answer::text(StatusCode::BAD_REQUEST, text);
    };
    let Ok(place) = routes.traces.clone().try_acquire_owned() else {
        let text = "another trace is being made, or read";
        return Answer::text(StatusCode::CONFLICT, text);
    };
    let recording = match Recording::begin(routes.server.clone()) {
        Ok(recording) => recording,
        Err(refused) => return Answer::text(StatusCode::CONFLICT, refused.to_string()),
    };
    // A client that leaves drops the recording, and so ends it.
    sleep(Duration::from_millis(ms.get())).await;
    let (server, name) = (routes.server.clone(), routes.name.clone());
    let file_name = format!("{name}-trace.json");
    // Other requests are answered meanwhile.
    let written = spawn_blocking(move || file(&server, name, recording.end())).await;
    match written {
        Ok(json) => {
            let _place = place;
            Answer::file(file_name, Bytes::from_owner(File { json, _place }))
        }
        Err(error) => Answer::text(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}

/// The milliseconds of the query. `None` if it asks for something else.
fn asked_ms(query: &str) -> Option<NonZeroU64> {
    let mut ms = MS_DEFAULT;
    for part in query.split('&').filter(|part| !part.is_empty()) {
        let (name, value) = part.split_once('=')?;
        ms = (name == "ms").then(|| value.parse().ok()).flatten()?;
    }
    NonZeroU64::new(ms).filter(|ms| ms.get() <= MS_MAX)
}

fn file(server: &ServerHandle, name: String, recorded: Recorded) -> Vec<u8> {
    let Recorded { events, from_ns, until_ns, dropped } = recorded;
    let about = [("policy", server.policy().spelled()), ("topology", server.topology().to_string())];
    let trace = Trace {
        server: name,
        about: about.map(|(name, value)| (name.to_owned(), value)).to_vec(),
        types: server.type_names(),
        workers: server.executors(),
        from_ns,
        until_ns,
        dropped,
    };
    let mut out = Vec::new();
    trace.write(events, &mut out).expect("memory takes what is written");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_asks_for_milliseconds_within_bounds() {
        for (query, expected) in [
            ("", Some(200)),
            ("ms=1", Some(1)),
            ("ms=10000", Some(10_000)),
            ("&ms=7&", Some(7)),
            ("ms=0", None),
            ("ms=10001", None),
            ("ms=-1", None),
            ("ms=", None),
            ("ms", None),
            ("s=1", None),
        ] {
            assert_eq!(asked_ms(query).map(NonZeroU64::get), expected, "{query}");
        }
    }
}
