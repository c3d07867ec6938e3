//! A layer for services of axum, hyper and tonic: short requests stay fast while long ones share the machine.
//!
//! ```text
//!                                          short types       ┌───────────┐
//!   request ── classifier ── type ──┬──────────────────────► │ polled by │ ──► response
//!                                   │                        │ the       │        ▲
//!                                   │ long and unknown types │ caller    │        │
//!                                   │                        └───────────┘        │
//!                                   └──► policy ──► worker of a psp_pool::Pool ───┘
//! ```
//!
//! A request whose handler computes for milliseconds keeps a thread of tokio, and all others of that thread wait. The
//! layer measures what the polls of requests take, by type. Types that are short on average stay where they are, at the
//! cost of four looks at a clock and one at the thread's processor time. All others, and those of which nothing is
//! known yet, are polled by the workers of a [`Pool`](psp_pool::Pool), in the order of a policy of psp.
//!
//! ```
//! use psp_pool::{Pool, RequestType, TypeSpec};
//! use psp_pool::policy::Policy;
//! use psp_tower::PspLayer;
//! use tower::{Service, ServiceBuilder, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let pool = Pool::builder()
//!     .types([TypeSpec::new("page"), TypeSpec::new("report")])
//!     .policy(Policy::drr())
//!     .tokio(tokio::runtime::Handle::current())
//!     .build()?;
//! let layer = PspLayer::new(pool, |request: &http::Request<String>| match request.uri().path() {
//!     "/report" => RequestType::new(1),
//!     _ => RequestType::new(0),
//! });
//! let mut service = ServiceBuilder::new().layer(layer).service(service_fn(
//!     async |request: http::Request<String>| {
//!         Ok::<_, std::convert::Infallible>(http::Response::new(request.into_body()))
//!     },
//! ));
//! let request = http::Request::get("/report").body("hello".to_owned())?;
//! assert_eq!(service.ready().await?.call(request).await?.body().as_str(), "hello");
//! # Ok(())
//! # }
//! ```
//!
//! - **Classifiers:** `ByRoute` for axum (feature `axum`), [`ByGrpcMethod`] for tonic, or any closure
//!   from a request to a [`RequestType`](psp_pool::RequestType). Requests whose cost depends on an argument are best
//!   given several types: the layer [says](TypeSnapshot::advice) which ones need that.
//! - **A full queue** answers at once: 503 with `Retry-After`, or `RESOURCE_EXHAUSTED` to clients of gRPC. Services are
//!   never made to wait by `poll_ready`.
//! - **Deadlines** come from `grpc-timeout` and from [a header](PspLayer::deadline_header). What is late gets 504, or
//!   `DEADLINE_EXCEEDED`.
//! - **A client that goes away** drops the response's future, which cancels the request: one that waits never begins,
//!   one that runs ends where it next waits.
//! - **A panic** goes on in the task that awaits the response, as without the layer.
//! - **Tracing:** the span and the subscriber at the time of the call are those of the request wherever it is polled.
//! - **Task-locals and thread-locals** that are set outside of the layer are there in a pooled request if
//!   [`PspLayer::carry`] takes them along.
//! - **What is lost:** `spawn_local`, `task::id` and tokio's cooperative budget, since a pooled request is polled by no
//!   task of tokio.
//! - **What is not scheduled:** the bodies of responses. The server polls them after the service's future has returned.
//!   So a response that computes as it streams keeps a thread of tokio. The layer [counts](TypeSnapshot::slow_frames)
//!   frames that took long, and the log names their type once: compute such parts in `Pool::spawn`, and stream what
//!   that returns.
//!
//! | file | job |
//! | --- | --- |
//! | `layer.rs` | what a layer is made of |
//! | `service.rs` | a service in a layer |
//! | `response.rs` | the future of a response |
//! | `body.rs` | the body of a response, whose frames are timed |
//! | `carried.rs` | what is around the polls of a pooled request |
//! | `timed.rs` | a request's future, whose polls are timed |
//! | `usage.rs` | how much of a poll's time its thread had a core |
//! | `types.rs` | what a layer knows and counts of each type |
//! | `placement.rs` | where the requests of a type are polled |
//! | `spread.rs` | how far the service times of a type are apart |
//! | `times.rs` | histograms |
//! | `snapshot.rs` | counters |
//! | `publish.rs` | their way to Prometheus and others, with the feature `metrics` |
//! | `classify.rs`, `parts.rs` | the user's half |
//! | `by_route.rs`, `by_grpc_method.rs`, `table.rs` | classifiers |
//! | `deadline.rs`, `refusal.rs` | what clients are told |

mod body;
mod by_grpc_method;
#[cfg(feature = "axum")]
mod by_route;
mod carried;
mod classify;
mod deadline;
mod layer;
mod parts;
mod placement;
#[cfg(feature = "metrics")]
mod publish;
mod refusal;
mod response;
mod service;
mod snapshot;
mod spread;
mod table;
mod timed;
mod times;
mod types;
mod usage;

pub use body::ResponseBody;
pub use by_grpc_method::ByGrpcMethod;
#[cfg(feature = "axum")]
pub use by_route::ByRoute;
pub use classify::Classify;
pub use layer::PspLayer;
pub use parts::{Parts, decade};
pub use placement::Place;
#[cfg(feature = "metrics")]
pub use publish::Publisher;
pub use response::ResponseFuture;
pub use service::PspService;
pub use snapshot::{Snapshot, TypeSnapshot};
pub use spread::Spread;
