//! OpenTelemetry's context: what a middleware outside the layer attaches is there wherever a request is polled.

use std::convert::Infallible;
use std::time::Duration;

use http::{Request, Response};
use opentelemetry::Context;
use psp_pool::{Pool, RequestType, TypeSpec};
use psp_tower::PspLayer;
use tokio::runtime::Handle;
use tower::{Layer, ServiceExt, service_fn};

/// A value of the context, as baggage and the current span are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Caller(u32);

fn caller() -> Option<Caller> {
    Context::current().get::<Caller>().copied()
}

#[tokio::test]
async fn its_context_is_there_in_the_pool_and_inline() {
    const REQUESTS: u32 = 20;
    let pool = { Pool::builder() }
        .types([TypeSpec::new("page")])
        .workers(1)
        .tokio(Handle::current())
        .build()
        .unwrap();
    let layer = PspLayer::new(pool, |_: &Request<String>| RequestType::new(0))
        // Long enough that the type is polled inline once it is known, even where the machine stands still.
        .inline_below(Duration::from_secs(20))
        .long_poll(Duration::from_secs(20))
        .carry(|| {
            let context = Context::current();
            move |poll: &mut dyn FnMut()| {
                let _attached = context.clone().attach();
                poll();
            }
        });
    let says_callers = service_fn(async |_: Request<String>| {
        let first = caller();
        tokio::task::yield_now().await;
        Ok::<_, Infallible>(Response::new(format!("{:?}", [first, caller()])))
    });
    let service = layer.layer(says_callers);
    for number in 0..REQUESTS {
        let attached = Context::current().with_value(Caller(number)).attach();
        // The layer takes the context along where the request arrives.
        let answer = service.clone().oneshot(Request::new(String::new()));
        let answer = answer.await.unwrap();
        drop(attached);
        let here = Some(Caller(number));
        assert_eq!(**answer.body(), format!("{:?}", [here, here]));
        assert_eq!(caller(), None);
    }
    let page = &layer.snapshot().types[0];
    assert!(page.pooled > 0 && page.inline > 0, "{page:?}");
}
