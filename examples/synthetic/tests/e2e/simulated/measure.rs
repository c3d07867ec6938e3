//! Measures many points at the same time: servers whose workers sleep share any number of cores.

use std::thread;

use psp_loadgen::record::Witnesses;

use super::compared::Compared;
use super::point::Point;
use crate::lag::with_lag_ns;

/// Measures all points at the same time. Also returns the lag of the machine meanwhile.
pub(super) fn measure<'p>(points: impl Iterator<Item = &'p Point>) -> (Vec<Compared<'p>>, f64) {
    let witnesses = Witnesses::start().inspect_err(|error| eprintln!("stalls are not measured: {error}")).ok();
    let (lives, lag_ns): (Vec<_>, _) = with_lag_ns(|| {
        thread::scope(|scope| {
            let runs = points.map(|point| (point, scope.spawn(move || point.live())));
            let runs: Vec<_> = runs.collect();
            let joined = runs.into_iter();
            joined.map(|(point, run)| (point, run.join().unwrap())).collect()
        })
    });
    let stalls = witnesses.map(Witnesses::stop).unwrap_or_default();
    let compared = lives.into_iter().map(|(point, live)| point.compare(live, &stalls));
    (compared.collect(), lag_ns)
}
