//! HyperLogLogs and places: replies that depend on every bit of the arithmetic.

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

use super::ask;
use crate::common::{Options, Server};

#[test]
#[ignore = "needs redis-server; run by .ci/run"]
fn hyperloglogs_are_those_of_redis_server() {
    let servers = [Server::start(), Server::redis_server(&Options::default())];
    let mut clients = [0, 1].map(|index: usize| servers[index].connect());
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(7);
    let mut same = |words: &[String]| {
        let [ours, redis] = clients.each_mut().map(|client| ask(client, words));
        assert_eq!(ours, redis, "{:.60}", words.join(" "));
    };
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    // From a few members in the sparse form to many in the dense one.
    for step in 0..400 {
        let key = ["p", "q"][step % 2];
        let members = (0..step + 1).map(|_| rng.random_range(0..1_000_000_u32).to_string());
        let added = words(&format!("PFADD {key}")).into_iter();
        same(&added.chain(members).collect::<Vec<_>>());
        for line in [format!("GET {key}"), format!("PFCOUNT {key}"), format!("GET {key}")] {
            same(&words(&line));
        }
        if step % 20 == 0 {
            for line in ["PFCOUNT p q", "PFMERGE r p", "GET r", "PFMERGE s p q", "GET s", "PFCOUNT s"] {
                same(&words(line));
            }
        }
    }
}

#[test]
#[ignore = "needs redis-server; run by .ci/run"]
fn searches_of_places_find_those_of_redis_server() {
    let servers = [Server::start(), Server::redis_server(&Options::default())];
    let mut clients = [0, 1].map(|index: usize| servers[index].connect());
    let seed = rand::random();
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut same = |line: String| {
        let words: Vec<_> = line.split(' ').map(str::to_owned).collect();
        let [ours, redis] = clients.each_mut().map(|client| ask(client, &words));
        assert_eq!(ours, redis, "seed {seed}: {line}");
    };
    // Some places are near each other, near a pole, or near the date line.
    let mut place = |wide: bool| {
        let (longitude, latitude) = if wide { (180.0, 85.0) } else { (1.0, 1.0) };
        let longitude = rng.random_range(-longitude..longitude);
        format!("{longitude} {}", rng.random_range(-latitude..latitude))
    };
    for member in 0..500 {
        same(format!("GEOADD g {} m{member}", place(member % 2 == 0)));
    }
    for index in 0..2000 {
        let centre = match index % 3 {
            0 => format!("FROMMEMBER m{}", index % 500),
            _ => format!("FROMLONLAT {}", place(index % 2 == 0)),
        };
        let reach = 1.03_f64.powi(index % 600);
        let shape = match index % 4 {
            0 => format!("BYBOX {reach} {} m", reach * f64::from(index % 7)),
            _ => format!("BYRADIUS {reach} m"),
        };
        let order = ["ASC", "DESC", "COUNT 5", "COUNT 3 ANY", "WITHHASH"][index as usize % 5];
        same(format!("GEOSEARCH g {centre} {shape} WITHDIST WITHCOORD {order}"));
    }
}
