//! A plain service of axum: one page is cheap, one is costly, and the cost of one depends on its argument.

use std::hint::black_box;

use axum::Router;
use axum::extract::Query;
use axum::routing::get;

/// Rows that the costly page reads.
const ALL_ROWS: u64 = 2_000_000;

/// The pages.
pub(crate) fn service() -> Router {
    Router::new()
        .route("/fast", get(async || "fast\n"))
        .route("/slow", get(async || sum_of(ALL_ROWS)))
        .route("/rows", get(rows))
}

/// What a page is asked for.
#[derive(serde::Deserialize)]
struct Rows {
    n: u64,
}

async fn rows(Query(Rows { n }): Query<Rows>) -> String {
    sum_of(n.min(ALL_ROWS))
}

/// Computes for as long as there are rows.
fn sum_of(rows: u64) -> String {
    let sum = (0..rows).fold(0_u64, |sum, row| sum.wrapping_add(black_box(row)));
    format!("{sum}\n")
}
