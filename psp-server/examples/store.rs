//! A key-value store with messages behind their length, on the Unix socket `store.sock` and, with TLS, on
//! 127.0.0.1:7002.
//!
//! ```sh
//! openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=store \
//!     -addext subjectAltName=IP:127.0.0.1 -keyout key.pem -out chain.pem
//! cargo run --release -p psp-server --features tls --example store
//! ```

use std::collections::HashMap;
use std::error::Error;
use std::path::Path;

use psp_server::protocols::LengthDelimited;
use psp_server::sync::Mutex;
use psp_server::tls::{ClientCertificates, TlsConfig};
use psp_server::{Policy, Reply, Request, RequestType, Server, TypeSpec, wait};

fn main() -> Result<(), Box<dyn Error>> {
    serve(Path::new("."), "127.0.0.1:7002")
}

/// Serves with the certificate and the socket in `folder`.
pub(crate) fn serve(folder: &Path, address: &str) -> Result<(), Box<dyn Error>> {
    let file = |name| folder.join(name);
    let tls = TlsConfig::from_pem_files(file("chain.pem"), file("key.pem"), &ClientCertificates::NotAsked)?;
    let framing = LengthDelimited::default().len_max(1 << 20);
    let values = Mutex::new(HashMap::new());
    let server = Server::builder()
        .unix(file("store.sock"))
        .tls(address, &tls)
        .framing(framing)
        .types([TypeSpec::new("point"), TypeSpec::new("scan")])
        .classifier(move |message: &[u8]| RequestType::new(framing.payload(message).starts_with(b"COUNT").into()))
        .policy(Policy::darc())
        .handler(move |request: Request<'_, ()>, reply: &mut Reply<'_>| {
            let answer = answer(framing.payload(request.payload), &mut wait(values.lock()));
            framing.put(&answer, reply).map_err(|error| error.to_string())
        })
        .build()?;
    server.run()?;
    Ok(())
}

/// `SET KEY VALUE`, `GET KEY`, and `COUNT PREFIX`, which looks at all keys.
fn answer(message: &[u8], values: &mut HashMap<Vec<u8>, Vec<u8>>) -> Vec<u8> {
    let mut words = message.splitn(3, |&byte| byte == b' ');
    match (words.next(), words.next(), words.next()) {
        (Some(b"SET"), Some(key), Some(value)) => {
            values.insert(key.to_vec(), value.to_vec());
            b"OK".to_vec()
        }
        (Some(b"GET"), Some(key), None) => values.get(key).cloned().unwrap_or_else(|| b"NONE".to_vec()),
        (Some(b"COUNT"), Some(prefix), None) => {
            let found = values.keys().filter(|key| key.starts_with(prefix)).count();
            found.to_string().into_bytes()
        }
        _ => b"ERROR one of: SET KEY VALUE, GET KEY, COUNT PREFIX".to_vec(),
    }
}
