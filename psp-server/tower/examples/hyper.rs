//! A server of hyper on 127.0.0.1:8080, or another address that is the first argument: `/slow` is computed in a pool.

use std::convert::Infallible;
use std::hint::black_box;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use psp_pool::policy::Policy;
use psp_pool::{Pool, RequestType, TypeSpec};
use psp_tower::PspLayer;
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tower::{Layer, service_fn};

type Error = Box<dyn std::error::Error>;

#[tokio::main]
async fn main() -> Result<(), Error> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let listener = TcpListener::bind(&address).await.map_err(|error| format!("{address}: {error}"))?;
    println!("listening on {}", listener.local_addr()?);
    serve(listener).await
}

/// Serves every connection.
pub(crate) async fn serve(listener: TcpListener) -> Result<(), Error> {
    let pool = Pool::builder()
        .types([TypeSpec::new("fast"), TypeSpec::new("slow")])
        .policy(Policy::drr())
        .tokio(Handle::current())
        .build()?;
    let classify = |request: &Request<Incoming>| RequestType::new(u32::from(request.uri().path() == "/slow"));
    let service = PspLayer::new(pool, classify).layer(service_fn(page));
    let service = TowerToHyperService::new(service);
    loop {
        let (stream, _) = listener.accept().await?;
        let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service.clone());
        tokio::spawn(async {
            if let Err(error) = connection.await {
                eprintln!("{error}");
            }
        });
    }
}

async fn page(request: Request<Incoming>) -> Result<Response<String>, Infallible> {
    let text = match request.uri().path() {
        "/slow" => (0..2_000_000_u64).fold(0, |sum: u64, row| sum.wrapping_add(black_box(row))).to_string(),
        _ => "fast".to_owned(),
    };
    Ok(Response::new(text + "\n"))
}
