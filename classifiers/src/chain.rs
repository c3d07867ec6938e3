//! One classifier after another.

use psp_server::policy::admission::PRIORITY_DEFAULT;
use psp_server::{Classifier, RequestType, TypeTable};

/// Asks a classifier, and if its answer is `UNKNOWN`, a second classifier.
///
/// The types of the chain are the types of the first classifier, followed by the types of the second.
/// Types with the same name in both remain two types. An answer beyond the table of its classifier
/// counts as `UNKNOWN`. A closure has no types, so that all of its answers in a chain are `UNKNOWN`.
///
/// ```
/// use psp_classifiers::{ChainClassifier, RespClassifier, SizeClassifier};
/// use psp_server::protocols::Framing;
/// use psp_server::protocols::resp::Resp;
/// use psp_server::{Classifier, TypeSpec};
///
/// let classifier = ChainClassifier::new(
///     RespClassifier::new().group(TypeSpec::new("scan"), ["KEYS", "SCAN"]),
///     SizeClassifier::new()
///         .at_least(0, TypeSpec::new("small"))
///         .at_least(4096, TypeSpec::new("large")),
/// );
/// let types = classifier.types();
/// for (frame, name) in [(b"KEYS *\r\n", "scan"), (b"GET ab\r\n", "small")] {
///     let head = Resp::default().head_of(frame).unwrap();
///     assert_eq!(classifier.classify(frame, &head), types.by_name(name).unwrap());
/// }
/// ```
#[derive(Debug, Clone)]
pub struct ChainClassifier<A, B> {
    first: A,
    second: B,
    types: TypeTable,
    first_len: usize,
}

impl<A, B> ChainClassifier<A, B> {
    /// A chain of two classifiers of requests with the same head.
    pub fn new<H>(first: A, second: B) -> Self
    where
        A: Classifier<H>,
        B: Classifier<H>,
    {
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

    /// A chain with one more classifier, which is asked last.
    pub fn then<H, C>(self, next: C) -> ChainClassifier<Self, C>
    where
        A: Classifier<H>,
        B: Classifier<H>,
        C: Classifier<H>,
    {
        ChainClassifier::new(self, next)
    }
}

impl<H, A: Classifier<H>, B: Classifier<H>> Classifier<H> for ChainClassifier<A, B> {
    #[inline]
    fn classify(&self, request: &[u8], head: &H) -> RequestType {
        let answer = self.first.classify(request, head);
        if answer.index().is_some_and(|index| index < self.first_len) {
            return answer;
        }
        self.second
            .classify(request, head)
            .index()
            .and_then(|index| index.checked_add(self.first_len))
            .filter(|index| *index < self.types.len())
            .and_then(|index| u32::try_from(index).ok())
            .map_or(RequestType::UNKNOWN, RequestType::new)
    }

    /// What the first classifier says, or else the second.
    fn priority(&self, request: &[u8], head: &H) -> u8 {
        match self.first.priority(request, head) {
            PRIORITY_DEFAULT => self.second.priority(request, head),
            other => other,
        }
    }

    /// What the first classifier says, or else the second.
    fn tenant(&self, request: &[u8], head: &H) -> u32 {
        match self.first.tenant(request, head) {
            0 => self.second.tenant(request, head),
            other => other,
        }
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
        let mut classifier = PrefixClassifier::new(|frame: &[u8], (): &()| Some(frame));
        for name in names {
            classifier = classifier.prefix(name, TypeSpec::new(*name));
        }
        classifier
    }

    #[test]
    fn the_first_classifier_that_knows_a_request_decides() {
        let chain = ChainClassifier::new(by_prefix(&["a", "b"]), by_prefix(&["b", "c"])).then(by_prefix(&["cc", "d"]));
        let names: Vec<String> = chain.types().specs().iter().map(|spec| spec.name.clone()).collect();
        assert_eq!(names, ["a", "b", "b", "c", "cc", "d"]);
        for (frame, index) in [("a", 0), ("b", 1), ("cc", 3), ("dd", 5)] {
            let expected = RequestType::new(index);
            assert_eq!(chain.classify(frame.as_bytes(), &()), expected, "{frame}");
        }
        assert_eq!(chain.classify(b"x", &()), RequestType::UNKNOWN);
    }

    #[test]
    fn answers_beyond_the_table_are_unknown() {
        let chain = ChainClassifier::new(
            |_: &[u8]| RequestType::new(7),
            ChainClassifier::new(by_prefix(&["a"]), |_: &[u8]| RequestType::new(u32::MAX - 1)),
        );
        assert_eq!(chain.classify(b"a", &()), RequestType::new(0));
        assert_eq!(chain.classify(b"b", &()), RequestType::UNKNOWN);
        let one_beyond = |_: &[u8]| RequestType::new(1);
        let chain = ChainClassifier::new(TypedAs(one_beyond), by_prefix(&["b", "a"]));
        assert_eq!(chain.classify(b"a", &()), RequestType::new(2));
        let chain = ChainClassifier::new(by_prefix(&["b"]), TypedAs(one_beyond));
        assert_eq!(chain.classify(b"a", &()), RequestType::UNKNOWN);
    }

    /// A table of one type, whatever the closure answers.
    struct TypedAs<C>(C);

    impl<C: Fn(&[u8]) -> RequestType + Send + Sync + 'static> Classifier for TypedAs<C> {
        fn classify(&self, request: &[u8], (): &()) -> RequestType {
            (self.0)(request)
        }

        fn types(&self) -> TypeTable {
            by_prefix(&["one"]).types()
        }
    }
}
