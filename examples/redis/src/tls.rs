//! TLS as in redis-server.

use psp_program::AuthClients;

/// Whether clients need certificates if nothing says so, as in Redis.
pub(crate) const AUTH_CLIENTS: AuthClients = AuthClients::Yes;
