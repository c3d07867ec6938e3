//! The sparse form: runs of equal registers.
//!
//! ```text
//!   00llllll            a run of zeros, 1 to 64 long
//!   01llllll llllllll   a run of zeros, 1 to 16384 long
//!   1vvvvvll            a run of 1 to 4 registers with a value of 1 to 32
//! ```

use std::ops::Range;

use smallvec::SmallVec;

use super::{REGISTERS, SPARSE_BYTES_MAX};

const ZEROS_MAX: usize = 64;
const VALUE_MAX: u8 = 32;
const VALUES_MAX: usize = 4;
/// Runs behind the one before a change that may become one with their neighbours.
const MERGED_RUNS: usize = 5;

/// A run of equal registers.
#[derive(Debug, Clone, Copy)]
struct Run {
    value: u8,
    len: usize,
    bytes: usize,
}

/// The run at the start of `bytes`; `None` if they end before it does.
fn first_run(bytes: &[u8]) -> Option<Run> {
    let (value, len, bytes) = match *bytes {
        [byte, ..] if byte & 0x80 != 0 => ((byte >> 2 & 0x1f) + 1, usize::from(byte & 3) + 1, 1),
        [byte, low, ..] if byte & 0x40 != 0 => {
            let len = usize::from(byte & 0x3f) << 8 | usize::from(low);
            (0, len + 1, 2)
        }
        [byte, ..] if byte & 0x40 == 0 => (0, usize::from(byte) + 1, 1),
        _ => return None,
    };
    Some(Run { value, len, bytes })
}

fn encode_value(value: u8, len: usize) -> u8 {
    0x80 | (value - 1) << 2 | (len - 1) as u8
}

/// Appends a run of zeros, in its shortest form.
fn push_zeros(bytes: &mut SmallVec<[u8; 8]>, len: usize) {
    let [high, low] = (len.saturating_sub(1) as u16).to_be_bytes();
    match len {
        0 => {}
        1..=ZEROS_MAX => bytes.push(low),
        _ => bytes.extend_from_slice(&[high | 0x40, low]),
    }
}

/// The registers of an empty HyperLogLog.
pub(super) fn empty() -> impl Iterator<Item = u8> {
    let mut bytes = SmallVec::new();
    push_zeros(&mut bytes, REGISTERS);
    bytes.into_iter()
}

/// Calls `visit` with the value and the length of each run; `None` if the runs have another number of registers.
pub(super) fn visit(mut bytes: &[u8], mut visit: impl FnMut(u8, usize)) -> Option<()> {
    let mut left = REGISTERS;
    while !bytes.is_empty() {
        let run = first_run(bytes)?;
        left = left.checked_sub(run.len)?;
        visit(run.value, run.len);
        bytes = &bytes[run.bytes..];
    }
    (left == 0).then_some(())
}

/// What became of a register.
pub(super) enum Raised {
    Same,
    Changed,
    /// The sparse form cannot hold the value, or would become too long. Nothing changed.
    TooLong,
}

/// Where a register is among the runs.
struct Found {
    run: Run,
    /// The bytes of the run.
    place: Range<usize>,
    /// Where the run before it begins.
    before: Option<usize>,
    /// Registers of the run before the wanted one.
    offset: usize,
}

fn find(bytes: &[u8], start: usize, register: usize) -> Option<Found> {
    let (mut at, mut before, mut first) = (start, None, 0);
    loop {
        let run = first_run(bytes.get(at..)?)?;
        let place = at..at + run.bytes;
        if register < first + run.len {
            let offset = register - first;
            return Some(Found { run, place, before, offset });
        }
        first += run.len;
        (before, at) = (Some(at), place.end);
    }
}

/// Raises `register` to at least `value`. The runs are in `bytes` from `start` on. `None` if none has the register.
pub(super) fn raise(bytes: &mut Vec<u8>, start: usize, register: usize, value: u8) -> Option<Raised> {
    if value > VALUE_MAX {
        return Some(Raised::TooLong);
    }
    let Found { run, place, before, offset } = find(bytes, start, register)?;
    if run.value >= value {
        return Some(Raised::Same);
    }
    // The run becomes up to three: what is before the register, the register, and what is behind it.
    let behind = run.len - offset - 1;
    let mut runs = SmallVec::<[u8; 8]>::new();
    let push_rest = |runs: &mut SmallVec<_>, len| match (run.value, len) {
        (0, len) => push_zeros(runs, len),
        (_, 0) => {}
        (value, len) => runs.push(encode_value(value, len)),
    };
    push_rest(&mut runs, offset);
    runs.push(encode_value(value, 1));
    push_rest(&mut runs, behind);
    let is_longer = runs.len() > place.len();
    if is_longer && bytes.len() + runs.len() - place.len() > SPARSE_BYTES_MAX {
        return Some(Raised::TooLong);
    }
    bytes.splice(place, runs);
    merge(bytes, before.unwrap_or(start));
    Some(Raised::Changed)
}

/// Makes one of neighbours with the same value, from the run at `at` on.
fn merge(bytes: &mut Vec<u8>, mut at: usize) {
    for _ in 0..MERGED_RUNS {
        let Some(run) = bytes.get(at..).and_then(first_run) else {
            return;
        };
        let next = bytes.get(at + run.bytes..).and_then(first_run);
        let next = next.filter(|next| run.value > 0 && next.value == run.value);
        match next.map(|next| run.len + next.len) {
            Some(len) if len <= VALUES_MAX => {
                bytes[at] = encode_value(run.value, len);
                bytes.remove(at + 1);
            }
            _ => at += run.bytes,
        }
    }
}
