//! The user's half of scheduling: payload in, request type out.

use psp_policy::admission::PRIORITY_DEFAULT;
use psp_policy::{RequestType, TypeTable};

/// Names the type of a request by its bytes (Perséphone 4.2) and by its head.
///
/// `H` is the [head](psp_protocols::Framing::Head) of the server's framing: a classifier of RESP commands is a
/// `Classifier<RespHead>`.
///
/// Called once for every request on the net worker's path: it must not block and should not
/// allocate. Any `Fn(&[u8]) -> RequestType` is a classifier for requests with any head.
pub trait Classifier<H = ()>: Send + Sync + 'static {
    /// The type of `request`, one whole frame with the head `head`; [`RequestType::UNKNOWN`] if the classifier does
    /// not know it.
    fn classify(&self, request: &[u8], head: &H) -> RequestType;

    /// How urgent `request` is among those of its type: from 0, the most urgent, to 7, as RFC 9218 counts. Servers with
    /// [admission](crate::Config::admission) ask, and refuse the less urgent ones first.
    fn priority(&self, request: &[u8], head: &H) -> u8 {
        let _ = (request, head);
        PRIORITY_DEFAULT
    }

    /// Who sent `request`: a number, or the hash of a name. Servers with [admission](crate::Config::admission) ask, and
    /// under overload refuse those first who want more than an equal share. 0 is nobody in particular, and by default
    /// everybody.
    fn tenant(&self, request: &[u8], head: &H) -> u32 {
        let _ = (request, head);
        0
    }

    /// The types that this classifier distinguishes. The server registers them unless its builder was given
    /// other types; it refuses to build a server without any.
    fn types(&self) -> TypeTable {
        TypeTable::new()
    }
}

impl<H, F: Fn(&[u8]) -> RequestType + Send + Sync + 'static> Classifier<H> for F {
    fn classify(&self, request: &[u8], _head: &H) -> RequestType {
        self(request)
    }
}
