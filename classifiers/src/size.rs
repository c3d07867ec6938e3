//! Types by the size of a request.

use psp_server::{Classifier, RequestType, TypeSpec, TypeTable};

use crate::registry::register;
use crate::thresholds::Thresholds;

/// Takes the type from the size of a request: that of its frame in bytes, or another that a
/// function finds in it.
///
/// ```
/// use psp_classifiers::SizeClassifier;
/// use psp_server::{Classifier, TypeSpec};
///
/// let classifier = SizeClassifier::new()
///     .at_least(0, TypeSpec::new("small"))
///     .at_least(4096, TypeSpec::new("large"));
/// let large = classifier.types().by_name("large").unwrap();
/// assert_eq!(classifier.classify(&[0; 4096]), large);
/// ```
#[derive(Debug, Clone)]
pub struct SizeClassifier<M = fn(&[u8]) -> usize> {
    size_of: M,
    types: TypeTable,
    sizes: Thresholds,
}

impl SizeClassifier {
    /// A classifier without types for the length of frames in bytes.
    #[must_use]
    pub fn new() -> Self {
        Self::measured_by(<[u8]>::len)
    }
}

impl Default for SizeClassifier {
    fn default() -> Self {
        Self::new()
    }
}

impl<M: Fn(&[u8]) -> usize + Send + Sync + 'static> SizeClassifier<M> {
    /// A classifier without types for the sizes that `size_of` finds in frames.
    pub fn measured_by(size_of: M) -> Self {
        Self {
            size_of,
            types: TypeTable::new(),
            sizes: Thresholds::default(),
        }
    }

    /// Requests of at least this size are of the type `spec`, up to the next threshold.
    ///
    /// Requests below all thresholds are `UNKNOWN`. A type has one threshold: one that is already
    /// known by its name moves, and takes the hints of `spec`.
    #[must_use]
    pub fn at_least(mut self, size_min: usize, spec: TypeSpec) -> Self {
        let request_type = register(&mut self.types, spec);
        self.sizes.set(size_min, request_type);
        self
    }
}

impl<M: Fn(&[u8]) -> usize + Send + Sync + 'static> Classifier for SizeClassifier<M> {
    #[inline]
    fn classify(&self, request: &[u8]) -> RequestType {
        self.sizes.type_of((self.size_of)(request))
    }

    fn types(&self) -> TypeTable {
        self.types.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_measured_in_bytes() {
        let classifier = SizeClassifier::new()
            .at_least(100, TypeSpec::new("large"))
            .at_least(2, TypeSpec::new("small"));
        let types = classifier.types();
        for (len, name) in [
            (1, None),
            (2, Some("small")),
            (99, Some("small")),
            (100, Some("large")),
        ] {
            let expected = name.map_or(Some(RequestType::UNKNOWN), |name| types.by_name(name));
            assert_eq!(Some(classifier.classify(&vec![0; len])), expected, "{len}");
        }
    }

    #[test]
    fn other_sizes_are_measured_by_a_function() {
        let classifier = SizeClassifier::measured_by(|frame| {
            frame.first().map_or(0, |count| usize::from(*count))
        })
        .at_least(7, TypeSpec::new("many"));
        assert_eq!(classifier.classify(&[7]), RequestType::new(0));
        assert_eq!(classifier.classify(&[6; 100]), RequestType::UNKNOWN);
    }
}
