//! A layer from outside, around services that are functions.

use std::cell::Cell;
use std::convert::Infallible;
use std::future::pending;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderName, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::BodyExt;
use metrics_exporter_prometheus::PrometheusBuilder;
use psp_harness::{hold, until};
use psp_pool::policy::Policy;
use psp_pool::{Pool, RequestType, TypeSpec};
use psp_tower::{Place, PspLayer, Publisher, ResponseBody, TypeSnapshot};
use tokio::runtime::Handle;
use tower::util::BoxCloneService;
use tower::{Layer, Service, ServiceExt, service_fn};

const PATIENCE: Duration = Duration::from_secs(30);
/// Longer than anything takes here, even where the machine stands still for a while.
const LONG: Duration = Duration::from_secs(20);

type Answer = Result<Response<String>, Infallible>;
type Layered = BoxCloneService<Request<String>, Response<ResponseBody<String>>, Infallible>;
type Classifier = fn(&Request<String>) -> RequestType;

/// `/page` and `/report`; everything else is unknown.
fn classify(request: &Request<String>) -> RequestType {
    match request.uri().path() {
        "/page" => RequestType::new(0),
        "/report" => RequestType::new(1),
        _ => RequestType::UNKNOWN,
    }
}

/// A pool of one worker.
fn pool(queue_capacity: usize) -> Pool {
    let types = [TypeSpec::new("page"), TypeSpec::new("report")];
    let pool = Pool::builder().types(types).workers(1).spare_threads(0);
    let pool = { pool }.queue_capacity(queue_capacity).tokio(Handle::current());
    pool.build().unwrap()
}

fn layer(pool: Pool) -> PspLayer<Classifier> {
    PspLayer::new(pool, classify as Classifier)
}

/// In this layer the service that answers with what it was sent.
fn echo(layer: &PspLayer<Classifier>) -> Layered {
    let answer = async |request: Request<String>| -> Answer { Ok(Response::new(request.into_body())) };
    BoxCloneService::new(layer.layer(service_fn(answer)))
}

fn get(path: &str) -> Request<String> {
    Request::get(path).body(path.to_owned()).unwrap()
}

fn of_type(layer: &PspLayer<Classifier>, slot: usize) -> TypeSnapshot {
    layer.snapshot().types.swap_remove(slot)
}

/// Computes for so long, by the clock.
fn compute(time: Duration) {
    let began = Instant::now();
    while began.elapsed() < time {}
}

#[tokio::test]
async fn a_new_type_begins_in_the_pool_and_leaves_it_when_it_is_short() {
    let layer = layer(pool(64)).inline_below(LONG).long_poll(LONG);
    let service = echo(&layer);
    for request in 0..20 {
        let answer = service.clone().oneshot(get("/page")).await.unwrap();
        assert_eq!(answer.body().as_str(), "/page", "{request}");
    }
    let page = of_type(&layer, 0);
    assert_eq!((page.pooled, page.inline, page.completed), (16, 4, 20));
    assert_eq!(page.place, Place::Inline);
    assert!(page.service_ns > 0 && page.service_ns_max < page.service_ns);
    assert_eq!(of_type(&layer, 1).place, Place::Pool);
}

tokio::task_local! {
    static CALLER: u32;
}

thread_local! {
    static CONTEXT: Cell<u32> = const { Cell::new(0) };
}

/// A type that moves between its two places has the same in both.
#[tokio::test]
async fn what_a_caller_has_is_there_wherever_its_request_is_polled() {
    /// Sets the context of the thread, and takes it back.
    fn within(context: u32, poll: impl FnOnce()) {
        let before = CONTEXT.replace(context);
        poll();
        CONTEXT.set(before);
    }

    let layer = layer(pool(64)).inline_below(LONG).long_poll(LONG).carry(|| {
        let (caller, context) = (CALLER.get(), CONTEXT.get());
        move |poll: &mut dyn FnMut()| within(context, || CALLER.sync_scope(caller, &mut *poll))
    });
    let tells = service_fn(async |_: Request<String>| -> Answer {
        let mut seen = vec![(CALLER.get(), CONTEXT.get())];
        tokio::task::yield_now().await;
        seen.push((CALLER.get(), CONTEXT.get()));
        Ok(Response::new(format!("{seen:?}")))
    });
    let service = layer.layer(tells);
    CONTEXT.set(7);
    for caller in 0..20 {
        let answer = CALLER.scope(caller, service.clone().oneshot(get("/page")));
        let answer = answer.await.unwrap();
        let pair = (caller, 7);
        assert_eq!(**answer.body(), format!("{:?}", [pair, pair]));
    }
    let page = of_type(&layer, 0);
    assert_eq!((page.pooled, page.inline), (16, 4));
}

#[tokio::test]
async fn one_long_poll_moves_a_type_to_the_pool() {
    let layer = layer(pool(64)).inline_below(LONG);
    let sleeps = service_fn(async |request: Request<String>| -> Answer {
        let millis = request.uri().query().map_or(0, |it| it.parse().unwrap());
        std::thread::sleep(Duration::from_millis(millis));
        Ok(Response::default())
    });
    let service = layer.layer(sleeps);
    // A machine that stands still for a millisecond begins the count again.
    for _ in 0..10_000 {
        if of_type(&layer, 0).place == Place::Inline {
            break;
        }
        service.clone().oneshot(get("/page")).await.unwrap();
    }
    assert_eq!(of_type(&layer, 0).place, Place::Inline);
    service.clone().oneshot(get("/page?2")).await.unwrap();
    assert_eq!(of_type(&layer, 0).place, Place::Pool);
}

#[tokio::test]
async fn the_time_for_which_a_request_is_suspended_is_no_service_time() {
    let pause = Duration::from_millis(50);
    let policy = Policy::mq().quantum_us(200);
    let pool = { Pool::builder().workers(1).policy(policy) }
        .types([TypeSpec::new("page"), TypeSpec::new("report")])
        .tokio(Handle::current());
    let pool = pool.build().unwrap();
    let layer = layer(pool.clone());
    let (begins, begun) = channel();
    let yields = service_fn(move |_: Request<String>| {
        let begins = begins.clone();
        async move {
            begins.send(()).unwrap();
            let began = Instant::now();
            while psp_pool::suspended() < pause {
                assert!(began.elapsed() < PATIENCE, "no request had it yield");
                psp_pool::checkpoint();
            }
            Answer::Ok(Response::new(began.elapsed().as_nanos().to_string()))
        }
    });
    let report = tokio::spawn(layer.layer(yields).oneshot(get("/report")));
    let suspended = tokio::task::spawn_blocking(move || {
        begun.recv_timeout(PATIENCE).unwrap();
        // It has the worker once the report has yielded.
        let (gate, short) = hold(&pool, RequestType::UNKNOWN);
        std::thread::sleep(pause);
        drop(gate);
        short.detach();
    });
    suspended.await.unwrap();
    let took_ns: u64 = report.await.unwrap().unwrap().into_body().parse().unwrap();
    let served_ns = of_type(&layer, 1).service_ns;
    assert!(served_ns + pause.as_nanos() as u64 / 2 <= took_ns, "{served_ns} of {took_ns} ns");
}

#[tokio::test]
async fn a_type_that_is_known_to_be_short_is_inline_from_the_start() {
    let short = TypeSpec::new("page").service_time(Duration::from_micros(5));
    let pool = Pool::builder().types([short]).workers(1).build().unwrap();
    let layer = layer(pool);
    assert_eq!(of_type(&layer, 0).place, Place::Inline);
    assert_eq!(of_type(&layer, 1).place, Place::Pool);
    let layer = layer.inline_below(Duration::ZERO);
    assert_eq!(of_type(&layer, 0).place, Place::Pool);
}

#[tokio::test]
async fn a_full_queue_answers_at_once_and_costs_other_types_nothing() {
    let pool = pool(2);
    let layer = layer(pool.clone()).retry_after(Duration::from_secs(7));
    let mut service = echo(&layer);
    let (gate, held) = hold(&pool, RequestType::UNKNOWN);
    let waiting = [0, 1].map(|_| tokio::spawn(service.clone().oneshot(get("/report"))));
    until("both wait", || pool.snapshot().types[1].queued == 2).await;
    // It is ready, whatever the pool.
    let refused = service.ready().await.unwrap().call(get("/report"));
    let refused = refused.await.unwrap();
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(refused.headers()[RETRY_AFTER], "7");
    let mut call = get("/report");
    let grpc = "application/grpc".parse().unwrap();
    call.headers_mut().insert(CONTENT_TYPE, grpc);
    let refused = service.ready().await.unwrap().call(call).await.unwrap();
    assert_eq!(refused.status(), StatusCode::OK);
    assert_eq!(refused.headers()["grpc-status"], "8");
    let other = tokio::spawn(service.oneshot(get("/page")));
    drop(gate);
    held.await.unwrap();
    assert_eq!(other.await.unwrap().unwrap().body().as_str(), "/page");
    for waiting in waiting {
        assert_eq!(waiting.await.unwrap().unwrap().body().as_str(), "/report");
    }
    let report = of_type(&layer, 1);
    assert_eq!((report.shed, report.completed, report.pooled), (2, 2, 4));
    assert_eq!(of_type(&layer, 0).shed, 0);
}

#[tokio::test]
async fn a_response_that_nobody_awaits_cancels_its_request() {
    let pool = pool(1);
    let layer = layer(pool.clone());
    let has_run = Arc::new(AtomicBool::new(false));
    let runs = has_run.clone();
    let service = layer.layer(service_fn(move |_: Request<String>| {
        runs.store(true, Ordering::SeqCst);
        pending::<Answer>()
    }));
    let (gate, held) = hold(&pool, RequestType::UNKNOWN);
    // More than the queue has room for: those that have gone take none.
    for _ in 0..5 {
        let waiting = tokio::spawn(service.clone().oneshot(get("/report")));
        until("it waits", || pool.snapshot().types[1].queued == 1).await;
        waiting.abort();
        assert!(waiting.await.unwrap_err().is_cancelled());
        assert_eq!(pool.snapshot().types[1].queued, 0);
    }
    assert_eq!(of_type(&layer, 1).cancelled, 5);
    drop(gate);
    held.await.unwrap();
    until("none is left", || pool.snapshot().unfinished == 0).await;
    assert!(!has_run.load(Ordering::SeqCst));
    // One that is pending ends, too.
    let begun = tokio::spawn(service.oneshot(get("/report")));
    until("it begins", || has_run.load(Ordering::SeqCst)).await;
    begun.abort();
    assert!(begun.await.unwrap_err().is_cancelled());
    until("it is gone", || pool.snapshot().unfinished == 0).await;
    let report = of_type(&layer, 1);
    assert_eq!((report.cancelled, report.completed, report.shed), (6, 0, 0));
}

#[tokio::test]
async fn what_is_computed_for_clients_that_have_gone_is_counted() {
    // The system counts processor time by its ticks.
    const TIME: Duration = Duration::from_millis(30);
    let pool = pool(64);
    let layer = layer(pool.clone());
    let begun = Arc::new(AtomicBool::new(false));
    let begins = begun.clone();
    let service = layer.layer(service_fn(move |request: Request<String>| {
        begins.store(true, Ordering::SeqCst);
        let waits = request.uri().path() == "/report";
        async move {
            compute(TIME);
            if waits {
                pending::<()>().await;
            }
            Ok::<_, Infallible>(Response::new(request.into_body()))
        }
    }));
    service.clone().oneshot(get("/page")).await.unwrap();
    assert_eq!(of_type(&layer, 0).abandoned_ns, 0);
    begun.store(false, Ordering::SeqCst);
    let gone = tokio::spawn(service.oneshot(get("/report")));
    until("it begins", || begun.load(Ordering::SeqCst)).await;
    gone.abort();
    assert!(gone.await.unwrap_err().is_cancelled());
    until("its time is counted", || of_type(&layer, 1).abandoned_ns > 0).await;
    // Other programs may have had the core for a part of it.
    assert!(of_type(&layer, 1).abandoned_ns > 10_000);
}

/// A body of so many frames, each of which computes.
struct Computing {
    frames: u32,
    time: Duration,
}

impl http_body::Body for Computing {
    type Data = &'static [u8];
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Infallible>>> {
        let Some(left) = self.frames.checked_sub(1) else {
            return Poll::Ready(None);
        };
        self.frames = left;
        compute(self.time);
        Poll::Ready(Some(Ok(Frame::data(b"part "))))
    }
}

impl Default for Computing {
    fn default() -> Self {
        Self { frames: 0, time: Duration::ZERO }
    }
}

#[tokio::test]
async fn bodies_that_compute_as_they_stream_are_counted() {
    let layer = layer(pool(64)).long_poll(Duration::from_micros(500));
    let service = layer.layer(service_fn(async |request: Request<String>| {
        let computes = request.uri().path() == "/report";
        let time = Duration::from_millis(if computes { 5 } else { 0 });
        Ok::<_, Infallible>(Response::new(Computing { frames: 10, time }))
    }));
    for path in ["/page", "/report"] {
        let answer = service.clone().oneshot(get(path)).await.unwrap();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(body, "part ".repeat(10));
    }
    // The first one may be due to other programs.
    let slow = of_type(&layer, 1).slow_frames;
    assert!((1..=9).contains(&slow), "{slow}");
    assert!(of_type(&layer, 0).slow_frames <= 2, "other programs");
}

#[tokio::test]
async fn deadlines_end_requests_that_wait_and_requests_that_are_pending() {
    let pool = pool(64);
    let name = HeaderName::from_static("wait-ms");
    let layer = layer(pool.clone()).deadline_header(name);
    let service = layer.layer(service_fn(|_: Request<String>| pending::<Answer>()));
    let asked = |header, value| {
        let mut request = get("/report");
        let value = http::HeaderValue::from_static(value);
        request.headers_mut().insert(header, value);
        request
    };
    let (gate, held) = hold(&pool, RequestType::UNKNOWN);
    let late = service.clone().oneshot(asked("wait-ms", "5"));
    assert_eq!(late.await.unwrap().status(), StatusCode::GATEWAY_TIMEOUT);
    let gone = service.clone().oneshot(asked("wait-ms", "0"));
    assert_eq!(gone.await.unwrap().status(), StatusCode::GATEWAY_TIMEOUT);
    drop(gate);
    held.await.unwrap();
    let mut call = asked("grpc-timeout", "5m");
    let grpc = "application/grpc+proto".parse().unwrap();
    call.headers_mut().insert(CONTENT_TYPE, grpc);
    let late = service.oneshot(call).await.unwrap();
    assert_eq!(late.headers()["grpc-status"], "4");
    let report = of_type(&layer, 1);
    assert_eq!((report.expired, report.cancelled), (3, 0));
    until("none is left", || pool.snapshot().unfinished == 0).await;
}

#[tokio::test]
async fn the_deadline_of_a_request_that_is_polled_inline_holds() {
    let short = TypeSpec::new("page").service_time(Duration::from_micros(5));
    let pool = Pool::builder().types([short]).workers(1).build().unwrap();
    let layer = layer(pool).inline_below(LONG).long_poll(LONG);
    let service = layer.layer(service_fn(|_: Request<String>| pending::<Answer>()));
    let mut request = get("/page");
    let timeout = http::HeaderValue::from_static("1000u");
    request.headers_mut().insert("grpc-timeout", timeout);
    let late = service.oneshot(request).await.unwrap();
    assert_eq!(late.status(), StatusCode::GATEWAY_TIMEOUT);
    let page = of_type(&layer, 0);
    assert_eq!((page.inline, page.expired, page.cancelled), (1, 1, 0));
}

#[tokio::test]
async fn a_panic_goes_on_where_the_response_is_awaited() {
    let layer = layer(pool(64)).inline_below(LONG).long_poll(LONG);
    let fails = service_fn(async |request: Request<String>| -> Answer {
        assert!(request.uri().query().is_none(), "the test asked for it");
        Ok(Response::default())
    });
    let service = layer.layer(fails);
    for place in [Place::Pool, Place::Inline] {
        assert_eq!(of_type(&layer, 0).place, place);
        let failing = tokio::spawn(service.clone().oneshot(get("/page?fail")));
        let panic = failing.await.unwrap_err().into_panic();
        let message = panic.downcast::<&str>().unwrap();
        assert_eq!(*message, "the test asked for it");
        while of_type(&layer, 0).place == Place::Pool {
            service.clone().oneshot(get("/page")).await.unwrap();
        }
    }
    let page = of_type(&layer, 0);
    assert_eq!((page.panicked, page.cancelled, page.completed), (2, 0, 16));
}

#[tokio::test]
async fn a_pool_that_has_ended_answers_so() {
    let pool = pool(64);
    let layer = layer(pool.clone());
    assert_eq!(pool.close(PATIENCE).abandoned, 0);
    let answer = echo(&layer).oneshot(get("/report")).await.unwrap();
    assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(of_type(&layer, 1).closed, 1);
}

#[tokio::test]
async fn errors_of_the_service_are_its_own() {
    let layer = layer(pool(64));
    let fails = service_fn(async |_: Request<String>| Err::<Response<String>, _>("no"));
    assert_eq!(layer.layer(fails).oneshot(get("/page")).await.unwrap_err(), "no");
    assert_eq!(of_type(&layer, 0).completed, 1);
}

#[tokio::test]
async fn the_span_and_the_subscriber_of_the_call_go_along() {
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);
    impl std::io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone()).with_ansi(false).finish();
    let _here = tracing::subscriber::set_default(subscriber);
    let layer = layer(pool(64));
    let threads = Arc::new(Mutex::new(Vec::new()));
    let seen = threads.clone();
    let service = layer.layer(service_fn(move |_: Request<String>| {
        let seen = seen.clone();
        async move {
            seen.lock().unwrap().push(std::thread::current().id());
            tracing::info!("within");
            Answer::Ok(Response::default())
        }
    }));
    let span = tracing::info_span!("request", number = 17);
    let answered = {
        let _within = span.enter();
        service.oneshot(get("/page"))
    };
    // The future of `oneshot` calls the service when it is polled.
    tracing::Instrument::instrument(answered, span).await.unwrap();
    let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    assert!(text.contains("request{number=17}: layer: within"), "{text}");
    assert_ne!(*threads.lock().unwrap(), [std::thread::current().id()]);
}

#[tokio::test]
async fn a_type_of_unlike_requests_is_reported() {
    let layer = layer(pool(64)).inline_below(Duration::from_nanos(1));
    let service = layer.layer(service_fn(async |request: Request<String>| -> Answer {
        if request.uri().query().is_some() {
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(Response::default())
    }));
    for request in 0..512 {
        let page = if request % 4 == 0 { "/page?long" } else { "/page" };
        service.clone().oneshot(get(page)).await.unwrap();
        service.clone().oneshot(get("/report?long")).await.unwrap();
    }
    let advice = of_type(&layer, 0).advice.unwrap();
    assert!(advice.starts_with("requests of `page` take from "), "{advice}");
    assert!(of_type(&layer, 0).spread.unwrap().is_wide());
    assert_eq!(of_type(&layer, 1).advice, None);
}

#[tokio::test]
async fn figures_are_published_once_by_the_names_of_the_servers() {
    const REQUESTS: u64 = 40;
    let layer = layer(pool(8));
    let mut publisher = Publisher::new(&layer).name("pages");
    let recorder = PrometheusBuilder::new().build_recorder();
    let page = recorder.handle();
    for _ in 0..REQUESTS {
        echo(&layer).oneshot(get("/page")).await.unwrap();
    }
    for _ in 0..2 {
        metrics::with_local_recorder(&recorder, || publisher.publish());
        let TypeSnapshot { inline, pooled, .. } = of_type(&layer, 0);
        let page = page.render();
        for (name, count) in [
            ("psp_arrivals_total", REQUESTS),
            ("psp_inline_total", inline),
            ("psp_pooled_total", pooled),
            ("psp_completions_total", REQUESTS),
            ("psp_rejections_total", 0),
            ("psp_wait_seconds_count", pooled),
            ("psp_service_seconds_count", REQUESTS),
            ("psp_queue_length", 0),
        ] {
            let line = format!("{name}{{server=\"pages\",type=\"page\"}} {count}");
            assert!(page.lines().any(|it| it == line), "no {line} in\n{page}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn policies_change_under_load_and_every_request_is_answered_once() {
    const REQUESTS: usize = 4000;
    let pool = pool(REQUESTS);
    let layer = layer(pool.clone()).inline_below(Duration::from_micros(2));
    let served = Arc::new(AtomicUsize::new(0));
    let counts = served.clone();
    let service = layer.layer(service_fn(move |request: Request<String>| {
        counts.fetch_add(1, Ordering::Relaxed);
        async move {
            tokio::task::yield_now().await;
            Answer::Ok(Response::new(request.into_body()))
        }
    }));
    let policies = [Policy::darc(), Policy::sjf(), Policy::edf(), Policy::c_fcfs()];
    let mut answers = Vec::new();
    for request in 0..REQUESTS {
        if request % 100 == 0 {
            let policy = &policies[request / 100 % policies.len()];
            pool.set_policy(policy).unwrap();
        }
        let path = ["/page", "/report", "/other"][request % 3];
        answers.push((path, tokio::spawn(service.clone().oneshot(get(path)))));
    }
    for (path, answer) in answers {
        assert_eq!(answer.await.unwrap().unwrap().body().as_str(), path);
    }
    assert_eq!(served.load(Ordering::Relaxed), REQUESTS);
    let types = layer.snapshot().types;
    let sum = |of: fn(&TypeSnapshot) -> u64| types.iter().map(of).sum::<u64>();
    assert_eq!(sum(|it| it.completed), REQUESTS as u64);
    assert_eq!(sum(|it| it.inline + it.pooled), REQUESTS as u64);
    assert_eq!(pool.close(PATIENCE).abandoned, 0);
}
