//! Types of requests: by method, and for Spin and Sleep by the duration that the request asks for.

use std::time::Duration;

use prost::Message;
use psp_classifiers::{ChainClassifier, RpcClassifier, SizeClassifier};
use psp_protocols::rpc::RpcHead;
use psp_server::TypeSpec;

use crate::messages::Work;

/// Shortest Spin or Sleep of type `work-long`, in microseconds.
const LONG_US_MIN: usize = 100;

/// See [`classifier`].
pub type PspRpcClassifier = ChainClassifier<RpcClassifier, SizeClassifier<fn(&[u8], &RpcHead) -> usize>>;

/// The types of the server, from the shortest: `short` (Echo), `sum`, `stats`, `gather`, `sort`, `work-short` and
/// `work-long` (Spin and Sleep). Other methods are `UNKNOWN`.
#[must_use]
pub fn classifier() -> PspRpcClassifier {
    let spec = |name, service_us| TypeSpec::new(name).service_time(Duration::from_micros(service_us));
    let by_method = RpcClassifier::new()
        .group(spec("short", 1), ["Echo"])
        .group(spec("sum", 10), ["Sum"])
        .group(spec("stats", 20), ["Stats"])
        .group(spec("gather", 50), ["Gather"])
        .group(spec("sort", 1000), ["Sort"]);
    // Size 0 is below all thresholds, and so UNKNOWN.
    let by_duration = SizeClassifier::measured_by(duration_us as fn(&[u8], &RpcHead) -> usize)
        .at_least(1, spec("work-short", 10))
        .at_least(LONG_US_MIN, spec("work-long", 1000));
    ChainClassifier::new(by_method, by_duration)
}

/// Microseconds that a Spin or Sleep asks for, at least 1; 0 for other requests.
fn duration_us(frame: &[u8], head: &RpcHead) -> usize {
    let work = head
        .request(frame)
        .ok()
        .filter(|request| matches!(request.method, "Spin" | "Sleep"))
        .and_then(|request| Work::decode(request.payload).ok());
    work.map_or(0, |work| usize::try_from(work.duration_us).map_or(usize::MAX, |us| us.max(1)))
}

#[cfg(test)]
mod tests {
    use psp_protocols::Framing;
    use psp_protocols::rpc::{RequestRef, Rpc};
    use psp_server::Classifier;

    use super::*;

    #[test]
    fn method_and_duration_determine_the_type() {
        let classifier = classifier();
        let types = classifier.types();
        for (method, payload, name) in [
            ("Echo", &b"x"[..], "short"),
            ("Sum", b"", "sum"),
            ("Sort", b"", "sort"),
            ("Stats", b"", "stats"),
            ("Gather", b"", "gather"),
            ("Spin", b"", "work-short"),
            ("Spin", b"\x08\x63", "work-short"),
            ("Spin", b"\x08\x64", "work-long"),
            ("Sleep", b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "work-long"),
            ("Sleep", b"\x08", "UNKNOWN"),
            ("Nap", b"\x08\x64", "UNKNOWN"),
        ] {
            let request = RequestRef { id: 1, method, deadline_us: 0, payload };
            let mut frame = Vec::new();
            request.encode_frame(&mut frame);
            let head = Rpc::default().head_of(&frame).expect("a whole frame");
            let slot = types.slot(classifier.classify(&frame, &head));
            assert_eq!(types.name_of_slot(slot), name, "{method} {payload:x?}");
        }
    }
}
