//! A fast page is answered while slow ones run.

use std::io::{Read as _, Write as _};
use std::time::{Duration, Instant};

use psp_harness::{ServerProcess, connect};

use crate::start;

/// Sends a request and returns the response, read until the server closes.
fn get(server: &ServerProcess, target: &str) -> String {
    let mut socket = connect(server.address()).unwrap();
    let request = format!("GET {target} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
    socket.get_mut().write_all(request.as_bytes()).unwrap();
    let mut response = String::new();
    socket.read_to_string(&mut response).unwrap();
    response
}

#[test]
fn fast_pages_overtake_slow_ones() {
    let server = start(&["--policy", "darc", "--workers", "2", "--topology", "inline"]);
    let slow_ms = 300;
    let (fast, slow) = std::thread::scope(|scope| {
        let slow: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let response = get(&server, &format!("/slow?ms={slow_ms}"));
                    (Instant::now(), response)
                })
            })
            .collect();
        std::thread::sleep(Duration::from_millis(slow_ms / 3));
        let fast: Vec<_> = (0..20)
            .map(|_| {
                let response = get(&server, "/fast");
                (Instant::now(), response)
            })
            .collect();
        let slow: Vec<_> = slow.into_iter().map(|slow| slow.join().unwrap()).collect();
        (fast, slow)
    });
    assert!(fast.iter().all(|(_, page)| page.ends_with("fast\n")));
    assert!(slow.iter().all(|(_, page)| page.ends_with("slow\n")));
    // Four slow pages share one worker: all fast pages are done before the last of them.
    let last_slow = slow.iter().map(|(end, _)| *end).max();
    let before = fast.iter().filter(|(end, _)| Some(*end) < last_slow).count();
    assert_eq!(before, fast.len());
}
