//! Types by the size of a request.

use psp_server::{Classifier, RequestType, TypeSpec, TypeTable};

use crate::registry::register;
use crate::thresholds::Thresholds;

/// Finds the type by the size of a request: the length of its frame in bytes, or any other size that a
/// function finds in the frame.
///
/// ```
/// use psp_classifiers::SizeClassifier;
/// use psp_server::{Classifier, TypeSpec};
///
/// let classifier = SizeClassifier::new()
///     .at_least(0, TypeSpec::new("small"))
///     .at_least(4096, TypeSpec::new("large"));
/// let large = classifier.types().by_name("large").unwrap();
/// assert_eq!(classifier.classify(&[0; 4096], &()), large);
/// ```
#[derive(Debug, Clone)]
pub struct SizeClassifier<M = FrameLen> {
    size_of: M,
    types: TypeTable,
    sizes: Thresholds,
}

/// Measures requests by the length of their frame.
#[derive(Debug, Clone, Copy, Default)]
pub struct FrameLen;

impl SizeClassifier {
    /// A classifier for the length of frames in bytes. It has no types yet.
    #[must_use]
    pub fn new() -> Self {
        Self::of(FrameLen)
    }
}

impl Default for SizeClassifier {
    fn default() -> Self {
        Self::new()
    }
}

impl<M> SizeClassifier<M> {
    /// A classifier for the sizes that `size_of` finds in frames and their heads. It has no types yet.
    pub fn measured_by<H>(size_of: M) -> Self
    where
        M: Fn(&[u8], &H) -> usize,
    {
        Self::of(size_of)
    }

    fn of(size_of: M) -> Self {
        Self {
            size_of,
            types: TypeTable::new(),
            sizes: Thresholds::default(),
        }
    }

    /// Requests of at least this size are of the type `spec`, up to the next threshold.
    ///
    /// Requests below all thresholds are `UNKNOWN`. A type has one threshold: a type that is already
    /// registered under this name moves to the new threshold and takes the hints of `spec`.
    #[must_use]
    pub fn at_least(mut self, size_min: usize, spec: TypeSpec) -> Self {
        let request_type = register(&mut self.types, spec);
        self.sizes.set(size_min, request_type);
        self
    }

    /// Its types, as [`Classifier::types`] has them for requests with any head.
    #[must_use]
    pub fn types(&self) -> TypeTable {
        self.types.clone()
    }
}

impl<H> Classifier<H> for SizeClassifier {
    #[inline]
    fn classify(&self, request: &[u8], _head: &H) -> RequestType {
        self.sizes.type_of(request.len())
    }

    fn types(&self) -> TypeTable {
        self.types.clone()
    }
}

impl<H, M> Classifier<H> for SizeClassifier<M>
where
    M: Fn(&[u8], &H) -> usize + Send + Sync + 'static,
{
    #[inline]
    fn classify(&self, request: &[u8], head: &H) -> RequestType {
        self.sizes.type_of((self.size_of)(request, head))
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
        let types = Classifier::<()>::types(&classifier);
        for (len, name) in [(1, None), (2, Some("small")), (99, Some("small")), (100, Some("large"))] {
            let expected = name.map_or(Some(RequestType::UNKNOWN), |name| types.by_name(name));
            assert_eq!(Some(classifier.classify(&vec![0; len], &())), expected, "{len}");
        }
    }

    #[test]
    fn a_function_may_measure_another_size() {
        let classifier =
            SizeClassifier::measured_by(|frame, (): &()| frame.first().map_or(0, |count| usize::from(*count)))
                .at_least(7, TypeSpec::new("many"));
        assert_eq!(classifier.classify(&[7], &()), RequestType::new(0));
        assert_eq!([classifier.types().len(), Classifier::<()>::types(&classifier).len()], [1, 1]);
        assert_eq!(classifier.classify(&[6; 100], &()), RequestType::UNKNOWN);
    }
}
