//! Draws what was found.

use psp_sim::chart::{Axis, Drawing, Panel};

use super::figure::{Figure, PanelOf, Quantity, Share};
use super::run::MEASURED_S;
use super::side::{Found, SIDES, of_system};
use crate::simulated::point::WORKERS;

pub(super) fn drawing(figure: &Figure, found: &[Found]) -> Drawing {
    let sides = 0..SIDES.len();
    let panels = sides.flat_map(|side| {
        let panels = figure.panels.iter();
        panels.map(move |it| panel(figure, it, side, found))
    });
    Drawing {
        name: figure.name.to_owned(),
        title: figure.title.to_owned(),
        series: { figure.series.iter() }.map(|it| it.name.to_owned()).collect(),
        panels: panels.collect(),
        columns: match figure.panels.len() {
            many @ 0..=3 => many,
            4 => 2,
            _ => 3,
        },
        footer: conditions(figure),
    }
}

fn panel(figure: &Figure, of: &PanelOf, side: usize, found: &[Found]) -> Panel {
    let mut last_krps: f64 = 0.0;
    let lines = figure.series.iter().map(|series| {
        if of.quantity != Quantity::Busy && series.share != Share::Mean {
            return Vec::new();
        }
        let points = of_system(found, of.case, series.system).map(|it| {
            last_krps = last_krps.max(it.krps);
            let value = match of.quantity {
                Quantity::Busy => it.sides[side].busy(series.share),
                quantity => it.sides[side].value(quantity, figure.tail),
            };
            (it.krps, value)
        });
        points.filter(|(_, value)| *value > 0.0).collect()
    });
    let lines = lines.collect();
    let percent = figure.tail * 100.0;
    let label = match of.quantity {
        Quantity::Slowdown => format!("p{percent} slowdown"),
        Quantity::Latency | Quantity::LatencyOf(_) => format!("p{percent} latency (us)"),
        Quantity::Preemptions => "Preemptions per request".to_owned(),
        Quantity::Busy => "Time spent on service (%)".to_owned(),
    };
    let (from, to) = of.range;
    Panel {
        title: format!("{}, {}", of.title, SIDES[side]),
        x: Axis::linear("Offered load (thousand requests/s)", 0.0, last_krps),
        y: match of.quantity {
            Quantity::Busy => Axis::linear(label, from, to),
            _ => Axis::log(label, from, to),
        },
        lines,
        target: of.slo.map(|slo| (slo, format!("SLO {slo}"))),
        stretches: Vec::new(),
        steps: false,
    }
}

fn conditions(figure: &Figure) -> Vec<String> {
    let factors = figure.cases().into_iter().map(|case| {
        let (workload, factor) = (case.workload, case.factor());
        format!("{workload} {factor} times")
    });
    let factors: Vec<String> = factors.collect();
    vec![format!(
        "{WORKERS} workers of psp-synthetic that sleep; times dilated ({}) and shown undilated; {MEASURED_S} s of arrivals \
         a point after a tenth of that; requests beside a measured stall of the machine are left out on both sides. \
         Simulated: the same requests, preempted ones resume at home.",
        factors.join(", ")
    )]
}
