//! One service of axum in the ways in which people keep long handlers out of the way of short ones:
//!
//! ```text
//! variants PORT WAY
//! ```
//!
//! `/fast` answers at once, `/slow?us=5000` computes for so long, and `/rows?n=500000` for 10 ns a row.
//! `bench/tokio_services.sh` compares the ways, which [`Way`] lists.

use std::hint::black_box;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use axum::Router;
use axum::extract::Query;
use axum::routing::get;
use psp_pool::policy::Policy;
use psp_pool::{Pool, RequestType, TypeSpec};
use psp_tower::{ByRoute, PspLayer, decade};
use serde::Deserialize;
use tokio::net::TcpListener;
use tokio::runtime::Handle;

/// The longest computation.
const COMPUTE_MAX: Duration = Duration::from_secs(1);

/// How far a core of this machine counts in a second.
static STEPS_PER_SECOND: LazyLock<f64> = LazyLock::new(|| {
    const STEPS: f64 = 1e8;
    let fastest = (0..5).map(|_| {
        let began = Instant::now();
        count(STEPS / 5.0);
        began.elapsed()
    });
    STEPS / 5.0 / fastest.min().unwrap_or_default().as_secs_f64()
});

/// Takes as much of a core however often that is taken away meanwhile.
fn count(steps: f64) {
    (0..steps as u64).for_each(|step| {
        black_box(step);
    });
}

/// What is done about long handlers.
#[derive(Debug, Clone)]
enum Way {
    /// Nothing.
    Plain,
    /// `/slow` computes in `spawn_blocking`.
    BlockingSlow,
    /// Everything computes in `spawn_blocking`.
    BlockingAll,
    /// `/slow` computes in a pool that is first come, first served, at nice value 19.
    NicePool(Pool),
    /// Everything computes in such a pool.
    NicePoolAll(Pool),
    /// The handlers are plain, in a layer of psp-tower.
    Layer,
}

impl Way {
    fn named(name: &str) -> anyhow::Result<Self> {
        Ok(match name {
            "plain" => Self::Plain,
            "blocking-slow" => Self::BlockingSlow,
            "blocking-all" => Self::BlockingAll,
            "nice-pool-slow" => Self::NicePool(nice_pool()?),
            "nice-pool-all" => Self::NicePoolAll(nice_pool()?),
            "psp" | "psp-no-hand-off" | "psp-by-argument" => Self::Layer,
            _ => anyhow::bail!("no such way: {name}"),
        })
    }

    /// Computes for a time on behalf of a handler.
    async fn compute(&self, time: Duration, is_known_as_slow: bool) -> String {
        let work = move || {
            count(time.min(COMPUTE_MAX).as_secs_f64() * *STEPS_PER_SECOND);
            "done\n".to_owned()
        };
        match self {
            Self::BlockingSlow if is_known_as_slow => blocking(work).await,
            Self::BlockingAll => blocking(work).await,
            Self::NicePool(pool) if is_known_as_slow => pooled(pool, work).await,
            Self::NicePoolAll(pool) => pooled(pool, work).await,
            _ => work(),
        }
    }
}

async fn blocking(work: impl FnOnce() -> String + Send + 'static) -> String {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| error.to_string())
}

async fn pooled(pool: &Pool, work: impl FnOnce() -> String + Send + 'static) -> String {
    let done = pool.run(RequestType::new(0), work).await;
    done.unwrap_or_else(|error| error.to_string())
}

fn nice_pool() -> anyhow::Result<Pool> {
    let pool = Pool::builder().types([TypeSpec::new("work")]);
    Ok(pool.queue_capacity(1 << 16).nice(19).build()?)
}

#[derive(Deserialize)]
struct Slow {
    us: u64,
}

#[derive(Deserialize)]
struct Rows {
    n: u64,
}

fn pages(way: &Way) -> Router {
    let [fast, slow, rows] = [way.clone(), way.clone(), way.clone()];
    let fast = async move || fast.compute(Duration::ZERO, false).await;
    let slow = async move |Query(Slow { us }): Query<Slow>| slow.compute(Duration::from_micros(us), true).await;
    let rows = async move |Query(Rows { n }): Query<Rows>| {
        rows.compute(Duration::from_nanos(10).saturating_mul(n.try_into().unwrap_or(u32::MAX)), true)
            .await
    };
    Router::new()
        .route("/fast", get(fast))
        .route("/slow", get(slow))
        .route("/rows", get(rows))
}

/// The layer of a way.
fn layer(name: &str) -> anyhow::Result<PspLayer<ByRoute>> {
    let mut routes = ByRoute::new();
    if name == "psp-by-argument" {
        routes = routes.by("/rows", 8, |parts| decade(parts.number("n").unwrap_or(0)));
    }
    let pool = Pool::builder().types(routes.types()).policy(Policy::sjf());
    let mut pool = pool.tokio(Handle::current());
    if name == "psp-no-hand-off" {
        pool = pool.spare_threads(0);
    }
    Ok(PspLayer::new(pool.build()?, routes))
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let port: u16 = arguments.next().context("which port?")?.parse()?;
    let name = arguments.next().context("which way?")?;
    let way = Way::named(&name)?;
    LazyLock::force(&STEPS_PER_SECOND);
    let mut pages = pages(&way);
    if matches!(way, Way::Layer) {
        pages = pages.layer(layer(&name)?);
    }
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    axum::serve(listener, pages).await?;
    Ok(())
}
