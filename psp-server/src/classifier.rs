//! The user's half of scheduling: payload in, request type out.

use crate::request_type::{RequestType, TypeTable};

/// Names the type of a request by looking at its bytes (Perséphone 4.2).
///
/// Called once for every request on the net worker's path: it must not block and should not
/// allocate. Any `Fn(&[u8]) -> RequestType` is a classifier.
pub trait Classifier: Send + Sync + 'static {
    /// The type of `request`, one whole frame; [`RequestType::UNKNOWN`] when it cannot say.
    fn classify(&self, request: &[u8]) -> RequestType;

    /// The types this classifier tells apart. The server registers them unless its builder was
    /// given types of its own.
    fn types(&self) -> TypeTable {
        TypeTable::new()
    }
}

impl<F: Fn(&[u8]) -> RequestType + Send + Sync + 'static> Classifier for F {
    fn classify(&self, request: &[u8]) -> RequestType {
        self(request)
    }
}
