//! HyperLogLogs in the form of Redis: strings that Redis and psp-redis read from each other, byte for byte.
//!
//! ```text
//!   "HYLL" | encoding | 3 unused bytes | cached count, 8 bytes | registers, dense or sparse
//! ```
//!
//! A member's hash chooses one of 16384 registers. A register holds the longest run of zeros that a hash of its members
//! began with, plus one. Flajolet et al., *HyperLogLog*, 2007; the estimate is that of Ertl, arXiv:1702.01284.

mod dense;
mod estimate;
mod hash;
mod sparse;

use estimate::Histogram;

use crate::error::CommandError;
use crate::parse::Result;

/// Registers of a HyperLogLog.
pub const REGISTERS: usize = 1 << 14;
/// Bytes of the dense form.
pub const DENSE_BYTES: usize = HEADER_BYTES + dense::BYTES;
/// A sparse form that would become longer becomes dense: Redis's default of `hll-sparse-max-bytes`.
pub const SPARSE_BYTES_MAX: usize = 3000;

const HEADER_BYTES: usize = 16;
const MAGIC: &[u8] = b"HYLL";
const ENCODING_AT: usize = 4;
const DENSE: u8 = 0;
const SPARSE: u8 = 1;
const COUNT_AT: usize = 8;
/// The last byte of the count, whose highest bit says that it is out of date.
const STALE_AT: usize = 15;
const STALE: u8 = 0x80;

const CORRUPTED: CommandError = CommandError::line("INVALIDOBJ Corrupted HLL object detected");

/// The bytes of a HyperLogLog.
#[derive(Debug, Clone, Copy)]
pub struct Sketch<'a>(&'a [u8]);

impl<'a> Sketch<'a> {
    /// The HyperLogLog that `bytes` are.
    ///
    /// # Errors
    /// They are none. Sparse registers are only checked when they are read.
    pub fn of(bytes: &'a [u8]) -> Result<Self> {
        let is_valid = bytes.len() >= HEADER_BYTES
            && bytes.starts_with(MAGIC)
            && match bytes[ENCODING_AT] {
                DENSE => bytes.len() == DENSE_BYTES,
                SPARSE => true,
                _ => false,
            };
        if is_valid {
            Ok(Self(bytes))
        } else {
            Err(CommandError::line("WRONGTYPE Key is not a valid HyperLogLog string value."))
        }
    }

    fn is_dense(self) -> bool {
        self.0[ENCODING_AT] == DENSE
    }

    fn registers(self) -> &'a [u8] {
        &self.0[HEADER_BYTES..]
    }

    /// The count that an earlier one left behind, if the registers are still the same.
    #[must_use]
    pub fn cached_count(self) -> Option<u64> {
        let count = self.0[COUNT_AT..].first_chunk()?;
        (self.0[STALE_AT] & STALE == 0).then(|| u64::from_le_bytes(*count))
    }

    /// Estimates the number of members.
    ///
    /// # Errors
    /// The registers are corrupted.
    pub fn count(self) -> Result<u64> {
        let mut histogram = Histogram::default();
        self.visit(|value, run| histogram.add(value, run))?;
        Ok(histogram.count())
    }

    /// Calls `visit` with the value and the number of registers of each run of equal registers, in order.
    fn visit(self, mut visit: impl FnMut(u8, usize)) -> Result<()> {
        if self.is_dense() {
            dense::visit(self.registers(), |value| visit(value, 1));
            return Ok(());
        }
        sparse::visit(self.registers(), visit).ok_or(CORRUPTED)
    }
}

/// A HyperLogLog that changes.
#[derive(Debug, Clone)]
pub struct HyperLogLog(Vec<u8>);

impl HyperLogLog {
    /// A HyperLogLog without members, in the sparse form.
    #[must_use]
    pub fn new() -> Self {
        let mut bytes = vec![0; HEADER_BYTES];
        bytes[..MAGIC.len()].copy_from_slice(MAGIC);
        bytes[ENCODING_AT] = SPARSE;
        bytes.extend(sparse::empty());
        Self(bytes)
    }

    /// A copy.
    #[must_use]
    pub fn from_sketch(sketch: Sketch<'_>) -> Self {
        Self(sketch.0.to_vec())
    }

    /// The bytes to store.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Adds a member. Returns whether a register changed.
    ///
    /// # Errors
    /// The registers are corrupted.
    pub fn add(&mut self, member: &[u8]) -> Result<bool> {
        let (register, value) = hash::register_of(member);
        self.raise(register, value)
    }

    /// Raises `register` to at least `value`. Returns whether it changed.
    ///
    /// # Errors
    /// The registers are corrupted.
    pub fn raise(&mut self, register: usize, value: u8) -> Result<bool> {
        if self.0[ENCODING_AT] == SPARSE {
            let raised = sparse::raise(&mut self.0, HEADER_BYTES, register, value);
            match raised.ok_or(CORRUPTED)? {
                sparse::Raised::Same => return Ok(false),
                sparse::Raised::Changed => {
                    forget_count(&mut self.0);
                    return Ok(true);
                }
                sparse::Raised::TooLong => self.make_dense()?,
            }
        }
        Ok(raise_dense(&mut self.0, register, value))
    }

    /// Changes to the dense form.
    ///
    /// # Errors
    /// The registers are corrupted.
    pub fn make_dense(&mut self) -> Result<()> {
        let sketch = Sketch(&self.0);
        if sketch.is_dense() {
            return Ok(());
        }
        let mut bytes = vec![0; DENSE_BYTES];
        bytes[..HEADER_BYTES].copy_from_slice(&self.0[..HEADER_BYTES]);
        bytes[ENCODING_AT] = DENSE;
        let mut register = 0;
        sketch.visit(|value, run| {
            for _ in 0..run {
                dense::raise(&mut bytes[HEADER_BYTES..], register, value);
                register += 1;
            }
        })?;
        self.0 = bytes;
        Ok(())
    }

    /// Stores what [`Sketch::count`] returned for the same registers.
    pub fn cache_count(&mut self, count: u64) {
        self.0[COUNT_AT..HEADER_BYTES].copy_from_slice(&count.to_le_bytes());
    }

    /// Marks the cached count as out of date.
    pub fn forget_count(&mut self) {
        forget_count(&mut self.0);
    }
}

impl Default for HyperLogLog {
    fn default() -> Self {
        Self::new()
    }
}

fn forget_count(bytes: &mut [u8]) {
    bytes[STALE_AT] |= STALE;
}

fn raise_dense(bytes: &mut [u8], register: usize, value: u8) -> bool {
    let is_raised = dense::raise(&mut bytes[HEADER_BYTES..], register, value);
    if is_raised {
        forget_count(bytes);
    }
    is_raised
}

/// Adds a member to the dense HyperLogLog that `bytes` are, in place. Returns whether a register changed; `None` if the
/// bytes are no dense HyperLogLog.
#[must_use]
pub fn add_in_place(bytes: &mut [u8], member: &[u8]) -> Option<bool> {
    Sketch::of(bytes).ok().filter(|sketch| sketch.is_dense())?;
    let (register, value) = hash::register_of(member);
    Some(raise_dense(bytes, register, value))
}

/// The highest value of each register in several HyperLogLogs.
#[derive(Debug)]
pub struct Union {
    registers: Box<[u8; REGISTERS]>,
    has_dense: bool,
}

impl Default for Union {
    fn default() -> Self {
        Self { registers: Box::new([0; REGISTERS]), has_dense: false }
    }
}

impl Union {
    /// Adds the members of `sketch`.
    ///
    /// # Errors
    /// Its registers are corrupted.
    pub fn add(&mut self, sketch: Sketch<'_>) -> Result<()> {
        self.has_dense |= sketch.is_dense();
        let mut register = 0;
        sketch.visit(|value, run| {
            for highest in &mut self.registers[register..register + run] {
                *highest = value.max(*highest);
            }
            register += run;
        })
    }

    /// Whether one of them is dense.
    #[must_use]
    pub fn has_dense(&self) -> bool {
        self.has_dense
    }

    /// The registers that are not zero, with their values.
    pub fn registers(&self) -> impl Iterator<Item = (usize, u8)> {
        let registers = self.registers.iter().copied().enumerate();
        registers.filter(|(_, value)| *value > 0)
    }

    /// Estimates the number of members.
    #[must_use]
    pub fn count(&self) -> u64 {
        let mut histogram = Histogram::default();
        self.registers.iter().for_each(|value| histogram.add(*value, 1));
        histogram.count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_members(count: u32) -> HyperLogLog {
        let mut log = HyperLogLog::new();
        for member in 0..count {
            log.add(format!("member:{member}").as_bytes()).unwrap();
        }
        log
    }

    fn count(log: &HyperLogLog) -> u64 {
        Sketch::of(log.as_bytes()).unwrap().count().unwrap()
    }

    #[test]
    fn counts_are_near_the_truth_in_both_forms() {
        assert_eq!(count(&HyperLogLog::new()), 0);
        for (members, is_dense) in [(1, false), (100, false), (1000, false), (10_000, true), (200_000, true)] {
            let log = with_members(members);
            let counted = count(&log) as f64;
            let error = (counted - f64::from(members)).abs() / f64::from(members);
            assert!(error < 0.03, "{counted} of {members}");
            assert_eq!(Sketch(&log.0).is_dense(), is_dense, "{members}");
            let mut dense = log.clone();
            dense.make_dense().unwrap();
            assert_eq!(count(&dense), count(&log));
        }
    }

    #[test]
    fn a_union_has_the_members_of_both() {
        let (small, large) = (with_members(500), with_members(20_000));
        let mut union = Union::default();
        for log in [&small, &large] {
            union.add(Sketch::of(log.as_bytes()).unwrap()).unwrap();
        }
        assert!(union.has_dense());
        assert_eq!(union.count(), count(&large));
    }

    #[test]
    fn a_count_is_remembered_until_a_register_changes() {
        let mut log = with_members(10);
        assert_eq!(Sketch(&log.0).cached_count(), None);
        log.cache_count(10);
        assert_eq!(Sketch(&log.0).cached_count(), Some(10));
        assert_eq!(log.add(b"member:3"), Ok(false));
        assert_eq!(Sketch(&log.0).cached_count(), Some(10));
        assert_eq!(log.add(b"member:11"), Ok(true));
        assert_eq!(Sketch(&log.0).cached_count(), None);
    }

    #[test]
    fn other_bytes_are_refused() {
        let dense = {
            let mut log = with_members(1);
            log.make_dense().unwrap();
            log.0
        };
        let mut unknown = dense.clone();
        unknown[ENCODING_AT] = 2;
        for bytes in [
            &b""[..],
            b"HYLL",
            b"hello, hello, hello",
            &dense[1..],
            &dense[..DENSE_BYTES - 1],
            &unknown,
        ] {
            assert!(Sketch::of(bytes).is_err());
        }
    }

    #[test]
    fn corrupted_registers_are_errors() {
        let intact = with_members(20).0;
        let mut corrupted = Vec::new();
        for end in HEADER_BYTES..intact.len() {
            corrupted.push(intact[..end].to_vec());
        }
        corrupted.push([&intact[..], &[0x80]].concat());
        for bytes in corrupted {
            let sketch = Sketch::of(&bytes).unwrap();
            assert_eq!(sketch.count(), Err(CORRUPTED));
            assert_eq!(Union::default().add(sketch), Err(CORRUPTED));
            let mut log = HyperLogLog::from_sketch(sketch);
            assert_eq!(log.make_dense(), Err(CORRUPTED));
            // A register beyond the end has no place.
            let _ = log.add(b"member");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_behind_the_header_are_safe(
            registers in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200),
            member: [u8; 4],
        ) {
            let header = HyperLogLog::new().0[..HEADER_BYTES].to_vec();
            let bytes = [header, registers].concat();
            let sketch = Sketch::of(&bytes).unwrap();
            let mut log = HyperLogLog::from_sketch(sketch);
            let _ = (sketch.count(), Union::default().add(sketch), log.add(&member), log.make_dense());
        }
    }
}
