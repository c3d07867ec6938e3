//! Replies that memcached 1.6 and psp-memcached both give.

use crate::common::{Connection, Server, wait_until};

/// Requests and replies in order, on one connection to a fresh server.
fn converse(exchanges: &[(&str, &str)]) {
    let server = Server::start();
    let mut client = server.connect();
    for (request, reply) in exchanges {
        client.expect(request, reply);
    }
    client.expect("mn", "MN");
}

#[test]
fn storing_and_getting() {
    converse(&[
        ("get a", "END"),
        ("set a 5 0 3|abc", "STORED"),
        ("get a", "VALUE a 5 3|abc|END"),
        ("get nosuch a nosuch a", "VALUE a 5 3|abc|VALUE a 5 3|abc|END"),
        ("add a 0 0 1|x", "NOT_STORED"),
        ("add b 0 0 1|x", "STORED"),
        ("replace c 0 0 1|x", "NOT_STORED"),
        ("replace b 1 0 2|yy", "STORED"),
        ("append b 7 0 1|z", "STORED"),
        ("prepend b 7 0 1|x", "STORED"),
        ("append c 0 0 1|z", "NOT_STORED"),
        ("get b", "VALUE b 1 4|xyyz|END"),
        ("set empty 0 0 0|", "STORED"),
        ("get empty", "VALUE empty 0 0||END"),
        ("delete a", "DELETED"),
        ("delete a", "NOT_FOUND"),
        ("set f 4294967295 0 1|x", "STORED"),
        ("get f", "VALUE f 4294967295 1|x|END"),
        ("set quiet 0 0 1 noreply|x", ""),
        ("get quiet", "VALUE quiet 0 1|x|END"),
        ("delete quiet noreply", ""),
        ("get quiet", "END"),
    ]);
}

#[test]
fn compare_and_swap() {
    let server = Server::start();
    let mut client = server.connect();
    client.expect("cas k 0 0 1 1|x", "NOT_FOUND");
    client.expect("set k 0 0 1|a", "STORED");
    let cas = |client: &mut Connection| {
        let values = client.list("gets k");
        values[0].rsplit(' ').next().unwrap().to_owned()
    };
    let first = cas(&mut client);
    client.expect(&format!("cas k 0 0 1 {first}|b"), "STORED");
    client.expect(&format!("cas k 0 0 1 {first}|c"), "EXISTS");
    let second = cas(&mut client);
    assert_ne!(first, second);
    client.expect("touch k 0", "TOUCHED");
    assert_eq!(cas(&mut client), second, "touch changes nothing");
    client.expect(&format!("cas k 0 0 1 {second} noreply|d|get k"), "VALUE k 0 1|d|END");
}

#[test]
fn numbers() {
    converse(&[
        ("incr n 1", "NOT_FOUND"),
        ("set n 0 0 2|10", "STORED"),
        ("incr n 1", "11"),
        ("decr n 2", "9"),
        ("get n", "VALUE n 0 2|9 |END"),
        ("decr n 100", "0"),
        ("incr n 18446744073709551615", "18446744073709551615"),
        ("incr n 2", "1"),
        ("incr n -1", "CLIENT_ERROR invalid numeric delta argument"),
        ("incr n x", "CLIENT_ERROR invalid numeric delta argument"),
        ("set n 0 0 3|abc", "STORED"),
        ("incr n 1", "CLIENT_ERROR cannot increment or decrement non-numeric value"),
        ("set n 7 0 1|1", "STORED"),
        ("incr n 99 noreply", ""),
        ("get n", "VALUE n 7 3|100|END"),
    ]);
}

#[test]
fn items_expire() {
    let server = Server::start();
    let mut client = server.connect();
    for (request, reply) in [
        ("set past 0 -1 1|x", "STORED"),
        ("get past", "END"),
        ("set old 0 1000000000 1|x", "STORED"),
        ("get old", "END"),
        ("set far 0 4000000 1|x", "STORED"),
        ("get far", "END"),
        ("set month 0 2592000 1|x", "STORED"),
        ("get month", "VALUE month 0 1|x|END"),
        ("set soon 0 1 1|x", "STORED"),
        ("set kept 0 2 1|x", "STORED"),
        ("touch kept 0", "TOUCHED"),
        ("touch nosuch 0", "NOT_FOUND"),
        ("gat 100 kept nosuch", "VALUE kept 0 1|x|END"),
        ("gat 0 kept", "VALUE kept 0 1|x|END"),
    ] {
        client.expect(request, reply);
    }
    let with_cas = client.list("gats 0 kept")[0].clone();
    assert_eq!(with_cas.split(' ').count(), 5, "{with_cas}");
    wait_until("`soon` expires", || client.list("get soon").is_empty());
    client.expect("gat -1 kept", "VALUE kept 0 1|x|END");
    client.expect("get kept", "END");
}

#[test]
fn flushing() {
    let server = Server::start();
    let mut client = server.connect();
    // memcached cannot distinguish times within the second of its start.
    wait_until("a second has passed", || client.stat("stats", "uptime") >= 3 || Server::is_psp());
    client.expect("set a 0 0 1|x", "STORED");
    client.expect("flush_all", "OK");
    client.expect("get a", "END");
    client.expect("set a 0 0 1|x|flush_all 2|get a", "STORED|OK|VALUE a 0 1|x|END");
    wait_until("the flush is due", || client.list("get a").is_empty());
    client.expect("flush_all noreply|mn", "MN");
    client.expect("flush_all 0 noreply|mn", "MN");
    client.expect("flush_all x", "CLIENT_ERROR invalid exptime argument");
}

#[test]
fn meta_commands() {
    converse(&[
        ("mg k v", "EN"),
        ("mg k v q k O1", ""),
        ("mg k k O1", "EN kk O1"),
        ("ms k 3 T90 F5 O7 k|abc", "HD O7 kk"),
        ("mg k v f s t h O9 k", "VA 3 f5 s3 t90 h0 O9 kk|abc"),
        ("mg k h", "HD h1"),
        ("ms k 1 ME|x", "NS"),
        ("ms k 1 MA|d", "HD"),
        ("ms k 1 MP|x", "HD"),
        ("mg k v", "VA 5|xabcd"),
        ("ms nosuch 1 MR|x", "NS"),
        ("ms nosuch 1 C5|x", "NF"),
        ("ms k 1 C999999|x", "EX"),
        ("ms k 1 q|x", ""),
        ("md k C999999", "EX"),
        ("md k q", ""),
        ("md k O3 k", "NF O3 kk"),
        ("ma n", "NF"),
        ("ma n N0 J13 v", "VA 2|13"),
        ("ma n v", "VA 2|14"),
        ("ma n D10 MD v t", "VA 1 t-1|4"),
        ("mg n v", "VA 2|4 "),
        ("ma n q", ""),
        ("ma n N0 q v", ""),
        ("ms Zm9v 3 b k|bar", "HD kZm9v b"),
        ("mg Zm9v b k v", "VA 3 kZm9v b|bar"),
        ("mg foo k v", "VA 3 kZm9v b|bar"),
        ("ms foo 3 k|baz", "HD kfoo"),
        ("mg Zm9v b k", "HD kfoo"),
        // What `mg` makes has the key itself, whatever it holds.
        ("mg d29u b k N30", "HD kwon W"),
        ("mg won k", "HD kwon Z"),
        ("mg AAEC b k v N30", "VA 0 k\0\u{1}\u{2} W|"),
        ("mg AAEC b k", "HD k\0\u{1}\u{2} Z"),
        ("mg foo k", "HD kfoo"),
        ("md Zm9v b k", "HD kZm9v b"),
        ("mg Zm9v b k", "EN kZm9v b"),
        ("ms Zm9v 3 b|bar", "HD"),
        ("get foo", "VALUE foo 0 3|bar|END"),
        ("mg ! b", "CLIENT_ERROR error decoding key"),
        ("mn", "MN"),
        ("me nosuch", "EN"),
    ]);
}

/// memcached 1.6.18 takes such a time for one before 1970.
#[test]
fn times_after_2038_are_in_the_future() {
    psp_harness::only_psp!();
    let server = Server::start();
    let mut client = server.connect();
    for exptime in ["2147483648", "4294967296", "9223372036854775807"] {
        client.expect(&format!("set a 0 {exptime} 1|x"), "STORED");
        client.expect(&format!("touch a {exptime}"), "TOUCHED");
        client.expect(&format!("gat {exptime} a"), "VALUE a 0 1|x|END");
        client.expect(&format!("ms a 1 T{exptime}|y"), "HD");
        client.expect(&format!("mg a v T{exptime} R30"), "VA 1|y");
        let ttl_s: u64 = client.ask("mg a t").replace("HD t", "").parse().unwrap();
        assert!(ttl_s > 300_000_000, "{exptime}: {ttl_s} s");
    }
    client.expect("flush_all 4294967296", "OK");
    client.expect("mg a v", "VA 1|y");
}

#[test]
fn one_client_wins_the_right_to_recache() {
    converse(&[
        ("mg k v N30", "VA 0 W|"),
        ("mg k v N30", "VA 0 Z|"),
        ("ms k 3 T90|abc", "HD"),
        ("mg k R30 t", "HD t90"),
        ("mg k R100 t", "HD t90 W"),
        ("mg k R100 t", "HD t90 Z"),
        ("md k I T30", "HD"),
        ("mg k t v", "VA 3 t30 X W|abc"),
        ("mg k t v", "VA 3 t30 Z X|abc"),
    ]);
}

#[test]
fn meta_commands_of_newer_releases() {
    // memcached 1.6.18 has neither `E` nor `x` nor a conditional `mg`.
    psp_harness::only_psp!();
    converse(&[
        ("ms k 3 E77 c s|abc", "HD c77 s3"),
        ("mg k v c C77", "HD c77"),
        ("mg k v c C78", "VA 3 c77|abc"),
        ("mg k T90 E555 c t", "HD c555 t90"),
        ("mg k E556 c", "HD c555"),
        ("ms k 1 MA E78 s|d", "HD s4"),
        ("md k x", "HD"),
        ("mg k v", "VA 0|"),
        ("ms a 3 MA N0 s|abc", "HD s3"),
        ("ms k 1 C1 I|x", "HD"),
        ("mg k v", "VA 1 X W|x"),
    ]);
}

#[test]
fn odd_input_of_real_clients() {
    let server = Server::start();
    let mut client = server.connect();
    // twemproxy leaves spaces before the line end.
    client.expect("set a 0 0 1 |x|get a ", "STORED|VALUE a 0 1|x|END");
    client.expect("delete a ", "DELETED");
    client.expect("get  a   b  ", "END");
    // memaslap uses control bytes in its keys.
    client.expect("set \x01\x02\x7f 0 0 1|x", "STORED");
    client.expect("get \x01\x02\x7f", "VALUE \x01\x02\x7f 0 1|x|END");
    client.expect("set a\tb 0 0 1|x", "STORED");
    client.expect("get a\tb", "VALUE a\tb 0 1|x|END");
    client.send("set b 0 0 1\nx\r\nget b\n");
    client.expect_reply("lines that end with LF", b"STORED\r\nVALUE b 0 1\r\nx\r\nEND\r\n");
    let key = "k".repeat(250);
    client.expect(&format!("set {key} 0 0 1|x"), "STORED");
    client.expect(&format!("get {key}"), &format!("VALUE {key} 0 1|x|END"));
}

#[test]
fn replies_keep_the_order_of_pipelined_requests() {
    let server = Server::start();
    let mut client = server.connect();
    let mut requests = String::new();
    let mut replies = String::new();
    for round in 0..500 {
        let value = format!("{round:05}");
        requests.push_str(&format!("set k{} 0 0 5\r\n{value}\r\nget k{}\r\nmn\r\n", round % 7, round % 7));
        replies.push_str(&format!("STORED\r\nVALUE k{} 0 5\r\n{value}\r\nEND\r\nMN\r\n", round % 7));
        if round % 50 == 0 {
            requests.push_str("get k0 k0 k0 k0 k0 k0 k0 k0 k0 k0\r\n");
            let last = (round / 7) * 7;
            let block = format!("VALUE k0 0 5\r\n{last:05}\r\n");
            replies.push_str(&block.repeat(10));
            replies.push_str("END\r\n");
        }
    }
    client.send(&requests);
    client.expect_reply("a pipeline", replies.as_bytes());
}

#[test]
fn requests_may_arrive_in_pieces() {
    let server = Server::start();
    let mut client = server.connect();
    for piece in "set key 3 0 6\r\nab\r\ncd\r\nget key\r\n".as_bytes().chunks(1) {
        client.send(piece);
    }
    client.expect_reply("bytes", b"STORED\r\nVALUE key 3 6\r\nab\r\ncd\r\nEND\r\n");
}

#[test]
fn large_multigets_and_values() {
    let server = Server::start();
    let mut client = server.connect();
    let large = "v".repeat(500_000);
    client.expect(&format!("set large 1 0 500000|{large}"), "STORED");
    client.expect("get large", &format!("VALUE large 1 500000|{large}|END"));
    let mut expected = String::new();
    for index in 0..5000 {
        client.send(format!("set key{index} 0 0 5 noreply\r\n{index:05}\r\n"));
        expected.push_str(&format!("VALUE key{index} 0 5\r\n{index:05}\r\n"));
    }
    let keys: String = (0..5000).map(|index| format!(" key{index}")).collect();
    client.send(format!("get{keys}\r\n"));
    client.expect_reply("5000 keys", format!("{expected}END\r\n").as_bytes());
}

#[test]
fn binary_requests() {
    let server = Server::start();
    let mut client = server.connect();
    let packet = |magic: u8, opcode: u8, status: u16, cas: u64, parts: [&[u8]; 3]| {
        let [extras, key, value] = parts;
        let mut packet = vec![magic, opcode];
        packet.extend((key.len() as u16).to_be_bytes());
        packet.extend([extras.len() as u8, 0]);
        packet.extend(status.to_be_bytes());
        packet.extend(((extras.len() + key.len() + value.len()) as u32).to_be_bytes());
        packet.extend([0xde, 0xad, 0xbe, 0xef]);
        packet.extend(cas.to_be_bytes());
        packet.extend([extras, key, value].concat());
        packet
    };
    // A quiet get of a missing key, then a noop: one reply.
    client.send(packet(0x80, 0x09, 0, 0, [b"", b"k", b""]));
    client.send(packet(0x80, 0x0a, 0, 0, [b""; 3]));
    client.expect_reply("noop", &packet(0x81, 0x0a, 0, 0, [b""; 3]));
    client.send(packet(0x80, 0x11, 0, 0, [&[0, 0, 0, 7, 0, 0, 0, 0], b"k", b"abc"]));
    client.send(packet(0x80, 0x0c, 0, 0, [b"", b"k", b""]));
    let header = client.bytes(24);
    let cas = u64::from_be_bytes(header[16..].try_into().unwrap());
    assert_eq!(header, packet(0x81, 0x0c, 0, cas, [&[0, 0, 0, 7], b"k", b"abc"])[..24]);
    assert_eq!(client.bytes(8), b"\0\0\0\x07kabc");
    // A set with another CAS value, a counter that is created, statistics.
    client.send(packet(0x80, 0x01, 0, cas + 1000, [&[0; 8], b"k", b"x"]));
    client.expect_reply("cas", &packet(0x81, 0x01, 2, 0, [b"", b"", b"Data exists for key."]));
    let mut extras = [0; 20];
    (extras[7], extras[15]) = (1, 9);
    client.send(packet(0x80, 0x05, 0, 0, [&extras, b"n", b""]));
    let made = client.bytes(32);
    assert_eq!((made[1], &made[24..]), (0x05, &[0, 0, 0, 0, 0, 0, 0, 9][..]));
    client.send(packet(0x80, 0x10, 0, 0, [b"", b"settings", b""]));
    let mut names = Vec::new();
    loop {
        let header = client.bytes(24);
        let key_len = u16::from_be_bytes([header[2], header[3]]);
        let body_len = u32::from_be_bytes(header[8..12].try_into().unwrap());
        let body = client.bytes(body_len as usize);
        if body.is_empty() {
            break;
        }
        names.push(String::from_utf8_lossy(&body[..key_len.into()]).into_owned());
    }
    assert!(names.contains(&"maxbytes".to_owned()), "{names:?}");
    client.send(packet(0x80, 0x07, 0, 0, [b""; 3]));
    assert_eq!(client.read_to_close(), packet(0x81, 0x07, 0, 0, [b""; 3]));
}

#[test]
fn statistics() {
    let server = Server::start();
    let mut client = server.connect();
    client.expect("set a 0 0 1|x|get a b", "STORED|VALUE a 0 1|x|END");
    for (name, value) in [
        ("cmd_get", 2),
        ("get_hits", 1),
        ("get_misses", 1),
        ("cmd_set", 1),
        ("curr_items", 1),
        ("limit_maxbytes", 64 << 20),
    ] {
        assert_eq!(client.stat("stats", name), value, "{name}");
    }
    assert_eq!(client.stat("stats items", "items:1:number"), 1);
    assert_eq!(client.stat("stats slabs", "1:used_chunks"), 1);
    assert_eq!(client.stat("stats settings", "item_size_max"), 1 << 20);
    client.expect("stats reset", "RESET");
    assert_eq!(client.stat("stats", "get_hits"), 0);
    client.expect("stats nosuch", "ERROR");
    if Server::is_psp() {
        assert_eq!(client.list("stats sizes"), ["STAT 128 1"]);
        assert!(client.stat("stats psp", "type:read:completions") >= 1);
        for name in ["blocked", "waits"] {
            assert_eq!(client.stat("stats psp", &format!("type:read:{name}")), 0);
        }
    }
}

#[test]
fn all_items_are_dumped_once() {
    let server = Server::start();
    let mut client = server.connect();
    for index in 0..3000 {
        client.send(format!("set key{index} 0 100 1 noreply\r\nx\r\n"));
    }
    client.expect("set a%b 0 0 1|x", "STORED");
    let mut keys: Vec<String> = client
        .list("lru_crawler metadump all")
        .iter()
        .map(|line| line.split(' ').next().unwrap().to_owned())
        .collect();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), 3001);
    assert!(keys.contains(&"key=a%25b".to_owned()));
    client.expect("lru_crawler metadump 99", "BADCLASS invalid class id");
}

#[test]
fn the_end_of_a_connection_and_of_a_server() {
    let mut server = Server::start_with(&["-A"]);
    let mut client = server.connect();
    client.send("set a 0 0 1\r\nx\r\nquit\r\nget a\r\n");
    assert_eq!(client.read_to_close(), b"STORED\r\n");
    let mut client = server.connect();
    client.send("get a\r\n");
    client.finish_sending();
    assert_eq!(client.read_to_close(), b"VALUE a 0 1\r\nx\r\nEND\r\n");
    server.connect().send("shutdown\r\n");
    assert!(server.wait_for_exit().success());
    let mut server = Server::start();
    server.connect().expect("shutdown", "ERROR: shutdown not enabled");
    server.terminate();
    assert!(server.wait_for_exit().success());
}
