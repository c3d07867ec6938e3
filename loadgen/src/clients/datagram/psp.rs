//! The psp header: requests ask for a service time and perhaps a wait, replies are one datagram.

use super::exchange::{Ending, Exchange};
use crate::clients::services::{Service, Services};
use psp_protocols::psp_header::{HEADER_LEN, Header, Kind, encode_wait};

/// Bytes of an error's text that are kept as its kind.
const ERROR_KIND_LEN: usize = 32;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct PspExchange {
    types: Vec<PspType>,
}

/// The requests of one type.
#[derive(Debug)]
pub(crate) struct PspType {
    /// Its number in the header.
    pub(crate) request_type: u16,
    pub(crate) services: Services,
}

impl PspExchange {
    pub(crate) const fn new(types: Vec<PspType>) -> Self {
        Self { types }
    }
}

impl Exchange for PspExchange {
    /// The service time of the request and its wait together, in nanoseconds.
    type Pending = u32;
    type Header = Header;

    const NAMED: u32 = u32::MAX;

    fn write(
        &mut self,
        type_index: usize,
        _command: u32,
        id: u32,
        intended_ns: u64,
        out: &mut Vec<u8>,
    ) -> Result<u32, &'static str> {
        let ty = &mut self.types[type_index];
        let Service { run_time_ns, wait_ns } = ty.services.draw(intended_ns);
        let wait = encode_wait(wait_ns);
        let payload: &[u8] = if wait_ns > 0 { &wait } else { &[] };
        let header = Header {
            kind: Kind::Request,
            request_type: ty.request_type,
            id,
            payload_len: u32::try_from(payload.len()).expect("it is short"),
            run_time_ns,
        };
        out.extend_from_slice(&header.encode());
        out.extend_from_slice(payload);
        Ok(run_time_ns.saturating_add(wait_ns))
    }

    fn open(datagram: &[u8]) -> Option<(u32, Header, &[u8])> {
        let header = Header::decode(datagram).ok()?;
        Some((header.id, header, &datagram[HEADER_LEN..]))
    }

    fn take<'a>(&'a mut self, service_ns: &'a mut u32, header: Header, payload: &'a [u8]) -> Option<Ending<'a>> {
        Some(match header.kind {
            Kind::Error => {
                let text = &payload[..payload.len().min(ERROR_KIND_LEN)];
                let kind = str::from_utf8(text).ok().filter(|text| !text.is_empty());
                Ending::Failed(kind.unwrap_or("ERR"))
            }
            Kind::Reply | Kind::Request => Ending::Served { service_ns: *service_ns },
        })
    }
}
