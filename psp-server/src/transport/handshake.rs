//! What a connection in its TLS handshake does next.

/// What the handshake of a connection needs.
#[cfg_attr(not(feature = "tls"), expect(dead_code, reason = "only TLS has handshakes"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HandshakeStage {
    /// More bytes are needed.
    Receive,
    /// A worker has to take a step.
    Step,
    /// The net worker lets requests in.
    Open,
    /// The connection closes once its alert is sent.
    Fail,
}
