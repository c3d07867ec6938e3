//! Servers: their builder, their life, and the handle that handlers get.

use std::sync::Arc;

/// A handle to a running server, for handlers and operators. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ServerHandle {
    _shared: Arc<()>,
}
