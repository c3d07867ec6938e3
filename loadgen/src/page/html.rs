//! Results as one HTML page without other files: tables, and plots as inline SVG.

use psp_sim::experiment::Conditions;
use psp_sim::text::{Table, escaped, number};

use super::live::live_plots;
use super::measured::{Measured, names};
use super::plot::Plot;
use super::results::Results;
use super::simulated::simulated_plots;

/// The style of the page for light and dark colours. Plots are drawn on white; in the dark their
/// lightness is inverted and their hues stay.
const STYLE: &str = "
:root { color-scheme: light dark; }
body { font: 15px/1.45 system-ui, sans-serif; max-width: 1180px; margin: 2em auto; padding: 0 1em;
  color: #222; background: #fff; }
h1 { font-size: 1.5em; } h2 { font-size: 1.15em; margin-top: 2em; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 0.9em; }
th, td { padding: 0.2em 0.7em; text-align: left; border-bottom: 1px solid #ddd; }
th { border-bottom: 2px solid #999; }
.figure { text-align: right; white-space: nowrap; }
figure { margin: 1.5em 0; }
figure svg { max-width: 100%; height: auto; }
.warning { color: #8a4b00; }
code { font-size: 0.95em; }
@media (prefers-color-scheme: dark) {
  body { color: #ddd; background: #111; }
  th, td { border-color: #333; } th { border-bottom-color: #777; }
  figure svg { filter: invert(0.93) hue-rotate(180deg); }
  .warning { color: #e0a458; }
}
";

/// The page with all `results`.
#[must_use]
pub fn html(title: &str, results: &[Results]) -> String {
    let measured: Vec<_> = results.iter().flat_map(Results::measured).collect();
    let slo: Vec<_> = results.iter().flat_map(Results::slo).collect();
    let title = escaped(title);
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n"
    );
    for result in results {
        page.push_str(&heading(&result.heading()));
        if result.is_interrupted() {
            page.push_str("<p class=\"warning\">Interrupted before its end.</p>\n");
        }
        for (title, table) in result.tables() {
            let (title, table) = (escaped(&title), table.html());
            page.push_str(&format!("<h3>{title}</h3>\n<div class=\"scroll\">{table}</div>\n"));
        }
    }
    let simulations: Vec<_> = results.iter().filter_map(Results::as_sim).collect();
    let plots = live_plots(&measured, &slo).into_iter();
    for Plot { id, caption, svg } in plots.chain(simulated_plots(&simulations)) {
        let caption = escaped(&caption);
        page.push_str(&format!(
            "<figure class=\"plot\" id=\"{id}\">\n{svg}<figcaption>{caption}</figcaption>\n\
             </figure>\n"
        ));
    }
    page.push_str(&heading("Conditions"));
    if !measured.is_empty() {
        page.push_str(&conditions(results, &measured));
    }
    for simulated in results.iter().filter_map(Results::simulated) {
        page.push_str(&simulated_conditions(simulated));
    }
    page.push_str(&warnings(&measured));
    page.push_str("</body>\n</html>\n");
    page
}

fn heading(text: &str) -> String {
    format!("<h2>{}</h2>\n", escaped(text))
}

fn conditions(results: &[Results], measured: &[Measured<'_>]) -> String {
    let heads = ["target", "arrivals", "seeds", "measured", "warm-up", "client"];
    let mut table = Table::new(heads.len(), heads);
    for name in names(measured) {
        let mut runs = measured.iter().filter(|run| run.name == name);
        let Some(first) = runs.next().map(|run| run.report) else {
            continue;
        };
        let mut seeds = vec![first.seed];
        seeds.extend(runs.map(|run| run.report.seed));
        seeds.sort_unstable();
        seeds.dedup();
        let client = &first.client;
        table.push(vec![
            target(name, &first.target),
            first.arrivals.to_string(),
            span(&seeds),
            format!("{} s", number(first.duration_s)),
            format!("{} s", number(first.warmup_s)),
            format!(
                "psp-loadgen {}, {}, {} cores, {}, pipeline {}, timeout {} s",
                client.version,
                client.system,
                client.cores,
                client.waiting,
                client.pipeline,
                number(client.timeout_s),
            ),
        ]);
    }
    let mut text = format!("<div class=\"scroll\">{}</div>\n", table.html());
    for (name, command) in results.iter().flat_map(Results::commands) {
        let (name, command) = (escaped(name), escaped(command));
        text.push_str(&format!("<p>{name}: <code>{command}</code></p>\n"));
    }
    text.push_str(
        "<p>Latency runs from the intended send time to the last byte of the reply; the generator\u{2019}s \
         lag is part of it.</p>\n",
    );
    text
}

fn simulated_conditions(conditions: &Conditions) -> String {
    let settings = conditions.settings.describe(&conditions.policies, " ");
    let lines = settings.lines().map(|line| format!("<code>{}</code>", escaped(line)));
    let settings: Vec<String> = lines.collect();
    format!(
        "<p>Simulated in virtual time: {}.<br>\n{}</p>\n",
        escaped(&conditions.title()),
        settings.join("<br>\n"),
    )
}

fn target(name: &str, url: &str) -> String {
    if name == url {
        name.to_owned()
    } else {
        format!("{name} ({url})")
    }
}

fn span(ascending: &[u64]) -> String {
    match ascending {
        [first, .., last] => format!("{first} to {last}"),
        [only] => only.to_string(),
        [] => String::new(),
    }
}

fn warnings(measured: &[Measured<'_>]) -> String {
    let mut text = String::new();
    for run in measured {
        for warning in &run.report.warnings {
            let rate = number(run.report.overall.offered_rps);
            let line = escaped(&format!("{} at {rate}/s: {warning}", run.name));
            text.push_str(&format!("<p class=\"warning\">Warning: {line}</p>\n"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::simulated::tests::sim_report;
    use crate::report::fixture::report;
    use crate::report::{
        CompareReport, Condition, Range, Report, RunsReport, SWEEP_SCHEMA, SweepPoint, SweepReport, Swept,
    };
    use psp_sim::experiment::{CapacityReport, CapacityResult, Scope, Slo};

    fn at_rate(rate_rps: f64) -> Report {
        let mut report = report();
        report.overall.offered_rps = rate_rps;
        report
    }

    fn sweep() -> SweepReport {
        let slo = vec!["GET.p99_9 < 40us".to_owned()];
        let conditions: Vec<Condition> = slo.iter().map(|text| text.parse().unwrap()).collect();
        let point = |rate_rps| SweepPoint::judge(rate_rps, &conditions, at_rate(rate_rps));
        SweepReport {
            schema: SWEEP_SCHEMA.to_owned(),
            slo,
            range: Range {
                from_rps: 10.0,
                to_rps: 40.0,
                factor: 2.0,
                precision: 0.1,
                tries_max: 1,
            },
            interrupted: false,
            targets: vec![Swept {
                name: "<one> & only".to_owned(),
                command: Some("serve --port {port} > \"log\"".to_owned()),
                held_rps: None,
                points: [10.0, 20.0, 40.0].map(point).into(),
            }],
        }
    }

    #[test]
    fn a_page_stands_alone_and_has_all_plots() {
        let page = html("A <test>", &[Results::Sweep(sweep())]);
        for id in ["latency-by-load", "percentile-curve", "timeline"] {
            assert!(page.contains(&format!("class=\"plot\" id=\"{id}\"")), "{id}");
        }
        assert_eq!(page.matches("<svg").count(), 3);
        assert!(page.contains("A &lt;test&gt;"));
        assert!(page.contains("serve --port {port} &gt; &quot;log&quot;"));
        for outside in ["<script", "src=", "href=", "@import", "url("] {
            assert!(!page.contains(outside), "{outside}");
        }
        assert!(!page.contains("<one>"));
        assert!(page.contains("GET.p99_9 &lt; 40us"));
    }

    #[test]
    fn every_kind_of_results_is_read_back() {
        let runs = RunsReport::new(vec![report(), report()]);
        let named = vec![("one".to_owned(), None, vec![report()])];
        let results = [
            Results::Run(Box::new(report())),
            Results::Runs(runs.clone()),
            Results::Sweep(sweep()),
            Results::Compare(CompareReport::new(named, false)),
            Results::Sim(sim_report()),
            Results::Capacity(capacity()),
        ];
        for result in results {
            let json = match &result {
                Results::Run(report) => serde_json::to_string(report),
                Results::Runs(runs) => serde_json::to_string(runs),
                Results::Sweep(sweep) => serde_json::to_string(sweep),
                Results::Compare(compare) => serde_json::to_string(compare),
                Results::Sim(sim) => serde_json::to_string(sim),
                Results::Capacity(capacity) => serde_json::to_string(capacity),
            };
            assert_eq!(Results::from_json(&json.unwrap()).unwrap(), result);
            let plot = match result {
                Results::Sim(_) => "id=\"simulated-1\"",
                Results::Capacity(_) => "<td>darc</td>",
                _ => "percentile-curve",
            };
            let is_live = result.simulated().is_none();
            let page = html("page", &[result]);
            assert!(page.contains(plot), "{plot}");
            assert_eq!(page.contains("intended send time"), is_live);
            assert_eq!(page.contains("Simulated in virtual time"), !is_live);
        }
    }

    fn capacity() -> CapacityReport {
        let slo = Slo { slowdown: 10.0, percentile: 99.9, scope: Scope::PerType };
        let result = CapacityResult {
            policy: "darc".to_owned(),
            workload: "high-bimodal".to_owned(),
            workers: 4,
            capacity_load: 0.8,
            capacity_rps: 60_000.0,
            miss: None,
        };
        CapacityReport::new(sim_report().conditions, slo, 0.01, vec![result])
    }

    #[test]
    fn other_files_are_refused() {
        for (json, reason) in [
            ("{}", "no JSON report"),
            ("figure,panel,series", "no JSON report"),
            (r#"{"schema": "psp-run/9"}"#, "`psp-run/9`"),
            (r#"{"schema": "psp-run/1"}"#, "no JSON report"),
        ] {
            let error = Results::from_json(json).unwrap_err().to_string();
            assert!(error.contains(reason), "{json}: {error}");
        }
    }
}
