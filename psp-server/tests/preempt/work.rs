//! Work whose result is known beforehand, of the kinds that preemption could spoil.

#![allow(unsafe_code)]

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Mutex;

use psp_server::no_preempt;

/// Called now and then by all work: a checkpoint, or nothing.
pub(crate) type Pause = fn();

/// One kind of work: what it is called, and its result from a seed.
pub(crate) type Kind = (&'static str, fn(u64, Pause) -> u64);

pub(crate) const KINDS: [Kind; 7] = [
    ("allocate", allocate),
    ("lock", lock),
    ("format", format),
    ("local", local),
    ("unwind", unwind),
    ("float", float),
    ("vector", vector),
];

fn mix(state: u64, value: u64) -> u64 {
    (state ^ value)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .rotate_left(29)
}

/// Spends most of its time in the allocator: lists that it was interrupted in would not last.
fn allocate(seed: u64, pause: Pause) -> u64 {
    let mut sum = seed;
    let mut tree = BTreeMap::new();
    let mut kept: [Vec<u64>; 64] = std::array::from_fn(|_| Vec::new());
    for round in 0..1000_u64 {
        for _ in 0..32 {
            sum = mix(sum, round);
            let words = Vec::with_capacity((sum % 150) as usize + 1);
            let old = std::mem::replace(&mut kept[(sum >> 32) as usize % 64], words);
            sum = mix(sum, old.first().copied().unwrap_or(old.len() as u64));
            kept[(sum >> 40) as usize % 64].push(sum);
        }
        tree.insert(sum % 512, vec![sum as u8; (sum % 2000) as usize + 1]);
        if let Some(bytes) = tree.remove(&(round % 512)) {
            sum = mix(sum, bytes.iter().map(|&byte| u64::from(byte)).sum());
        }
        pause();
    }
    tree.into_values()
        .fold(sum, |sum, bytes| mix(sum, bytes.len() as u64))
}

/// All requests share the counters, which must stay equal.
fn lock(seed: u64, pause: Pause) -> u64 {
    static SHARED: Mutex<[u64; 2]> = Mutex::new([0; 2]);
    let mut sum = seed;
    for round in 0..5000 {
        let equal = no_preempt(|| {
            let mut shared = SHARED.lock().unwrap();
            shared[0] += 1;
            let before = shared[0];
            for _ in 0..8 {
                std::hint::spin_loop();
            }
            shared[1] += 1;
            shared[1] == before
        });
        sum = mix(sum, round + u64::from(equal));
        pause();
    }
    sum
}

fn format(seed: u64, pause: Pause) -> u64 {
    let mut sum = seed;
    let mut text = String::new();
    for round in 0..2000 {
        text.clear();
        write!(text, "{sum:x} of {round:>8} is {:.6e}", sum as f64 / 3.0).unwrap();
        sum = text
            .bytes()
            .fold(sum, |sum, byte| mix(sum, u64::from(byte)));
        let parsed: u64 = u64::from_str_radix(text.split_once(' ').unwrap().0, 16).unwrap();
        sum = mix(sum, parsed);
        pause();
    }
    sum
}

/// Thread-local variables that all requests of a thread share, used within `no_preempt`.
fn local(seed: u64, pause: Pause) -> u64 {
    thread_local! {
        static COUNT: Cell<u64> = const { Cell::new(0) };
        static LIST: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
    }
    let mut sum = seed;
    for round in 0..5000 {
        let kept = no_preempt(|| {
            let before = COUNT.get();
            let kept = LIST.with_borrow_mut(|list| {
                list.push(round);
                list.pop()
            });
            COUNT.set(before + 1);
            kept
        });
        sum = mix(sum, kept.unwrap_or(u64::MAX));
        pause();
    }
    sum
}

fn unwind(seed: u64, pause: Pause) -> u64 {
    fn descend(depth: u64, sum: u64) -> u64 {
        struct Counts<'a>(&'a Cell<u64>);
        impl Drop for Counts<'_> {
            fn drop(&mut self) {
                self.0.set(self.0.get() + 1);
            }
        }
        let dropped = Cell::new(0);
        let unwound = catch_unwind(AssertUnwindSafe(|| {
            let _counts = Counts(&dropped);
            if depth == 0 {
                resume_unwind(Box::new(sum));
            }
            resume_unwind(Box::new(descend(depth - 1, sum)));
        }));
        let Err(payload) = unwound;
        mix(*payload.downcast::<u64>().unwrap(), dropped.get())
    }
    let mut sum = seed;
    for round in 0..60 {
        sum = descend(round % 8, sum);
        pause();
    }
    sum
}

/// The bits of a recurrence that loses digits when any is changed.
fn float(seed: u64, pause: Pause) -> u64 {
    let mut x = seed as f64 / u64::MAX as f64;
    let mut sum = seed;
    for _ in 0..600 {
        for _ in 0..64 {
            x = 3.999 * x * (1.0 - x);
        }
        sum = mix(sum, x.to_bits());
        sum = mix(sum, (x * 10.0).sin().to_bits());
        pause();
    }
    sum
}

fn vector(seed: u64, pause: Pause) -> u64 {
    vector_of(seed, 200, pause)
}

fn vector_of(seed: u64, times: usize, pause: Pause) -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        /// Keeps its lanes in registers of 64 bytes.
        #[target_feature(enable = "avx512f")]
        fn wide(lanes: &mut [f64; LANES], rounds: usize) {
            step(lanes, rounds);
        }
        /// Keeps its lanes in registers of 32 bytes.
        #[target_feature(enable = "avx2,fma")]
        fn middle(lanes: &mut [f64; LANES], rounds: usize) {
            step(lanes, rounds);
        }
        if std::is_x86_feature_detected!("avx512f") && seed.is_multiple_of(2) {
            // SAFETY: the processor has AVX-512F.
            return lanes(seed, times, pause, |lanes, rounds| unsafe {
                wide(lanes, rounds);
            });
        }
        if std::is_x86_feature_detected!("avx2") && std::is_x86_feature_detected!("fma") {
            // SAFETY: the processor has AVX2 and FMA.
            return lanes(seed, times, pause, |lanes, rounds| unsafe {
                middle(lanes, rounds);
            });
        }
    }
    lanes(seed, times, pause, step)
}

/// A little of everything, to overwrite what a preempted request might have left behind.
pub(crate) fn disturb(seed: u64) -> u64 {
    let text = format!("{seed:x} {:e}", (seed as f64).sqrt());
    let sum = text
        .bytes()
        .fold(seed, |sum, byte| mix(sum, u64::from(byte)));
    mix(sum, vector_of(seed, 1, || {}))
}

const LANES: usize = 32;

fn lanes(seed: u64, times: usize, pause: Pause, run: impl Fn(&mut [f64; LANES], usize)) -> u64 {
    let mut values: [f64; LANES] =
        std::array::from_fn(|lane| mix(seed, lane as u64) as f64 / u64::MAX as f64);
    let mut sum = seed;
    for _ in 0..times {
        run(&mut values, 200);
        sum = values
            .iter()
            .fold(sum, |sum, value| mix(sum, value.to_bits()));
        pause();
    }
    sum
}

#[inline(always)]
fn step(lanes: &mut [f64; LANES], rounds: usize) {
    let mut values = *lanes;
    for _ in 0..rounds {
        for value in &mut values {
            *value = 3.999 * *value * (1.0 - *value);
        }
    }
    *lanes = values;
}
