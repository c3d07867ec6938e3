use psp_policy::conformance::{self, Order, Promise, Promises};

use crate::longest_queue_first::longest_queue_first;

#[test]
fn each_type_is_served_in_order_of_arrival() {
    let promises = Promises { order: Order::ArrivalInType, ..Promises::default() };
    let checked = conformance::check(&longest_queue_first(), &promises);
    assert_eq!(checked, Ok(()));
}

#[test]
fn the_types_together_are_not() {
    let promises = Promises { order: Order::Arrival, ..Promises::default() };
    let broken = conformance::check(&longest_queue_first(), &promises).unwrap_err();
    assert_eq!(broken.promise, Promise::Order);
}
