//! Types that the client names in the psp header.

use psp_protocols::psp_header::Header;
use psp_server::{Classifier, RequestType, TypeTable};

/// Takes the type from the header of a [psp message](psp_protocols::psp_header). The number in the header
/// is the index in the table. Numbers beyond the table and malformed headers are `UNKNOWN`.
#[derive(Debug, Clone)]
pub struct PspHeaderClassifier {
    types: TypeTable,
}

impl PspHeaderClassifier {
    /// A classifier for `types`, which clients number from 0 in the order of the table.
    #[must_use]
    pub fn new(types: TypeTable) -> Self {
        Self { types }
    }
}

impl Classifier for PspHeaderClassifier {
    #[inline]
    fn classify(&self, request: &[u8], (): &()) -> RequestType {
        match Header::decode(request) {
            Ok(header) if usize::from(header.request_type) < self.types.len() => {
                RequestType::new(header.request_type.into())
            }
            _ => RequestType::UNKNOWN,
        }
    }

    fn types(&self) -> TypeTable {
        self.types.clone()
    }
}

#[cfg(test)]
mod tests {
    use psp_protocols::psp_header::Kind;
    use psp_server::TypeSpec;

    use super::*;

    fn classifier() -> PspHeaderClassifier {
        let types = ["short", "long"].map(TypeSpec::new);
        PspHeaderClassifier::new(types.into_iter().collect())
    }

    fn classified(request_type: u16) -> RequestType {
        let header = Header {
            kind: Kind::Request,
            request_type,
            id: 7,
            payload_len: 0,
            run_time_ns: 0,
        };
        classifier().classify(&header.encode(), &())
    }

    #[test]
    fn the_number_in_the_header_is_the_index() {
        assert_eq!(classified(0), RequestType::new(0));
        assert_eq!(classified(1), RequestType::new(1));
        assert_eq!(classified(2), RequestType::UNKNOWN);
        assert_eq!(classified(u16::MAX), RequestType::UNKNOWN);
        let types = classifier().types();
        assert_eq!([0, 1].map(|slot| types.name_of_slot(slot)), ["short", "long"]);
        assert_eq!(types.len(), 2);
    }

    #[test]
    fn malformed_headers_are_unknown() {
        assert_eq!(classifier().classify(b"", &()), RequestType::UNKNOWN);
        assert_eq!(classifier().classify(&[0; 16], &()), RequestType::UNKNOWN);
    }
}
