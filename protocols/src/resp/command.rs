//! The client's side of a request.

use crate::sink::Sink;

use super::encoder::{Encoder, Version};

/// Appends one request: an array of bulk strings, the name of the command first.
pub fn encode_command<S: Sink + ?Sized>(args: &[&[u8]], out: &mut S) {
    let mut encoder = Encoder::new(out, Version::Resp2);
    encoder.array(args.len());
    for arg in args {
        encoder.bulk(arg);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_an_array_of_bulks() {
        let mut out = Vec::new();
        encode_command(&[b"GET", b"k\r\n"], &mut out);
        assert_eq!(out, b"*2\r\n$3\r\nGET\r\n$3\r\nk\r\n\r\n");
    }
}
