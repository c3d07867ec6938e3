//! Sums that are fast, primes that are slow, and naps that wait, on 127.0.0.1:7001.
//!
//! ```sh
//! cargo run --release -p psp-server --example calc
//! printf 'PRIMES 3000000\n' | nc 127.0.0.1 7001 & printf 'ADD 1 2\n' | nc 127.0.0.1 7001
//! ```

use std::error::Error;
use std::time::Duration;

use psp_server::protocols::{Lines, Sink};
use psp_server::{Policy, Reply, Request, RequestType, Server, TypeSpec, checkpoint, sleep};

fn main() -> Result<(), Box<dyn Error>> {
    serve("127.0.0.1:7001")
}

pub(crate) fn serve(address: &str) -> Result<(), Box<dyn Error>> {
    let types = ["add", "primes", "nap"];
    let server = Server::builder()
        .tcp(address)
        .framing(Lines::default())
        .types(types.map(TypeSpec::new))
        .classifier(|line: &[u8]| match line.first() {
            Some(b'A') => RequestType::new(0),
            Some(b'P') => RequestType::new(1),
            Some(b'N') => RequestType::new(2),
            _ => RequestType::UNKNOWN,
        })
        .policy(Policy::darc()) // keeps a worker for the fast ones, by what it measures
        .handler(|request: Request<'_, ()>, reply: &mut Reply<'_>| {
            let line = String::from_utf8_lossy(request.payload);
            let answer = answer(&line).unwrap_or_else(|| "ERROR one of: ADD A B, PRIMES N, NAP MS".to_owned());
            reply.put(format!("{answer}\n").as_bytes());
        })
        .build()?;
    server.run()?;
    Ok(())
}

fn answer(line: &str) -> Option<String> {
    let mut words = line.split_ascii_whitespace();
    let command = words.next()?;
    let mut numbers = words.map_while(|word| word.parse::<u64>().ok());
    let first = numbers.next()?;
    Some(match command {
        "ADD" => first.wrapping_add(numbers.next()?).to_string(),
        "PRIMES" => primes_below(first).to_string(),
        "NAP" => {
            sleep(Duration::from_millis(first)); // other requests have the worker meanwhile
            "AWAKE".to_owned()
        }
        _ => return None,
    })
}

fn primes_below(limit: u64) -> usize {
    let is_prime = |number: &u64| {
        checkpoint(); // a policy that shares time may take the worker here
        (2..)
            .take_while(|divisor| divisor * divisor <= *number)
            .all(|divisor| !number.is_multiple_of(divisor))
    };
    (2..limit).filter(is_prime).count()
}
