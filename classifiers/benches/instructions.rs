//! Instructions of one classification by a header in a fixed place, as Valgrind counts them. The figures
//! are the same on any machine, busy or not. They leave out the effects of caches.
//!
//! ```sh
//! cargo bench -p psp-classifiers --features instructions --bench instructions
//! ```
//!
//! This needs Valgrind, and `gungraun-runner` in the version of the crate; CONTRIBUTING.md says how to get
//! it. Each function classifies once and 101 times: the difference is the cost of 100 classifications.

// The benchmark's macros make public items.
#![allow(missing_docs)]

mod requests;

use std::hint::black_box;

use gungraun::{library_benchmark, library_benchmark_group, main};
use psp_classifiers::{MemcachedClassifier, PspHeaderClassifier, RpcClassifier};
use psp_protocols::Framing;
use psp_protocols::memcached::MemcachedFraming;
use psp_protocols::psp_header::PspFraming;
use psp_protocols::rpc::Rpc;
use psp_server::Classifier;

/// Returns the classifier, so that the caller drops it, which is not counted.
fn classify<F: Framing, C: Classifier<F::Head>>(
    framing: &F,
    (classifier, frame): (C, Vec<u8>),
    times: u32,
) -> (C, Vec<u8>) {
    let head = framing.head_of(&frame).expect("a whole frame");
    for _ in 0..times {
        black_box(classifier.classify(black_box(&frame), black_box(&head)));
    }
    (classifier, frame)
}

#[library_benchmark]
#[bench::once(requests::psp_header(), 1)]
#[bench::and_100_times(requests::psp_header(), 101)]
fn psp_header(request: (PspHeaderClassifier, Vec<u8>), times: u32) -> (PspHeaderClassifier, Vec<u8>) {
    classify(&PspFraming::default(), request, times)
}

#[library_benchmark]
#[bench::once(requests::memcached_binary(), 1)]
#[bench::and_100_times(requests::memcached_binary(), 101)]
fn memcached_binary(request: (MemcachedClassifier, Vec<u8>), times: u32) -> (MemcachedClassifier, Vec<u8>) {
    classify(&MemcachedFraming::default(), request, times)
}

#[library_benchmark]
#[bench::once(requests::rpc("Get", 16), 1)]
#[bench::and_100_times(requests::rpc("Get", 16), 101)]
fn rpc(request: (RpcClassifier, Vec<u8>), times: u32) -> (RpcClassifier, Vec<u8>) {
    classify(&Rpc::default(), request, times)
}

library_benchmark_group!(name = fixed_headers, benchmarks = [psp_header, memcached_binary, rpc]);
main!(library_benchmark_groups = [fixed_headers]);
