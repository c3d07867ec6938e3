//! Where values are written: payloads, and files.

use super::{BYTES_PER_VISIT, put_len};

/// What takes the parts of values.
pub(crate) trait Out {
    /// Appends these bytes.
    fn put(&mut self, bytes: &[u8]);

    /// Appends a string in the form of its choice. Calls `visit` for each part of the work.
    fn put_text(&mut self, bytes: &[u8], visit: &dyn Fn());
}

/// A payload, whose strings are plain.
impl Out for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }

    fn put_text(&mut self, bytes: &[u8], visit: &dyn Fn()) {
        put_len(bytes.len(), self);
        self.reserve(bytes.len());
        visit();
        for chunk in bytes.chunks(BYTES_PER_VISIT) {
            visit();
            self.extend_from_slice(chunk);
        }
    }
}
