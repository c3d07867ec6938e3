//! Draws figures of the papers from live servers, and beside them what the simulator says of the same requests.
//!
//! A figure is a row of [`catalogue`]: the systems, the quantities and the numbers of the paper's text. What systems
//! serve is a row of [`cases`], which figures share.
//!
//! ```text
//!   catalogue ─► Figure ──┐                                        ┌─► SVG, CSV
//!                         ├─► points ─► groups ─► live, simulated ─┤
//!   cases ────► Case ─────┘             (at the same time)         └─► numbers beside the paper's
//! ```

mod case;
mod cases;
mod catalogue;
mod drawing;
mod figure;
mod number;
mod run;
mod side;

use std::fs;
use std::path::PathBuf;

use psp_sim::chart::standalone_svg;

use catalogue::FIGURES;
use drawing::drawing;
use figure::Figure;
use run::{Run, simulated};

/// Where figures are written, unless `PSP_FIGURES` says another folder.
const FOLDER: &str = "../../docs/figures";

/// The figures that `PSP_ONLY` names, separated by commas; without it, all.
fn chosen() -> Vec<&'static Figure> {
    let Ok(names) = std::env::var("PSP_ONLY") else {
        return FIGURES.iter().collect();
    };
    let named = |name: &str| {
        let figure = FIGURES.iter().find(|figure| figure.name == name);
        figure.unwrap_or_else(|| panic!("no live figure is called {name}"))
    };
    names.split(',').map(named).collect()
}

#[test]
#[ignore = "takes a quarter of an hour for all, and writes figures"]
fn live() {
    let figures = chosen();
    let run = Run::of(&figures);
    println!("{}", run.announcement());
    let found = run.measure();
    let folder = std::env::var_os("PSP_FIGURES").map_or_else(|| FOLDER.into(), PathBuf::from);
    let mut wrong = Vec::new();
    for figure in figures {
        let drawing = drawing(figure, &found);
        let path = folder.join(&drawing.name).with_extension("svg");
        fs::write(&path, standalone_svg(&drawing)).unwrap();
        println!("{}:\n{}", path.display(), drawing.csv_rows());
        println!("{}", figure.table(&drawing, &found));
        wrong.extend(figure.wrong_order(&drawing, &found));
    }
    assert!(wrong.is_empty(), "not in the paper's order: {wrong:#?}");
}

/// The same numbers of the simulations alone, so that the tables are right before servers run for minutes.
#[test]
fn simulations_of_the_live_figures_have_the_order_of_the_papers() {
    let figures: Vec<&Figure> = FIGURES.iter().collect();
    let found = simulated(&Run::of(&figures));
    let mut wrong = Vec::new();
    for figure in figures {
        let drawing = drawing(figure, &found);
        println!("{}\n{}", figure.name, figure.table(&drawing, &found));
        for (series, line) in figure.series.iter().enumerate() {
            let is_drawn = drawing.panels.iter().any(|it| !it.lines[series].is_empty());
            assert!(is_drawn, "{} has nothing of {}", figure.name, line.name);
        }
        wrong.extend(figure.wrong_order(&drawing, &found));
    }
    assert!(wrong.is_empty(), "not in the paper's order: {wrong:#?}");
}

#[test]
fn the_documentation_shows_each_live_figure_with_the_numbers_of_its_paper() {
    let documentation = include_str!("../../../../../../docs/figures.md");
    for figure in FIGURES {
        let picture = format!("(figures/{}.svg)", figure.name);
        let mut sections = documentation.split("\n## ");
        let section = sections.find(|section| section.contains(&picture));
        let section = section.unwrap_or_else(|| panic!("docs/figures.md lacks {picture}"));
        for number in figure.numbers {
            let cell = format!("| {} |", number.paper);
            assert!(section.contains(&cell), "{} lacks {cell}", figure.name);
        }
    }
}
