//! Short requests beside a long one.

use super::{Connection, Reply};

/// Short requests that the server must answer while a long one runs. It answers none if the long one holds its net
/// thread, and thousands otherwise.
const ANSWERS_MIN: usize = 5;
/// The long request may be over before this test's thread gets a core.
const ATTEMPTS: usize = 20;

/// Whether the witness has replies to what `short` asks before the other client has that to its long request, which
/// `prepare` returns, at one of the numbered attempts. `check` gets the replies to the long requests.
pub(crate) fn goes_on_beside(
    [witness, long]: [&mut Connection; 2],
    prepare: impl Fn(usize, &mut Connection, &mut Connection) -> Vec<u8>,
    short: impl Fn(&mut Connection),
    check: impl Fn(usize, Reply),
) -> bool {
    (1..=ATTEMPTS).any(|attempt| {
        let request = prepare(attempt, witness, long);
        long.send(request);
        let mut answered = 0;
        while answered < ANSWERS_MIN && !long.has_received() {
            short(witness);
            answered += 1;
        }
        check(attempt, long.reply());
        answered == ANSWERS_MIN
    })
}

/// A short request, for a server on which `k` is `v`.
pub(crate) fn get(witness: &mut Connection) {
    assert_eq!(witness.ask("GET k"), "\"v\"");
}
