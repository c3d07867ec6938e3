//! Over raw sockets: pages, bodies, pipelining, refusals, and when connections close.

use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::process::Command;

use psp_harness::{DEADLINE, ServerProcess, connect};

use crate::{UNIX_SOCKET, start};

/// A response: the status code, the header lines in lower case, and the body.
#[derive(Debug, PartialEq, Eq)]
struct Response {
    code: u16,
    headers: Vec<String>,
    body: Vec<u8>,
}

/// A client that reads responses by their `Content-Length`.
struct Client {
    socket: BufReader<TcpStream>,
}

impl Client {
    fn new(server: &ServerProcess) -> Self {
        Self { socket: connect(server.address()).unwrap() }
    }

    fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.socket.get_mut().write_all(bytes.as_ref()).unwrap();
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.socket.read_line(&mut line).unwrap();
        line.strip_suffix("\r\n").expect("a whole line").to_owned()
    }

    /// Reads a response. `has_body` is false after `HEAD`.
    fn response(&mut self, has_body: bool) -> Response {
        let status = self.line();
        let code = status.strip_prefix("HTTP/1.1 ").expect("a status line")[..3].parse();
        let mut headers = Vec::new();
        loop {
            match self.line() {
                line if line.is_empty() => break,
                line => headers.push(line.to_lowercase()),
            }
        }
        let len = headers
            .iter()
            .find_map(|line| line.strip_prefix("content-length: ")?.parse().ok())
            .filter(|_| has_body);
        let mut body = vec![0; len.unwrap_or(0)];
        self.socket.read_exact(&mut body).unwrap();
        Response { code: code.unwrap(), headers, body }
    }

    /// Sends a request without a body and returns code and body.
    fn get(&mut self, target: &str) -> (u16, String) {
        self.send(format!("GET {target} HTTP/1.1\r\nHost: test\r\n\r\n"));
        let response = self.response(true);
        (response.code, String::from_utf8(response.body).unwrap())
    }

    /// Whether the server closes the connection, without another byte.
    fn is_closed(&mut self) -> bool {
        let mut rest = Vec::new();
        match self.socket.read_to_end(&mut rest) {
            Ok(_) => rest.is_empty(),
            Err(error) => error.kind() == ErrorKind::ConnectionReset,
        }
    }
}

#[test]
fn pages_come_over_a_unix_socket() {
    let server = start(&[]);
    let path = server.directory().join(UNIX_SOCKET);
    let mut socket = UnixStream::connect(path).unwrap();
    socket.set_read_timeout(Some(DEADLINE)).unwrap();
    let request = b"GET /fast HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    socket.write_all(request).unwrap();
    let mut response = String::new();
    socket.read_to_string(&mut response).unwrap();
    assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
    assert!(response.ends_with("\r\n\r\nfast\n"), "{response}");
}

#[test]
fn pages_are_served_over_a_connection_that_stays_open() {
    let server = start(&[]);
    let mut client = Client::new(&server);
    for (target, code, body) in [
        ("/fast", 200, "fast\n"),
        ("/slow?ms=1", 200, "slow\n"),
        ("/slow", 200, "slow\n"),
        ("/slow?ms=1001", 400, "ms is a number from 0 to 1000\n"),
        ("/slow?ms=-1", 400, "ms is a number from 0 to 1000\n"),
        ("/other", 404, "no such page\n"),
        ("/echo", 404, "no such page\n"),
        ("http://test/fast", 200, "fast\n"),
    ] {
        assert_eq!(client.get(target), (code, body.to_owned()), "{target}");
    }
    client.send("HEAD /fast HTTP/1.1\r\nHost: test\r\n\r\n");
    let head = client.response(false);
    assert!(head.headers.contains(&"content-length: 5".to_owned()));
}

#[test]
fn pipelined_requests_are_answered_in_their_order() {
    let server = start(&["--policy", "c-fcfs", "--workers", "2"]);
    let mut client = Client::new(&server);
    let targets = ["/slow?ms=5", "/fast", "/none", "/slow?ms=1", "/fast"];
    let requests: String = targets.map(|target| format!("GET {target} HTTP/1.1\r\nHost: test\r\n\r\n")).concat();
    client.send(requests.repeat(20));
    for _ in 0..20 {
        let codes = targets.map(|_| client.response(true)).map(|response| {
            let body = String::from_utf8(response.body).unwrap();
            (response.code, body)
        });
        let expected = [
            (200, "slow\n"),
            (200, "fast\n"),
            (404, "no such page\n"),
            (200, "slow\n"),
            (200, "fast\n"),
        ];
        assert_eq!(codes, expected.map(|(code, body)| (code, body.to_owned())));
    }
}

#[test]
fn bodies_arrive_by_length_and_in_chunks() {
    let server = start(&[]);
    let mut client = Client::new(&server);
    let body: Vec<u8> = (0..200_000_u32).map(|index| index as u8).collect();
    let head = "POST /echo HTTP/1.1\r\nHost: test\r\n";
    client.send(format!("{head}Content-Length: {}\r\n\r\n", body.len()));
    client.send(&body);
    assert_eq!(client.response(true).body, body);
    client.send(format!("{head}Transfer-Encoding: chunked\r\n\r\n"));
    for chunk in body.chunks(9_999) {
        client.send(format!("{:x}\r\n", chunk.len()));
        client.send(chunk);
        client.send("\r\n");
    }
    client.send("0\r\nTrailer: dropped\r\n\r\n");
    assert_eq!(client.response(true).body, body);
    assert_eq!(client.get("/fast").0, 200);
}

#[test]
fn a_client_that_expects_to_be_told_to_go_on_is_told() {
    let server = start(&[]);
    let mut client = Client::new(&server);
    let fast = "GET /fast HTTP/1.1\r\nHost: test\r\n\r\n";
    let post = "POST /echo HTTP/1.1\r\nHost: test\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n";
    // The answer to the request before it comes first.
    client.send(format!("{fast}{post}"));
    assert_eq!(client.response(true).body, b"fast\n");
    assert_eq!(client.line(), "HTTP/1.1 100 Continue");
    assert_eq!(client.line(), "");
    client.send("abc");
    assert_eq!(client.response(true).body, b"abc");
    let too_long = post.replace("Length: 3", "Length: 9999999");
    client.send(too_long);
    assert_eq!(client.response(true).code, 413);
    assert!(client.is_closed());
}

#[test]
fn connections_close_when_the_client_says_so() {
    let server = start(&[]);
    for (request, closes) in [
        ("GET /fast HTTP/1.1\r\nHost: a\r\n\r\n", false),
        ("GET /fast HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", true),
        ("GET /fast HTTP/1.0\r\n\r\n", true),
        ("GET /fast HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", false),
    ] {
        let mut client = Client::new(&server);
        // The second request is answered only where the first leaves the connection open.
        client.send(request.repeat(2));
        assert_eq!(client.response(true).code, 200);
        if !closes {
            assert_eq!(client.response(true).code, 200);
            client.socket.get_ref().shutdown(Shutdown::Write).unwrap();
        }
        assert!(client.is_closed(), "{request:?}");
    }
}

#[test]
fn malformed_requests_get_their_status_and_the_connection_closes() {
    let server = start(&[]);
    let long = "a".repeat(20_000);
    for (request, code) in [
        ("GET /fast HTTP/1.1\r\n\r\n", 400),
        ("GET /fast HTTP/1.1\nHost: a\n\n", 400),
        ("GET /fast HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n", 400),
        (
            "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            400,
        ),
        (
            "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
            400,
        ),
        ("POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", 400),
        ("POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501),
        ("GET /fast HTTP/3.0\r\n\r\n", 505),
        (&format!("GET /{long} HTTP/1.1\r\n"), 414),
        (&format!("GET / HTTP/1.1\r\nHost: a\r\nA: {long}\r\n"), 431),
    ] {
        let mut client = Client::new(&server);
        // Requests before it are answered first.
        client.send(format!("GET /fast HTTP/1.1\r\nHost: a\r\n\r\n{request}"));
        assert_eq!(client.response(true).code, 200);
        let refused = client.response(true);
        assert_eq!(refused.code, code, "{request:?}");
        assert!(refused.headers.contains(&"connection: close".to_owned()));
        assert!(client.is_closed(), "{request:?}");
    }
}

#[test]
fn the_client_of_python_understands_it() {
    let script = "import http.client, sys\n\
        client = http.client.HTTPConnection('127.0.0.1', int(sys.argv[1]))\n\
        for method, target, body, expected in [\n\
        ('GET', '/fast', None, (200, b'fast\\n')),\n\
        ('HEAD', '/slow?ms=1', None, (200, b'')),\n\
        ('POST', '/echo', b'body', (200, b'body')),\n\
        ('POST', '/echo', iter([b'in ', b'chunks']), (200, b'in chunks')),\n\
        ('GET', '/none', None, (404, b'no such page\\n')),\n\
        ]:\n\
        \x20   client.request(method, target, body=body)\n\
        \x20   response = client.getresponse()\n\
        \x20   found = (response.status, response.read())\n\
        \x20   assert found == expected, (method, target, found)\n";
    let python = |arguments: &[&str]| Command::new("python3").args(arguments).output();
    if !python(&["-c", "import http.client"]).is_ok_and(|output| output.status.success()) {
        return psp_skip::skip("python3 is not installed");
    }
    let server = start(&[]);
    let output = python(&["-c", script, &server.port()]).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
}
