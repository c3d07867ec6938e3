//! The simulation, guided by coverage: libFuzzer writes the random numbers with which a simulation begins, and keeps
//! what reaches new branches of the server. `.ci/fuzz-server` builds it (`--cfg fuzzing`).
//!
//! ```text
//!   libFuzzer ── bytes ──► Random: two bytes a number, then those of a seed ──► plan, clients, workers ──► the server
//!       ▲                                                                                                     │
//!       └───────────────────────────── branches that were reached, or a failed check ────────────────────────┘
//! ```

#![allow(unsafe_code)]

use std::ffi::{CString, c_char, c_int};
use std::ptr;

use libfuzzer_sys as _;

use super::plan::Plan;
use super::server::simulate;
use crate::simulated::random::{mix, with_numbers};

/// Requests of one simulation: the bytes of an input last for some hundred decisions.
const REQUESTS: u64 = 200;

unsafe extern "C" {
    fn LLVMFuzzerRunDriver(
        argc: *mut c_int,
        argv: *mut *mut *mut c_char,
        run: extern "C" fn(*const u8, usize) -> c_int,
    ) -> c_int;
}

extern "C" fn run(input: *const u8, len: usize) -> c_int {
    // SAFETY: libFuzzer calls this with its input, which is there until the call returns. It is null only if it is
    // empty.
    let input = match len {
        0 => &[],
        len => unsafe { std::slice::from_raw_parts(input, len) },
    };
    let spread = |seed: u64, byte: &u8| mix(seed ^ u64::from(*byte));
    let seed = input.iter().fold(0, spread);
    let plan = || Plan::of(seed, REQUESTS);
    let outcome = with_numbers(input, || simulate(plan()));
    if let Some(failure) = outcome.failure {
        let plan = with_numbers(input, plan);
        eprintln!("{plan:#?}\nthe simulation failed: {failure}");
        std::process::abort();
    }
    0
}

/// `PSP_FUZZ` has libFuzzer's options and folders.
#[test]
#[ignore = "runs until it is stopped"]
fn coverage_guided() {
    let options = std::env::var("PSP_FUZZ").unwrap_or_default();
    let arguments = ["psp-server"].into_iter().chain(options.split_whitespace());
    let arguments: Vec<CString> = arguments.map(|argument| CString::new(argument).expect("no zero")).collect();
    let mut pointers: Vec<*mut c_char> = { arguments.iter() }
        .map(|argument| argument.as_ptr().cast_mut())
        .chain([ptr::null_mut()])
        .collect();
    let mut count = c_int::try_from(arguments.len()).expect("few arguments");
    let mut first = pointers.as_mut_ptr();
    // SAFETY: as for main, `count` arguments and a null pointer, which live on. libFuzzer writes to none of them.
    let status = unsafe { LLVMFuzzerRunDriver(&raw mut count, &raw mut first, run) };
    assert_eq!(status, 0);
}
