//! The methods of the service: from the payload of a request to the payload of its response.

use std::mem;
use std::ops::ControlFlow;
use std::sync::Arc;

use crc32fast::Hasher;
use prost::Message;
use psp_protocols::kv::{self, DeleteRequest, GetRequest, PutRequest, ScanRequest, ScanResponse};
use psp_protocols::rpc::{Failure, Status};
use psp_rpc_service::{Call, Service};
use psp_server::{WorkerId, blocking};

use crate::engine::{Engine, EngineError};
use crate::limits::Limits;

/// Entries of a scan between two checkpoints: some microseconds of work.
const ENTRIES_PER_CHECKPOINT: u32 = 32;

/// A key-value store as an RPC service.
pub struct KeyValue {
    engine: Arc<dyn Engine>,
    limits: Limits,
}

/// The decoded requests of one context, kept to reuse their memory.
#[derive(Debug, Default)]
pub struct Requests {
    get: GetRequest,
    scan: ScanRequest,
    put: PutRequest,
    delete: DeleteRequest,
}

impl KeyValue {
    /// Serves the entries of `engine` within `limits`.
    #[must_use]
    pub fn new(engine: Arc<dyn Engine>, limits: Limits) -> Self {
        Self { engine, limits }
    }

    fn get(&self, request: &GetRequest, payload: &mut Vec<u8>) -> Result<(), Failure> {
        self.limits.check_key(&request.key)?;
        let found = &mut |value: &[u8]| kv::put_value(value, payload);
        match self.engine.get(&request.key, found) {
            Ok(true) => Ok(()),
            Ok(false) => Err(Failure::new(Status::NotFound, "no such key")),
            Err(error) => Err(internal(error)),
        }
    }

    fn scan(&self, request: &ScanRequest, call: &Call<'_>, payload: &mut Vec<u8>) -> Result<(), Failure> {
        self.limits.check_start(&request.start)?;
        self.limits.check_count(request.count)?;
        let mut count = 0;
        let mut checksum = Hasher::new();
        let mut truncated = false;
        let mut given_up = None;
        let visit = &mut |key: &[u8], value: &[u8]| {
            if !request.summary {
                let len = payload.len().saturating_add(kv::pair_len(key, value));
                if count > 0 && len > self.limits.scan_bytes_max {
                    truncated = true;
                    return ControlFlow::Break(());
                }
                kv::put_pair(key, value, payload);
            }
            checksum.update(key);
            checksum.update(value);
            count += 1;
            if count == request.count {
                return ControlFlow::Break(());
            }
            if count % ENTRIES_PER_CHECKPOINT == 0
                && let Err(failure) = call.checkpoint()
            {
                given_up = Some(failure);
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        };
        let scanned = self.engine.scan(&request.start, visit);
        if let Some(failure) = given_up {
            return Err(failure);
        }
        scanned.map_err(internal)?;
        let end = ScanResponse {
            count,
            checksum: checksum.finalize(),
            truncated,
            pairs: Vec::new(),
        };
        end.encode(payload).expect("a vector has room");
        Ok(())
    }

    fn put(&self, request: &mut PutRequest) -> Result<(), Failure> {
        self.limits.check_key(&request.key)?;
        self.limits.check_value(&request.value)?;
        self.write(request, |engine, request| engine.put(&request.key, &request.value))
    }

    fn delete(&self, request: &mut DeleteRequest) -> Result<(), Failure> {
        self.limits.check_key(&request.key)?;
        self.write(request, |engine, request| engine.delete(&request.key))
    }

    /// Calls `write`. If the engine waits for the medium, other requests have the worker meanwhile, and the call takes
    /// the request's memory with it.
    fn write<R: Default + Send + 'static>(
        &self,
        request: &mut R,
        write: fn(&dyn Engine, &R) -> Result<(), EngineError>,
    ) -> Result<(), Failure> {
        let written = if self.engine.waits_for_medium() {
            let (engine, request) = (self.engine.clone(), mem::take(request));
            blocking(move || write(&*engine, &request))
        } else {
            write(&*self.engine, request)
        };
        written.map_err(internal)
    }
}

impl Service for KeyValue {
    type Worker = Requests;

    fn init_worker(&self, _worker: WorkerId) -> Requests {
        Requests::default()
    }

    fn call(&self, requests: &mut Requests, call: &Call<'_>, payload: &mut Vec<u8>) -> Result<(), Failure> {
        match call.method {
            kv::GET => self.get(decoded(&mut requests.get, call)?, payload),
            kv::SCAN => self.scan(decoded(&mut requests.scan, call)?, call, payload),
            kv::PUT => self.put(decoded(&mut requests.put, call)?),
            kv::DELETE => self.delete(decoded(&mut requests.delete, call)?),
            method => Err(Failure::unknown_method(method)),
        }
    }
}

/// Decodes the payload of `call` into `message`, reusing its memory.
fn decoded<'a, M: Message>(message: &'a mut M, call: &Call<'_>) -> Result<&'a mut M, Failure> {
    message.clear();
    match message.merge(call.payload) {
        Ok(()) => Ok(message),
        Err(error) => Err(Failure::invalid(format!("invalid payload: {error}"))),
    }
}

fn internal(error: EngineError) -> Failure {
    Failure::new(Status::Internal, error.to_string())
}
