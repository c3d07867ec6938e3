//! The method that asks other servers and waits for them.

use std::fmt::Write;
use std::time::Duration;

use psp_protocols::rpc::{Failure, Status};
use psp_rpc_service::Call;

use super::read;
use crate::messages::{Answer, Answers, Question};
use crate::service::Context;
use crate::upstreams::{self, Outcome};

/// The method's name.
pub const GATHER: &str = "Gather";
/// Most characters that a failure quotes of each upstream's failure.
const QUOTED_MAX: usize = 200;

/// Asks all upstreams the same and responds with their answers. Other requests have the worker meanwhile. It ends when
/// the deadline passes or the client leaves, and the upstreams' requests end with it.
///
/// # Errors
/// When the payload is not [`Question`], the server has too few upstreams, too few of them answer, or the deadline has
/// passed.
pub fn gather(context: &mut Context<'_>, call: &Call<'_>) -> Result<(), Failure> {
    let mut question = Question::default();
    read(&mut question, call.payload)?;
    let upstreams = context.upstreams;
    let answers_min = check(&question, upstreams.addresses().len())?;
    let of_request = call.time_left().unwrap_or(Duration::MAX);
    let asked = upstreams.ask_all(upstreams::Question {
        method: &question.method,
        payload: &question.payload,
        time_max: match question.timeout_us {
            0 => of_request,
            timeout_us => of_request.min(Duration::from_micros(timeout_us)),
        },
    });
    let outcomes = call.wait(asked)?;
    let addresses = upstreams.addresses().map(|address| address.to_string());
    let named: Vec<(String, Outcome)> = addresses.zip(outcomes).collect();
    if named.iter().filter(|(_, outcome)| outcome.is_ok()).count() < answers_min {
        return Err(failure_of(&named));
    }
    context.respond(&Answers { answers: named.into_iter().map(answer).collect() });
    Ok(())
}

/// How many upstreams have to answer.
fn check(question: &Question, upstreams: usize) -> Result<usize, Failure> {
    if upstreams == 0 {
        let error = "the server has no upstreams: start it with --upstream ADDRESS";
        return Err(Failure::new(Status::FailedPrecondition, error));
    }
    if question.method == GATHER {
        // Its requests would multiply at each server.
        return Err(Failure::invalid("Gather cannot ask for Gather"));
    }
    match usize::try_from(question.answers_min) {
        Ok(0) => Ok(upstreams),
        Ok(answers_min) if answers_min <= upstreams => Ok(answers_min),
        _ => Err(Failure::new(
            Status::OutOfRange,
            format!("answers_min may be at most {upstreams}, the number of upstreams"),
        )),
    }
}

/// The status of the first upstream that failed, and what each said.
fn failure_of(outcomes: &[(String, Outcome)]) -> Failure {
    let failures = outcomes.iter().filter_map(|(address, outcome)| Some((address, outcome.as_ref().err()?)));
    let (mut status, mut failed, mut said) = (Status::Unknown, 0, String::new());
    for (address, failure) in failures {
        if failed == 0 {
            status = failure.status;
        }
        failed += 1;
        let quoted: String = failure.to_string().chars().take(QUOTED_MAX).collect();
        let separator = if failed == 1 { ':' } else { ';' };
        let _ = write!(said, "{separator} {address}: {quoted}");
    }
    let all = outcomes.len();
    Failure::new(status, format!("{failed} of {all} upstreams failed{said}"))
}

fn answer((upstream, outcome): (String, Outcome)) -> Answer {
    match outcome {
        Ok(payload) => Answer { upstream, payload, ..Answer::default() },
        Err(failure) => Answer {
            upstream,
            status: failure.status.into(),
            error: failure.error.into_owned(),
            ..Answer::default()
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(method: &str, answers_min: u32) -> Question {
        Question {
            method: method.to_owned(),
            answers_min,
            ..Question::default()
        }
    }

    #[test]
    fn all_upstreams_have_to_answer_unless_the_request_asks_for_fewer() {
        let status = |question: &Question, upstreams| check(question, upstreams).map_err(|it| it.status);
        assert_eq!(status(&question("Echo", 0), 3), Ok(3));
        assert_eq!(status(&question("Echo", 1), 3), Ok(1));
        assert_eq!(status(&question("Echo", 3), 3), Ok(3));
        assert_eq!(status(&question("Echo", 4), 3), Err(Status::OutOfRange));
        assert_eq!(status(&question("Echo", 0), 0), Err(Status::FailedPrecondition));
        assert_eq!(status(&question(GATHER, 0), 3), Err(Status::InvalidArgument));
    }

    #[test]
    fn a_failure_has_the_first_status_and_names_every_upstream_that_failed() {
        let failed = |status, error: String| Err(Failure::new(status, error));
        let outcomes = [
            ("a:1".to_owned(), Ok(Vec::new())),
            ("b:2".to_owned(), failed(Status::Unavailable, "refused".to_owned())),
            ("c:3".to_owned(), failed(Status::Internal, "x".repeat(10_000))),
        ];
        let failure = failure_of(&outcomes);
        assert_eq!(failure.status, Status::Unavailable);
        let begins = "2 of 3 upstreams failed: b:2: UNAVAILABLE refused; c:3: INTERNAL xxx";
        assert!(failure.error.starts_with(begins), "{failure}");
        assert!(failure.error.len() < 400, "long texts are cut");
    }
}
