//! Work with known results, of the kinds that preemption could spoil.

#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
use std::arch::asm;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any, resume_unwind, set_hook, take_hook};
use std::sync::{Mutex, Once, PoisonError};

use psp_server::no_preempt;

/// Called now and then by all work: a checkpoint, or nothing.
pub(crate) type Pause = fn();

/// One kind of work: its name, and its result from a seed.
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
    (state ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
}

/// Spends most of its time in the allocator: an interruption there would corrupt its lists.
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
    tree.into_values().fold(sum, |sum, bytes| mix(sum, bytes.len() as u64))
}

/// All requests share the counters, which must stay equal.
fn lock(seed: u64, pause: Pause) -> u64 {
    static SHARED: Mutex<[u64; 2]> = Mutex::new([0; 2]);
    let mut sum = seed;
    for round in 0..5000 {
        let equal = no_preempt(|| {
            // A request that a signal suspends while std counts its panics down leaves the count of its thread as it
            // is. Then a panic elsewhere poisons this lock.
            let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
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
        sum = text.bytes().fold(sum, |sum, byte| mix(sum, u64::from(byte)));
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

/// Prints nothing about the panics of [`unwind`].
pub(crate) fn silence_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |info| {
            if !info.payload().is::<u64>() {
                before(info);
            }
        }));
    });
}

/// Panics, and goes on unwinding through several calls that catch.
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
                panic_any(sum);
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
        /// Keeps lanes in registers of this class, four at a time, at every level of optimisation: without
        /// optimisation the compiler would keep nothing in them.
        macro_rules! in_registers {
            ($register:literal, $bytes:literal, $lanes:ident, $rounds:ident) => {
                for lanes in $lanes.chunks_exact_mut(4 * $bytes / size_of::<f64>()) {
                    // SAFETY: it reads the two factors, and reads and writes the bytes of `lanes` that four registers
                    // hold. `rounds` is not zero, or it would not end.
                    unsafe {
                        asm!(
                            concat!("vbroadcastsd ", $register, "4, qword ptr [{factor}]"),
                            concat!("vbroadcastsd ", $register, "5, qword ptr [{one}]"),
                            concat!("vmovupd ", $register, "0, [{lanes}]"),
                            concat!("vmovupd ", $register, "1, [{lanes} + ", $bytes, "]"),
                            concat!("vmovupd ", $register, "2, [{lanes} + 2 * ", $bytes, "]"),
                            concat!("vmovupd ", $register, "3, [{lanes} + 3 * ", $bytes, "]"),
                            "2:",
                            in_registers!(step $register, "0"),
                            in_registers!(step $register, "1"),
                            in_registers!(step $register, "2"),
                            in_registers!(step $register, "3"),
                            "dec {rounds}",
                            "jnz 2b",
                            concat!("vmovupd [{lanes}], ", $register, "0"),
                            concat!("vmovupd [{lanes} + ", $bytes, "], ", $register, "1"),
                            concat!("vmovupd [{lanes} + 2 * ", $bytes, "], ", $register, "2"),
                            concat!("vmovupd [{lanes} + 3 * ", $bytes, "], ", $register, "3"),
                            lanes = in(reg) lanes.as_mut_ptr(),
                            factor = in(reg) &raw const FACTOR,
                            one = in(reg) &raw const ONE,
                            rounds = inout(reg) $rounds => _,
                            out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
                            out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
                            options(nostack),
                        );
                    }
                }
            };
            (step $register:literal, $lane:literal) => {
                concat!(
                    "vmulpd ", $register, "6, ", $register, "4, ", $register, $lane, "\n",
                    "vsubpd ", $register, "7, ", $register, "5, ", $register, $lane, "\n",
                    "vmulpd ", $register, $lane, ", ", $register, "6, ", $register, "7",
                )
            };
        }
        /// Keeps its lanes in registers of 64 bytes.
        #[target_feature(enable = "avx512f")]
        fn wide(lanes: &mut [f64; LANES], rounds: usize) {
            in_registers!("zmm", 64, lanes, rounds);
        }
        /// Keeps its lanes in registers of 32 bytes.
        #[target_feature(enable = "avx2")]
        fn middle(lanes: &mut [f64; LANES], rounds: usize) {
            in_registers!("ymm", 32, lanes, rounds);
        }
        if std::is_x86_feature_detected!("avx512f") && seed.is_multiple_of(2) {
            // SAFETY: the processor has AVX-512F.
            return lanes(seed, times, pause, |lanes, rounds| unsafe {
                wide(lanes, rounds);
            });
        }
        if std::is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has AVX2.
            return lanes(seed, times, pause, |lanes, rounds| unsafe {
                middle(lanes, rounds);
            });
        }
    }
    lanes(seed, times, pause, step)
}

/// A little of all work, to overwrite registers that a preempted request might have left behind.
pub(crate) fn disturb(seed: u64) -> u64 {
    let text = format!("{seed:x} {:e}", (seed as f64).sqrt());
    let sum = text.bytes().fold(seed, |sum, byte| mix(sum, u64::from(byte)));
    mix(sum, vector_of(seed, 1, || {}))
}

const LANES: usize = 32;
/// Of the recurrence of each lane.
static FACTOR: f64 = 3.999;
static ONE: f64 = 1.0;

fn lanes(seed: u64, times: usize, pause: Pause, run: impl Fn(&mut [f64; LANES], usize)) -> u64 {
    let mut values: [f64; LANES] = std::array::from_fn(|lane| mix(seed, lane as u64) as f64 / u64::MAX as f64);
    let mut sum = seed;
    for _ in 0..times {
        run(&mut values, 200);
        sum = values.iter().fold(sum, |sum, value| mix(sum, value.to_bits()));
        pause();
    }
    sum
}

#[inline(always)]
fn step(lanes: &mut [f64; LANES], rounds: usize) {
    let mut values = *lanes;
    for _ in 0..rounds {
        for value in &mut values {
            *value = FACTOR * *value * (ONE - *value);
        }
    }
    *lanes = values;
}

/// Registers of all widths give the same results.
#[test]
fn vectors_do_what_scalars_do() {
    for seed in [6, 7] {
        let scalars = lanes(seed, 3, || {}, step);
        assert_eq!(vector_of(seed, 3, || {}), scalars);
    }
}
