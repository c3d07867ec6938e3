//! The server's structs have the same encoding as the structs that are generated from the `.proto` files.

use std::fmt::Debug;

use proptest::prelude::*;
use prost::Message;
use psp_protocols::rpc::{Request, RequestRef, Response};
use psp_rpc::messages;
use psp_rpc_client::{envelope, methods};

/// Checks that two messages with the same content have the same encoding.
fn same<A, B>(ours: &A, generated: &B) -> Result<(), TestCaseError>
where
    A: Message + Default + PartialEq + Debug,
    B: Message + Default + PartialEq + Debug,
{
    let bytes = ours.encode_to_vec();
    prop_assert_eq!(&bytes, &generated.encode_to_vec());
    prop_assert_eq!(&A::decode(&bytes[..]).unwrap(), ours);
    prop_assert_eq!(&B::decode(&bytes[..]).unwrap(), generated);
    Ok(())
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..200)
}

proptest! {
    #[test]
    fn requests(id: u64, method in "\\PC{0,20}", deadline_us: u64, payload in bytes()) {
        let generated = envelope::Request {
            id, method: method.clone(), deadline_us, payload: payload.clone(),
        };
        let frame = generated.encode_length_delimited_to_vec();
        let lying = RequestRef { id, method: &method, deadline_us, payload: &payload };
        prop_assert_eq!(RequestRef::from_frame(&frame), Ok(lying));
        let mut ours = Vec::new();
        lying.encode_frame(&mut ours);
        prop_assert_eq!(&ours, &frame);
        let ours = Request::from_frame(&frame).unwrap();
        same(&ours, &generated)?;
    }

    #[test]
    fn responses(id: u64, status in -1..20, error in "\\PC{0,20}", payload in bytes()) {
        let ours = Response {
            id, status, error: error.clone(), payload: payload.clone().into(),
        };
        let generated = envelope::Response { id, status, error, payload };
        let mut frame = Vec::new();
        ours.encode_frame(&mut frame);
        prop_assert_eq!(&frame, &generated.encode_length_delimited_to_vec());
        prop_assert_eq!(Response::from_frame(&frame), Ok(ours.clone()));
        same(&ours, &generated)?;
    }

    #[test]
    fn payloads(number: u64, values: Vec<i64>, value: i64, name in "\\PC{0,20}", counts: [u64; 12]) {
        let [arrivals, completions, rejections, service_ns_mean, service_ns_max, turns, preemptions,
            abandoned, expired, blocked, waits, wait_ns_total] = counts;
        same(&messages::Work { duration_us: number }, &methods::Work { duration_us: number })?;
        same(&messages::Numbers { values: values.clone() }, &methods::Numbers { values })?;
        same(&messages::Total { value }, &methods::Total { value })?;
        same(
            &messages::Question {
                method: name.clone(), payload: name.clone().into(), timeout_us: number,
                answers_min: number as u32,
            },
            &methods::Question {
                method: name.clone(), payload: name.clone().into(), timeout_us: number,
                answers_min: number as u32,
            },
        )?;
        let ours = messages::Answer {
            upstream: name.clone(), status: value as i32, error: name.clone(), payload: name.clone().into(),
        };
        let generated = methods::Answer {
            upstream: name.clone(), status: value as i32, error: name.clone(), payload: name.clone().into(),
        };
        same(
            &messages::Answers { answers: vec![ours; 3] },
            &methods::Answers { answers: vec![generated; 3] },
        )?;
        let ours = messages::TypeStats {
            name: name.clone(), arrivals, completions, rejections, service_ns_mean, service_ns_max,
            turns, preemptions, abandoned, expired, blocked, waits, wait_ns_total,
        };
        let generated = methods::TypeStats {
            name: name.clone(), arrivals, completions, rejections, service_ns_mean, service_ns_max,
            turns, preemptions, abandoned, expired, blocked, waits, wait_ns_total,
        };
        same(
            &messages::ServerStats {
                policy: name.clone(), types: vec![ours; 2], reflected_datagrams: number,
                over_budget_datagrams: arrivals,
            },
            &methods::ServerStats {
                policy: name, types: vec![generated; 2], reflected_datagrams: number,
                over_budget_datagrams: arrivals,
            },
        )?;
    }
}
