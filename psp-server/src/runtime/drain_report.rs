//! How a server ended.

/// How a server ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct DrainReport {
    /// Connections and datagrams that were given up because the drain timeout was over: connections with requests
    /// that waited or ran, or with unsent output, each counted once, and datagrams whose request waited or ran.
    pub abandoned: usize,
}
