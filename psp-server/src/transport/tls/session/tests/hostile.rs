//! Peers that break the protocol: random bytes, and a real client's records that were changed on their way.
//!
//! `PROPTEST_CASES=100000 cargo test -p psp-server --features tls hostile` runs for longer than a test may.

use std::sync::LazyLock;

use proptest::sample::Index;

use super::*;

/// A session may hold this for its peer: parts of records, and a flight of its own.
const HELD_BYTES_MAX: usize = SESSION_LEN + 64 * 1024;
/// More flights than any handshake has.
const FLIGHTS_MAX: usize = 6;

static FILES: LazyLock<Certificates> = LazyLock::new(Certificates::new);

/// What a client sends after its handshake: several records.
static PLAINTEXT: LazyLock<Vec<u8>> = LazyLock::new(|| (0..40_000_u32).map(|number| (number % 251) as u8).collect());

/// What happens to a record.
#[derive(Debug, Clone)]
enum Change {
    Drop,
    Repeat,
    /// It changes places with another.
    Swap(Index),
    Flip {
        at: Index,
        bits: u8,
    },
    Cut(Index),
    /// Its header names another type.
    Type(u8),
    /// Its header names another length.
    Len(u16),
    /// Other bytes come before it.
    Insert(Vec<u8>),
}

fn change() -> impl Strategy<Value = (Index, Change)> {
    let index = any::<Index>();
    let record_type = prop_oneof![20..25_u8, any::<u8>()];
    let change = prop_oneof![
        Just(Change::Drop),
        Just(Change::Repeat),
        index.clone().prop_map(Change::Swap),
        (index.clone(), 1..=u8::MAX).prop_map(|(at, bits)| Change::Flip { at, bits }),
        index.clone().prop_map(Change::Cut),
        record_type.prop_map(Change::Type),
        prop_oneof![0..40_u16, any::<u16>()].prop_map(Change::Len),
        bytes().prop_map(Change::Insert),
    ];
    (index, change)
}

/// Random bytes, some of which begin as a record does.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let random = prop::collection::vec(any::<u8>(), 0..600);
    let header = (20..25_u8, 0..5_u8, prop_oneof![0..64_u16, any::<u16>()]);
    let record = (header, random.clone()).prop_map(|((record_type, minor, len), rest)| {
        let [high, low] = len.to_be_bytes();
        [vec![record_type, 3, minor, high, low], rest].concat()
    });
    prop_oneof![random, record]
}

/// How many bytes a socket gives at a time.
fn step() -> impl Strategy<Value = usize> {
    prop_oneof![Just(1), 2..100_usize, Just(4096), Just(usize::MAX)]
}

/// The records of a flight, each with its header.
fn records(mut flight: &[u8]) -> Vec<Vec<u8>> {
    let mut records = Vec::new();
    while let [_, _, _, high, low, ..] = *flight {
        let len = 5 + usize::from(u16::from_be_bytes([high, low]));
        let (record, rest) = flight.split_at(len.min(flight.len()));
        records.push(record.to_vec());
        flight = rest;
    }
    records
}

fn apply(records: &mut Vec<Vec<u8>>, place: Index, change: &Change) {
    if records.is_empty() {
        return;
    }
    let place = place.index(records.len());
    let record = &mut records[place];
    match change {
        Change::Drop => drop(records.remove(place)),
        Change::Repeat => records.insert(place, records[place].clone()),
        Change::Swap(with) => {
            let with = with.index(records.len());
            records.swap(place, with);
        }
        Change::Flip { at, bits } if !record.is_empty() => {
            let at = at.index(record.len());
            record[at] ^= bits;
        }
        Change::Cut(at) if !record.is_empty() => record.truncate(at.index(record.len())),
        Change::Type(record_type) if !record.is_empty() => record[0] = *record_type,
        Change::Len(len) if record.len() >= 5 => record[3..5].copy_from_slice(&len.to_be_bytes()),
        Change::Insert(bytes) => records.insert(place, bytes.clone()),
        Change::Flip { .. } | Change::Cut(_) | Change::Type(_) | Change::Len(_) => {}
    }
}

/// Gives bytes to a client. Returns whether the client goes on.
fn offer(client: &mut ClientConnection, mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        let read = client.read_tls(&mut bytes);
        if !matches!(read, Ok(1..)) || client.process_new_packets().is_err() {
            return false;
        }
    }
    true
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_open_no_session(pieces in prop::collection::vec(bytes(), 1..8), step in step()) {
        let mut server = Server::new(&config_of(&FILES));
        for piece in &pieces {
            let outcome = server.receive(piece, step);
            prop_assert!(!server.is_open() && server.input.data().is_empty());
            prop_assert!(server.session.held_bytes() <= HELD_BYTES_MAX);
            server.sent();
            if outcome != Outcome::Fine {
                prop_assert_eq!(outcome, Outcome::Broken);
                break;
            }
        }
    }

    /// Whatever happens to a client's records, the server reads nothing but what the client wrote, from its start on.
    #[test]
    fn changed_records_change_no_plaintext(
        is_tls_12 in any::<bool>(),
        changed in 0..FLIGHTS_MAX,
        changes in prop::collection::vec(change(), 1..4),
        step in step(),
    ) {
        let version = if is_tls_12 { &TLS12 } else { &TLS13 };
        let (mut client, mut server) = (client_of(&FILES, version), Server::new(&config_of(&FILES)));
        client.writer().write_all(&PLAINTEXT).unwrap();
        let mut is_changed = false;
        for flight in 0..FLIGHTS_MAX {
            let mut sent = records(&sent_by(&mut client));
            if flight == changed {
                let before = sent.clone();
                for (place, change) in &changes {
                    apply(&mut sent, *place, change);
                }
                is_changed = before != sent;
            }
            let outcome = server.receive(&sent.concat(), step);
            let read = server.input.data();
            prop_assert!(PLAINTEXT.starts_with(read), "{} bytes", read.len());
            prop_assert!(server.session.held_bytes() <= HELD_BYTES_MAX);
            let answer = server.sent();
            let goes_on = offer(&mut client, &answer);
            if outcome != Outcome::Fine || !goes_on {
                prop_assert!(is_changed, "{:?}", outcome);
                return Ok(());
            }
        }
        prop_assert!(is_changed || server.input.data() == *PLAINTEXT);
    }
}
