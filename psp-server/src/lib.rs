//! Request/response servers whose short requests stay fast while long ones share the machine.

pub mod classifier;
pub mod handler;
pub mod policy;
pub mod reply;
pub mod request_type;
pub mod server;

pub use classifier::Classifier;
pub use handler::{Handler, Request};
pub use policy::{Policy, WorkerId};
pub use reply::Reply;
pub use request_type::{RequestType, TypeSpec, TypeTable};
pub use server::ServerHandle;

pub use psp_protocols as protocols;
