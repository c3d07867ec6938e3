//! The thread that serves the admin port.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::rt::{Read, Write};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::yield_now;
use tokio::time::{sleep, timeout};

use super::answer::Answer;
use super::certificates::Certificates;
use super::connections::{Connections, Progress, Stage};
use super::listener::AdminListener;
use super::routes::Routes;
use super::trace;
use crate::error::RunError;
use crate::shared::ServerHandle;

const NAME: &str = "psp-admin";
/// A connection whose handshake, head or body is not complete after this time is closed.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);
/// A connection is closed after this time in any case, even if its client still reads.
const CONNECTION_TIME_MAX: Duration = Duration::from_secs(300);
const HEADERS_BYTES_MAX: usize = 16 * 1024;
const BODY_BYTES_MAX: usize = 4096;
/// How long the thread waits when the system has no descriptor for a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The admin port of a running server. Dropping it ends its thread.
#[derive(Debug)]
pub(crate) struct Admin {
    /// Dropped to end the thread.
    stop: Option<oneshot::Sender<Infallible>>,
    thread: Option<JoinHandle<()>>,
}

impl Admin {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system has no thread or no event queue for it.
    pub(crate) fn start(listener: AdminListener, server: ServerHandle) -> Result<Self, RunError> {
        let start = || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
            let (stop, stopped) = oneshot::channel();
            let routes = Arc::new(Routes::new(server, listener.access));
            let tcp = {
                let _within = runtime.enter();
                TcpListener::from_std(listener.listener)?
            };
            let certificates = listener.certificates;
            let thread = Builder::new().name(NAME.into()).spawn(move || {
                runtime.block_on(async {
                    tokio::select! {
                        _ = stopped => {}
                        never = accept(tcp, certificates, routes) => match never {},
                    }
                });
            })?;
            Ok(Self { stop: Some(stop), thread: Some(thread) })
        };
        start().map_err(|source: io::Error| RunError::Thread { name: NAME.into(), source })
    }
}

impl Drop for Admin {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // The panic hook has reported a panic.
            let _panicked = thread.join();
        }
    }
}

async fn accept(listener: TcpListener, mut certificates: Option<Certificates>, routes: Arc<Routes>) -> Infallible {
    let mut connections = Connections::default();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let routes = routes.clone();
        let acceptor = certificates.as_mut().map(Certificates::acceptor);
        connections.admit(|progress| async {
            let conversation = async {
                let Some(acceptor) = acceptor else {
                    return converse(TokioIo::new(stream), routes, progress).await;
                };
                match timeout(REQUEST_TIMEOUT, acceptor.accept(stream)).await {
                    Ok(Ok(stream)) => converse(TokioIo::new(stream), routes, progress).await,
                    failed => tracing::debug!(?failed, "a handshake of the admin port failed"),
                }
            };
            // A client that stays for longer than a connection may last.
            let _elapsed = timeout(CONNECTION_TIME_MAX, conversation).await;
        });
        // Sockets are looked at between two newcomers, however many knock.
        yield_now().await;
    }
}

async fn converse(stream: impl Read + Write + Unpin, routes: Arc<Routes>, progress: Progress) {
    let service = service_fn(move |request| {
        let (routes, progress) = (routes.clone(), progress.clone());
        async move { Ok::<_, Infallible>(respond(&routes, &progress, request).await) }
    });
    let ended = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_TIMEOUT)
        .max_buf_size(HEADERS_BYTES_MAX)
        .keep_alive(false)
        .serve_connection(stream, service)
        .await;
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection of the admin port failed");
    }
}

async fn respond(routes: &Routes, progress: &Progress, request: Request<Incoming>) -> Response<Full<Bytes>> {
    let (head, body) = request.into_parts();
    let body = Limited::new(body, BODY_BYTES_MAX).collect();
    let body = timeout(REQUEST_TIMEOUT, body).await;
    progress.set(Stage::Working);
    let answer = match body {
        Ok(Ok(_)) if trace::is_asked(&head) => trace::answer(routes, &head).await,
        Ok(Ok(body)) => routes.answer(&head, &body.to_bytes()),
        Ok(Err(_)) => Answer::too_large(),
        Err(_) => Answer::too_slow(),
    };
    progress.set(Stage::Reading);
    answer.into_response()
}
