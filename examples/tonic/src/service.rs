//! A plain service of tonic.

use std::hint::black_box;
use std::pin::Pin;
use std::task::{Context, Poll};

use tonic::codegen::tokio_stream::Stream;
use tonic::{Request, Response, Status, Streaming};

/// Generated from `numbers.proto`.
#[allow(missing_docs, unreachable_pub, clippy::all)]
pub(crate) mod api {
    tonic::include_proto!("psp.numbers.v1");
}

use api::Number;

/// The most that is summed.
const BELOW_MAX: u64 = 1_000_000_000;

/// The service.
#[derive(Debug, Default)]
pub(crate) struct Arithmetic;

#[tonic::async_trait]
impl api::numbers_server::Numbers for Arithmetic {
    async fn double(&self, request: Request<Number>) -> Result<Response<Number>, Status> {
        let value = request.into_inner().value.wrapping_mul(2);
        Ok(Response::new(Number { value }))
    }

    async fn sum_below(&self, request: Request<Number>) -> Result<Response<Number>, Status> {
        let below = request.into_inner().value;
        if below > BELOW_MAX {
            return Err(Status::out_of_range("that is too much to sum"));
        }
        let value = (0..below).fold(0_u64, |sum, number| sum.wrapping_add(black_box(number)));
        Ok(Response::new(Number { value }))
    }

    type SumsStream = Sums;

    async fn sums(&self, request: Request<Streaming<Number>>) -> Result<Response<Sums>, Status> {
        let (numbers, sum) = (request.into_inner(), 0);
        Ok(Response::new(Sums { numbers, sum }))
    }
}

/// Sums of a stream on its way.
#[derive(Debug)]
pub(crate) struct Sums {
    numbers: Streaming<Number>,
    sum: u64,
}

impl Stream for Sums {
    type Item = Result<Number, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = Pin::new(&mut self.numbers).poll_next(context);
        next.map_ok(|number| {
            self.sum = self.sum.wrapping_add(number.value);
            Number { value: self.sum }
        })
    }
}
