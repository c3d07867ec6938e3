//! The figures of the papers: all of them draw, and the numbers that the papers name come out.

use std::ops::ControlFlow;

use psp_loadgen::figure::drawing::Drawing;
use psp_loadgen::figure::{self, Figure, Plot, Scale, chart, claim};

fn draw(figures: &[&'static Figure], requests: u64, seed: u64) -> Vec<Drawing> {
    let scale = Scale { requests, seed };
    let plot = Plot::new(figures, &scale).expect("the tables are right");
    plot.run(|| |_| ControlFlow::Continue(()))
        .expect("every simulation works")
}

/// The elements of an SVG document and how often each is there; fails unless tags are nested.
fn elements(document: &str) -> Vec<(String, usize)> {
    let mut open: Vec<&str> = Vec::new();
    let mut counts: Vec<(String, usize)> = Vec::new();
    let mut rest = document;
    while let Some((text, tail)) = rest.split_once('<') {
        assert!(!text.contains('>'), "a stray > in {text:?}");
        let after = text.rsplit('&').next().filter(|_| text.contains('&'));
        assert!(
            after.is_none_or(|entity| entity.contains(';')),
            "a stray & in {text:?}"
        );
        let (tag, tail) = tail.split_once('>').expect("every tag ends");
        rest = tail;
        if tag.starts_with('?') || tag.starts_with('!') {
            continue;
        }
        assert_eq!(tag.matches('"').count() % 2, 0, "quotes in {tag:?}");
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name.trim()));
            continue;
        }
        let name = tag.split([' ', '/', '\n']).next().unwrap_or_default();
        match counts.iter_mut().find(|(known, _)| known == name) {
            Some((_, count)) => *count += 1,
            None => counts.push((name.to_owned(), 1)),
        }
        if !tag.ends_with('/') {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "{open:?} are not closed");
    assert!(rest.trim().is_empty(), "{rest:?} after the end");
    counts
}

#[test]
fn every_figure_draws_a_document() {
    let figures: Vec<&Figure> = figure::all().collect();
    assert!(figures.len() >= 14);
    let drawings = draw(&figures, 500, 1);
    for (figure, drawing) in figures.iter().zip(&drawings) {
        assert_eq!(drawing.name, figure.name);
        assert!(figure::named(figure.name).is_some());
        let document = chart::svg(drawing);
        let elements = elements(&document);
        let count = |name: &str| {
            let found = elements.iter().find(|(element, _)| element == name);
            found.map_or(0, |(_, count)| *count)
        };
        assert_eq!(count("svg"), 1, "{}", figure.name);
        assert!(count("polyline") > 10, "{}", figure.name);
        assert!(document.contains(&drawing.title), "{}", figure.name);
        assert!(
            document.len() < 100_000,
            "{}: {}",
            figure.name,
            document.len()
        );
        // A system that completes nothing of a type has no point there; none is missing altogether.
        for (series, name) in drawing.series.iter().enumerate() {
            let has_line = drawing
                .panels
                .iter()
                .any(|panel| !panel.lines[series].is_empty());
            assert!(has_line, "{} has nothing of {name}", figure.name);
        }
        for claim in figure.claims {
            let subject = claim.subject(drawing);
            assert!(drawing.series_index(claim.series).is_some(), "{subject}");
            assert!(subject.contains(claim.series), "{subject}");
        }
        let rows = claim::rows(figure.claims, drawing);
        assert_eq!(rows.lines().count(), figure.claims.len());
    }
}

#[test]
fn names_differ() {
    let mut names: Vec<&str> = figure::all().map(|figure| figure.name).collect();
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all);
}

#[test]
fn the_seed_decides_every_byte() {
    let figures: Vec<&Figure> = ["persephone-4", "persephone-7", "shinjuku-4"]
        .map(|name| figure::named(name).unwrap())
        .to_vec();
    let documents =
        |seed| -> Vec<String> { draw(&figures, 1_000, seed).iter().map(chart::svg).collect() };
    let first = documents(3);
    assert_eq!(first, documents(3));
    let others = documents(4);
    assert!(first.iter().zip(&others).all(|(one, other)| one != other));
}

#[test]
fn what_is_interrupted_is_missing_and_said_to_be() {
    let figure = figure::named("persephone-4").unwrap();
    let scale = Scale {
        requests: 1_000,
        seed: 1,
    };
    let plot = Plot::new(&[figure], &scale).unwrap();
    assert!(plot.steps() > 20 * scale.requests);
    let drawings = plot.run(|| |_| ControlFlow::Break(())).unwrap();
    assert!(!drawings[0].has_points());
    assert!(drawings[0].footer.last().unwrap().contains("Interrupted"));
    elements(&chart::svg(&drawings[0]));
}

/// Perséphone figure 1: 2.1, 3.7 and 5.1 million requests per second, in this order.
#[test]
fn policies_reach_what_persephone_says() {
    let figure = figure::named("persephone-1").unwrap();
    let [drawing] = &draw(&[figure], 10_000, 1)[..] else {
        panic!("one figure");
    };
    let every_type = &drawing.panels[2];
    let reach = |series: &str| {
        let series = drawing.series_index(series).unwrap();
        every_type.reach(series, 10.0).unwrap_or(0.0)
    };
    let d_fcfs = reach("d-FCFS");
    let c_fcfs = reach("c-FCFS");
    let typed = reach("TS (5 us, 1 us), typed queues");
    let one = reach("TS (5 us, 1 us), one queue");
    let darc = reach("DARC");
    assert!(d_fcfs < c_fcfs && c_fcfs < one && one < typed && typed < darc);
    let near = |ours: f64, paper: f64| (0.75..1.35).contains(&(ours / paper));
    assert!(near(c_fcfs, 2.1), "c-FCFS {c_fcfs}");
    assert!(near(typed, 3.7), "TS {typed}");
    assert!(near(darc, 5.1), "DARC {darc}");
    // 2.5 times and 1.4 times as much, the paper says.
    assert!((1.8..3.0).contains(&(darc / c_fcfs)));
    assert!((1.2..1.8).contains(&(darc / typed)));
}
