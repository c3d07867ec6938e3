//! Methods that compute, with a checkpoint after every few thousand numbers.

use psp_protocols::rpc::{Failure, Status};
use psp_rpc_service::Call;

use super::read;
use crate::messages::Total;
use crate::service::Context;

/// Numbers between two checkpoints: these take some 1 us to add, 10 us to merge and 50 us to sort.
const STRIDE: usize = 2048;

/// Adds numbers.
///
/// # Errors
/// When the payload is not [`Numbers`](crate::messages::Numbers), the sum has more than 64 bits, or the
/// deadline has passed.
pub fn sum(context: &mut Context<'_>, call: &Call<'_>) -> Result<(), Failure> {
    let numbers = &mut context.scratch.numbers;
    read(numbers, call.payload)?;
    let mut total = 0_i128;
    for stride in numbers.values.chunks(STRIDE) {
        total += stride.iter().copied().map(i128::from).sum::<i128>();
        call.checkpoint()?;
    }
    let value = i64::try_from(total).map_err(|_| Failure::new(Status::OutOfRange, "the sum has more than 64 bits"))?;
    context.respond(&Total { value });
    Ok(())
}

/// Sorts numbers, the least first.
///
/// # Errors
/// When the payload is not [`Numbers`](crate::messages::Numbers), or the deadline has passed.
pub fn sort(context: &mut Context<'_>, call: &Call<'_>) -> Result<(), Failure> {
    let scratch = &mut *context.scratch;
    read(&mut scratch.numbers, call.payload)?;
    merge_sort(&mut scratch.numbers.values, &mut scratch.merged, || call.checkpoint())?;
    let numbers = std::mem::take(&mut scratch.numbers);
    context.respond(&numbers);
    context.scratch.numbers = numbers;
    Ok(())
}

/// Sorts runs of [`STRIDE`] numbers, and merges pairs of runs until one run is left. Calls `between` after
/// each sorted or merged stride.
fn merge_sort<E>(
    values: &mut Vec<i64>,
    merged: &mut Vec<i64>,
    mut between: impl FnMut() -> Result<(), E>,
) -> Result<(), E> {
    for run in values.chunks_mut(STRIDE) {
        run.sort_unstable();
        between()?;
    }
    let mut run_len = STRIDE;
    while run_len < values.len() {
        merged.clear();
        for pair in values.chunks(2 * run_len) {
            let (mut left, mut right) = pair.split_at(run_len.min(pair.len()));
            while !left.is_empty() || !right.is_empty() {
                merge_stride(&mut left, &mut right, merged);
                between()?;
            }
        }
        std::mem::swap(values, merged);
        run_len *= 2;
    }
    Ok(())
}

/// Moves the least [`STRIDE`] numbers of two sorted slices to `merged`, or all if there are fewer.
fn merge_stride<'a>(left: &mut &'a [i64], right: &mut &'a [i64], merged: &mut Vec<i64>) {
    for _ in 0..STRIDE {
        let from_left = match (left.first(), right.first()) {
            (Some(first), Some(second)) => first <= second,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (None, None) => return,
        };
        let from = if from_left { &mut *left } else { &mut *right };
        if let Some((least, rest)) = from.split_first() {
            merged.push(*least);
            *from = rest;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn numbers_are_sorted_stride_by_stride(
            values in prop::collection::vec(-99_i64..99, 0..5 * STRIDE),
        ) {
            let mut expected = values.clone();
            expected.sort_unstable();
            let (mut sorted, mut pauses) = (values, 0);
            let Ok(()) = merge_sort(&mut sorted, &mut Vec::new(), || {
                pauses += 1;
                Ok::<_, Infallible>(())
            });
            prop_assert_eq!(&sorted, &expected);
            prop_assert!(pauses >= sorted.len().div_ceil(STRIDE));
        }
    }

    #[test]
    fn sorting_ends_at_the_first_error() {
        let mut values = vec![0; 10 * STRIDE];
        let mut strides = 0;
        let stopped = merge_sort(&mut values, &mut Vec::new(), || {
            strides += 1;
            if strides == 12 { Err("enough") } else { Ok(()) }
        });
        assert_eq!((stopped, strides), (Err("enough"), 12));
    }
}
