//! One connection of a scripted server.

use std::io::{Read, Result, Write};

use psp_protocols::{Framing, Step};

/// The server's reaction to one request.
pub(crate) enum Answer {
    /// Sends these bytes.
    Reply(&'static [u8]),
    /// Sends these bytes and closes the connection.
    Last(&'static [u8]),
    /// Sends nothing.
    Silence,
    /// Closes the connection.
    Close,
}

/// Asks `script` for the reply to each frame until the peer or the script closes the connection.
pub(crate) fn serve(
    mut socket: impl Read + Write,
    framing: &impl Framing,
    script: &dyn Fn(&[u8]) -> Answer,
) -> Result<()> {
    let mut input = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let mut cursor = Default::default();
        while let Ok(Step::Frame { len, .. }) = framing.next_frame(&mut cursor, &input) {
            match script(&input[..len]) {
                Answer::Reply(bytes) => socket.write_all(bytes)?,
                Answer::Last(bytes) => return socket.write_all(bytes),
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
