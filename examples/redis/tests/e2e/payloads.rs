//! DUMP and RESTORE between psp-redis and redis-server.

use crate::common::{Connection, Options, Reply, Server};

/// Makes keys in each of the forms that redis-server writes.
pub(crate) fn fill(client: &mut Connection) {
    let long = "x".repeat(10_000);
    let numbers: Vec<String> = (-300_i64..300).map(|number| format!("{}", number * 7_777_777)).collect();
    let words: Vec<String> = (0..600).map(|word| format!("word{word}{}", "y".repeat(word % 70))).collect();
    for line in [
        "SET short text",
        "SET integer -12345",
        "SET wide 123456789012345",
        "SET empty ''",
        "RPUSH list a 1 -1 300 70000 5000000000 -5000000000000000000",
        "SADD few 1 2 -3",
        "SADD wider 1 100000 -5000000000",
        "SADD names a b c",
        "HSET hash f 1 g 2 h three",
        "ZADD scores 1.5 a -inf b inf c 1e30 d 3 e",
        "PFADD sketch a b c d",
        "GEOADD earth 13.361389 38.115556 Palermo",
        "SETBIT bits 5000 1",
        "XADD log 5-1 sensor 1 value 20",
        "XADD log 5-2 sensor 1 value -7",
        "XADD log 9-0 other text",
        "XADD log 9-1 sensor 2 value 300",
        "XGROUP CREATE log readers 0",
        "XGROUP CREATE log late $",
        "XREADGROUP GROUP readers alice COUNT 2 STREAMS log >",
        "XREADGROUP GROUP readers bob COUNT 1 STREAMS log >",
        "XGROUP CREATECONSUMER log late carol",
        "XDEL log 5-2",
        "XACK log readers 5-1",
        "XGROUP CREATE emptied workers $ MKSTREAM",
    ] {
        client.ask(line);
    }
    client.ask(&format!("XADD log 10-0 text {long}"));
    for index in 1..=1000 {
        client.ask(&format!("XADD events {index}-{} name {index} {}", index % 3, "value x"));
    }
    client.ask("XGROUP CREATE events all 0");
    client.ask("XREADGROUP GROUP all alice COUNT 700 STREAMS events >");
    client.ask(&format!("SET long {long}"));
    client.ask(&format!("RPUSH longer a {long} b"));
    client.ask(&format!("HSET fields name {long}"));
    for entries in [&numbers, &words] {
        for (index, entry) in entries.iter().enumerate() {
            let name = &entries[0];
            client.ask(&format!("RPUSH list:{name} {entry}"));
            client.ask(&format!("SADD set:{name} {entry}"));
            client.ask(&format!("HSET hash:{name} {entry} {index}"));
            client.ask(&format!("ZADD zset:{name} {index}.25 {entry}"));
        }
    }
}

/// What a client sees of `key`, in an order that does not depend on the server.
pub(crate) fn content(client: &mut Connection, key: &str) -> String {
    let ty = client.ask(&format!("TYPE {key}"));
    let read = match &*ty {
        "+string" => format!("GET {key}"),
        "+list" => format!("LRANGE {key} 0 -1"),
        "+hash" => format!("HGETALL {key}"),
        "+set" => format!("SMEMBERS {key}"),
        "+zset" => format!("ZRANGE {key} 0 -1 WITHSCORES"),
        "+stream" => return stream_content(client, key),
        other => panic!("{key} is {other}"),
    };
    let words = encode(&read);
    let reply = client.request(&words);
    let text = match &*ty {
        "+hash" => {
            let items: Vec<String> = reply.into_items().iter().map(ToString::to_string).collect();
            let mut pairs: Vec<String> = items.chunks(2).map(|pair| pair.join("=")).collect();
            pairs.sort();
            pairs.join(" ")
        }
        "+set" => {
            let mut items: Vec<String> = reply.into_items().iter().map(ToString::to_string).collect();
            items.sort();
            items.join(" ")
        }
        _ordered => reply.to_string(),
    };
    format!("{ty} {text}")
}

/// The entries of a stream, its counters, and what its groups wait for.
fn stream_content(client: &mut Connection, key: &str) -> String {
    let mut content = client.ask(&format!("XRANGE {key} - +"));
    for field in client.request(&["XINFO", "STREAM", key]).into_items().chunks(2) {
        let name = field[0].to_string();
        if !name.contains("radix") {
            content += &format!(" {name}={}", field[1]);
        }
    }
    let groups = client.request(&["XINFO", "GROUPS", key]).into_items();
    for group in &groups {
        content += &format!(" {group}");
    }
    for group in ["readers", "late", "all", "workers"] {
        // How long ago an entry was delivered is not the same.
        let pending = client.request(&["XPENDING", key, group, "-", "+", "1000"]);
        if let Reply::Array(pending) = pending {
            for item in pending {
                let item = item.into_items();
                content += &format!(" {} {} {}", item[0], item[1], item[3]);
            }
            let consumers = client.request(&["XINFO", "CONSUMERS", key, group]).into_items();
            for consumer in consumers {
                let fields = consumer.into_items();
                content += &format!(" {} {}", fields[1], fields[3]);
            }
        }
    }
    content
}

fn encode(line: &str) -> Vec<&str> {
    line.split(' ').collect()
}

#[test]
#[ignore = "needs redis-server; run by .ci/run"]
fn values_go_to_redis_server_and_come_back() {
    let servers = [Server::start(), Server::redis_server(&Options::default())];
    let mut clients = [0, 1].map(|index: usize| servers[index].connect());
    for from in [0, 1] {
        for client in &mut clients {
            client.ask("FLUSHALL");
        }
        let [first, second] = &mut clients;
        let (source, target) = if from == 0 { (first, second) } else { (second, first) };
        fill(source);
        let keys = source.request(&["KEYS", "*"]).into_items();
        assert_eq!(keys.len(), 27);
        for key in keys {
            let key = String::from_utf8(key.into_bytes()).unwrap();
            let payload = source.request(&["DUMP", &key]).into_bytes();
            let words = [b"RESTORE".as_slice(), key.as_bytes(), b"0", &payload];
            assert_eq!(target.request(&words).to_string(), "+OK", "{key}");
            assert_eq!(content(target, &key), content(source, &key));
        }
    }
}
