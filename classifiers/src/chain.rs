//! One classifier after another.

use psp_server::{Classifier, RequestType, TypeTable};

/// Asks a classifier, and where that cannot name a request, another.
///
/// The types of the chain are those of the first, in its order, and then those of the second: an
/// answer of the second is moved by the number of types of the first. Types with the same name are
/// and remain two. An answer beyond the table of the one that gives it counts as `UNKNOWN`, so a
/// closure, which has no types, names nothing in a chain.
///
/// ```
/// use psp_classifiers::{ChainClassifier, RespClassifier, SizeClassifier};
/// use psp_server::{Classifier, TypeSpec};
///
/// let classifier = ChainClassifier::new(
///     RespClassifier::new().group(TypeSpec::new("scan"), ["KEYS", "SCAN"]),
///     SizeClassifier::new()
///         .at_least(0, TypeSpec::new("small"))
///         .at_least(4096, TypeSpec::new("large")),
/// );
/// let types = classifier.types();
/// assert_eq!(classifier.classify(b"KEYS *\r\n"), types.by_name("scan").unwrap());
/// assert_eq!(classifier.classify(b"GET k\r\n"), types.by_name("small").unwrap());
/// ```
#[derive(Debug, Clone)]
pub struct ChainClassifier<A, B> {
    first: A,
    second: B,
    types: TypeTable,
    first_len: usize,
}

impl<A: Classifier, B: Classifier> ChainClassifier<A, B> {
    /// A chain of two.
    pub fn new(first: A, second: B) -> Self {
        let of_first = first.types();
        let of_second = second.types();
        let specs = of_first.specs().iter().chain(of_second.specs());
        Self {
            types: specs.cloned().collect(),
            first_len: of_first.len(),
            first,
            second,
        }
    }

    /// A chain of one more, which is asked last.
    pub fn then<C: Classifier>(self, next: C) -> ChainClassifier<Self, C> {
        ChainClassifier::new(self, next)
    }
}

impl<A: Classifier, B: Classifier> Classifier for ChainClassifier<A, B> {
    #[inline]
    fn classify(&self, request: &[u8]) -> RequestType {
        let answer = self.first.classify(request);
        if answer.index().is_some_and(|index| index < self.first_len) {
            return answer;
        }
        self.second
            .classify(request)
            .index()
            .and_then(|index| index.checked_add(self.first_len))
            .filter(|index| *index < self.types.len())
            .and_then(|index| u32::try_from(index).ok())
            .map_or(RequestType::UNKNOWN, RequestType::new)
    }

    fn types(&self) -> TypeTable {
        self.types.clone()
    }
}

#[cfg(test)]
mod tests {
    use psp_server::TypeSpec;

    use crate::prefix::PrefixClassifier;

    use super::*;

    fn by_prefix(names: &[&str]) -> impl Classifier {
        let mut classifier = PrefixClassifier::new(|frame: &[u8]| Some(frame));
        for name in names {
            classifier = classifier.prefix(name, TypeSpec::new(*name));
        }
        classifier
    }

    #[test]
    fn the_first_that_names_a_type_wins() {
        let chain = ChainClassifier::new(by_prefix(&["a", "b"]), by_prefix(&["b", "c"]))
            .then(by_prefix(&["cc", "d"]));
        let names: Vec<String> = chain
            .types()
            .specs()
            .iter()
            .map(|spec| spec.name.clone())
            .collect();
        assert_eq!(names, ["a", "b", "b", "c", "cc", "d"]);
        for (frame, index) in [("a", 0), ("b", 1), ("cc", 3), ("dd", 5)] {
            let expected = RequestType::new(index);
            assert_eq!(chain.classify(frame.as_bytes()), expected, "{frame}");
        }
        assert_eq!(chain.classify(b"x"), RequestType::UNKNOWN);
    }

    #[test]
    fn answers_beyond_the_table_are_no_answers() {
        let chain = ChainClassifier::new(
            |_: &[u8]| RequestType::new(7),
            ChainClassifier::new(by_prefix(&["a"]), |_: &[u8]| RequestType::new(u32::MAX - 1)),
        );
        assert_eq!(chain.classify(b"a"), RequestType::new(0));
        assert_eq!(chain.classify(b"b"), RequestType::UNKNOWN);
    }
}
