//! One connection of a server that does what a test tells it.

use std::io::{Read, Result, Write};

use psp_protocols::{Framing, Step};

/// What becomes of one request.
pub(crate) enum Answer {
    /// These bytes are sent.
    Reply(&'static [u8]),
    /// Nothing is sent.
    Silence,
    /// The connection is closed.
    Close,
}

/// Asks `script` for the answer to each frame, until the peer closes the connection or the script
/// does.
pub(crate) fn serve(
    mut socket: impl Read + Write,
    framing: &impl Framing,
    script: &dyn Fn(&[u8]) -> Answer,
) -> Result<()> {
    let mut input = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let mut cursor = Default::default();
        while let Ok(Step::Frame { len }) = framing.next_frame(&mut cursor, &input) {
            match script(&input[..len]) {
                Answer::Reply(bytes) => socket.write_all(bytes)?,
                Answer::Silence => {}
                Answer::Close => return Ok(()),
            }
            input.drain(..len);
        }
        let count = socket.read(&mut buffer)?;
        if count == 0 {
            return Ok(());
        }
        input.extend_from_slice(&buffer[..count]);
    }
}
