//! Dispatches calls to methods by name.

use std::num::NonZeroU64;

use prost::Message;
use psp_protocols::rpc::Failure;
use psp_rpc_service::{Call, Service};
use psp_server::WorkerId;

use crate::messages::Numbers;
use crate::methods::{gather, numbers, stats, work};
use crate::upstreams::Upstreams;

/// Most numbers whose memory a context of a worker keeps for the next request.
const NUMBERS_KEPT_MAX: usize = 8 << 10;

/// The methods of psp-rpc.
#[derive(Debug, Default)]
pub struct RpcService {
    /// The servers that Gather asks.
    pub upstreams: Upstreams,
}

/// Memory that successive requests reuse.
#[derive(Debug, Default)]
pub struct Scratch {
    /// The numbers of a request.
    pub numbers: Numbers,
    /// The numbers that Sort has merged.
    pub merged: Vec<i64>,
}

/// The environment of a method.
#[derive(Debug)]
pub struct Context<'a> {
    /// Memory that successive requests reuse.
    pub scratch: &'a mut Scratch,
    /// The response's message is appended here.
    pub payload: &'a mut Vec<u8>,
    /// The servers that Gather asks.
    pub upstreams: &'a Upstreams,
}

impl Context<'_> {
    /// Appends the response's message.
    pub fn respond(&mut self, message: &impl Message) {
        message.encode(self.payload).expect("a Vec has room");
    }
}

type Method = fn(&mut Context<'_>, &Call<'_>) -> Result<(), Failure>;

const METHODS: [(&str, Method); 7] = [
    ("Echo", work::echo),
    ("Spin", work::spin),
    ("Sleep", work::sleep),
    ("Sum", numbers::sum),
    ("Sort", numbers::sort),
    ("Stats", stats::stats),
    (gather::GATHER, gather::gather),
];

impl Service for RpcService {
    type Worker = Scratch;

    fn init_worker(&self, worker: WorkerId) -> Scratch {
        // The kernel may otherwise extend each Sleep by 50 us.
        if let Err(error) = rustix::thread::set_current_timer_slack(NonZeroU64::new(1)) {
            tracing::warn!(worker = worker.0, %error, "sleeps of this worker are imprecise");
        }
        Scratch::default()
    }

    fn call(&self, scratch: &mut Scratch, call: &Call<'_>, payload: &mut Vec<u8>) -> Result<(), Failure> {
        let (_, method) = METHODS
            .iter()
            .find(|(name, _)| *name == call.method)
            .ok_or_else(|| Failure::unknown_method(call.method))?;
        let mut context = Context { scratch, payload, upstreams: &self.upstreams };
        let done = method(&mut context, call);
        scratch.numbers.clear();
        scratch.numbers.values.shrink_to(NUMBERS_KEPT_MAX);
        scratch.merged.clear();
        scratch.merged.shrink_to(NUMBERS_KEPT_MAX);
        done
    }
}
