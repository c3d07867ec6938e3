//! Values without repetition.

/// The values without repetitions, in the order of their first occurrence.
#[must_use]
pub fn distinct<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut distinct = Vec::new();
    for value in values {
        if !distinct.contains(&value) {
            distinct.push(value);
        }
    }
    distinct
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_the_order_of_their_first_place() {
        assert_eq!(distinct(["b", "a", "b", "c", "a"].into_iter()), ["b", "a", "c"]);
    }
}
