//! The user's half: a request in, its type out.

use psp_pool::RequestType;

/// Names the type of a request `R`. The types are those of the pool.
///
/// Called once for each request, where that arrives: it must not block and should not allocate. Any
/// `Fn(&R) -> RequestType` is a classifier.
pub trait Classify<R>: Send + Sync + 'static {
    /// The type of a request; [`RequestType::UNKNOWN`] if the classifier does not know it.
    fn classify(&self, request: &R) -> RequestType;

    /// How a type is called in snapshots and logs, if not as in the pool. Asked once for each type, with the first of
    /// its requests.
    fn type_name(&self, request_type: RequestType) -> Option<String> {
        let _ = request_type;
        None
    }
}

impl<R, F: Fn(&R) -> RequestType + Send + Sync + 'static> Classify<R> for F {
    fn classify(&self, request: &R) -> RequestType {
        self(request)
    }
}
