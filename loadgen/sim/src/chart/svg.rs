//! The common style of all figures: small multiples with one legend, as SVG.
//!
//! ```text
//!   title
//!   ── series one   ── series two
//!   ┌ panel ──┐ ┌ panel ──┐ ┌ panel ──┐
//!   └─────────┘ └─────────┘ └─────────┘
//!   conditions, seed
//! ```

use plotters::coord::Shift;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::drawing::{Axis, Drawing, Panel};
use super::ticks::Ticks;

const PANEL_HEIGHT: i32 = 300;
/// Widths of panels in one column, two, and more.
const PANEL_WIDTHS: [i32; 3] = [720, 440, 370];
const MARGIN: i32 = 14;
const TITLE_HEIGHT: i32 = 30;
const LEGEND_ROW_HEIGHT: i32 = 20;
const LEGEND_SAMPLE: i32 = 26;
const FOOTER_ROW_HEIGHT: i32 = 16;
const GAP: i32 = 8;
/// Space of a panel around its plot.
const PLOT_LEFT: i32 = 62;
const PLOT_RIGHT: i32 = 16;
const PLOT_TOP: i32 = 28;
const PLOT_BOTTOM: i32 = 46;
/// Half the size of a marker.
const MARK: i32 = 3;

/// The backend divides sizes by 1.24.
const TITLE_SIZE: f64 = 20.0;
const PANEL_TITLE_SIZE: f64 = 16.5;
const TEXT_SIZE: f64 = 15.0;
const SMALL_SIZE: f64 = 13.5;
/// Mean width of a character of the sizes above, in pixels per unit of size.
const CHAR_WIDTH: f64 = 0.45;

const INK: RGBColor = RGBColor(40, 40, 40);
const FAINT: RGBColor = RGBColor(110, 110, 110);
const GRID: RGBColor = RGBColor(214, 214, 214);
const GRID_LIGHT: RGBColor = RGBColor(238, 238, 238);

/// Colours that people with the common kinds of colour blindness can tell apart (Okabe and Ito).
/// Each has a marker, too.
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(60, 60, 60),
    RGBColor(150, 120, 60),
];

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;

/// The figure as an SVG document. The same numbers give the same document.
#[must_use]
pub fn svg(drawing: &Drawing) -> String {
    let mut document = String::new();
    draw(drawing, &mut document).expect("a string takes whatever is written to it");
    document
}

/// For readers who prefer dark colours, the lightness of the picture is inverted. Hues stay.
const DARK_STYLE: &str = "<style>@media (prefers-color-scheme: dark) \
    { svg { filter: invert(0.93) hue-rotate(180deg); } }</style>\n";

/// The figure as an SVG document of its own, for light and dark backgrounds.
#[must_use]
pub fn standalone_svg(drawing: &Drawing) -> String {
    let mut document = svg(drawing);
    if let Some(end) = document.find('>') {
        document.insert_str(end + 1, DARK_STYLE);
    }
    document
}

fn draw(drawing: &Drawing, document: &mut String) -> Drawn {
    let columns = drawing.columns.max(1);
    let rows = drawing.panels.len().div_ceil(columns) as i32;
    let panel_width = PANEL_WIDTHS[columns.min(PANEL_WIDTHS.len()) - 1];
    let inner_width = columns as i32 * panel_width;
    let legend = Legend::new(drawing, inner_width);
    let footer = wrapped(&drawing.footer, inner_width);
    let legend_top = MARGIN + TITLE_HEIGHT;
    let panels_top = legend_top + legend.height() + GAP;
    let footer_top = panels_top + rows * PANEL_HEIGHT + GAP;
    let height = footer_top + footer.len() as i32 * FOOTER_ROW_HEIGHT + MARGIN;

    let size = ((inner_width + 2 * MARGIN) as u32, height as u32);
    let root = SVGBackend::with_string(document, size).into_drawing_area();
    root.fill(&WHITE)?;
    let title = font(TITLE_SIZE).style(FontStyle::Bold).color(&INK);
    root.draw_text(&drawing.title, &title, (MARGIN, MARGIN))?;
    legend.draw(&root, legend_top)?;
    for (index, panel) in drawing.panels.iter().enumerate() {
        let left = MARGIN + (index % columns) as i32 * panel_width;
        let top = panels_top + (index / columns) as i32 * PANEL_HEIGHT;
        Frame::new((left, top), panel_width, panel).draw(&root)?;
    }
    let small = font(SMALL_SIZE).color(&FAINT);
    for (row, line) in footer.iter().enumerate() {
        let top = footer_top + row as i32 * FOOTER_ROW_HEIGHT;
        root.draw_text(line, &small, (MARGIN, top))?;
    }
    root.present()
}

fn font(size: f64) -> FontDesc<'static> {
    FontDesc::new(FontFamily::SansSerif, size, FontStyle::Normal)
}

fn text_width(text: &str, size: f64) -> i32 {
    (text.chars().count() as f64 * size * CHAR_WIDTH).ceil() as i32
}

/// Breaks lines between words to fit the width.
fn wrapped(lines: &[String], width: i32) -> Vec<String> {
    let mut rows = Vec::new();
    for line in lines {
        let mut row = String::new();
        for word in line.split(' ') {
            if !row.is_empty() && text_width(&row, SMALL_SIZE) + text_width(word, SMALL_SIZE) > width {
                rows.push(std::mem::take(&mut row));
            }
            if !row.is_empty() {
                row.push(' ');
            }
            row.push_str(word);
        }
        rows.push(row);
    }
    rows
}

/// Names of the series beside samples of their lines, in as many rows as needed. A single series
/// has no legend.
struct Legend<'a> {
    entries: Vec<Entry<'a>>,
}

struct Entry<'a> {
    row: i32,
    left: i32,
    name: &'a str,
    /// `None` for the line of the target.
    series: Option<usize>,
}

impl<'a> Legend<'a> {
    fn new(drawing: &'a Drawing, width: i32) -> Self {
        let series = drawing.series.iter().enumerate();
        let series = series.map(|(index, name)| (Some(index), name));
        let targets = drawing.panels.iter().find_map(|panel| panel.target.as_ref());
        let named = series.chain(targets.map(|(_, name)| (None, name)));
        let (mut row, mut left) = (0, 0);
        let mut entries = Vec::new();
        for (series, name) in named {
            let entry_width = LEGEND_SAMPLE + text_width(name, TEXT_SIZE) + 2 * GAP;
            if left > 0 && left + entry_width > width {
                (row, left) = (row + 1, 0);
            }
            entries.push(Entry { row, left: MARGIN + left, name, series });
            left += entry_width;
        }
        if entries.len() == 1 {
            entries.clear();
        }
        Self { entries }
    }

    fn height(&self) -> i32 {
        let rows = self.entries.last().map_or(0, |entry| entry.row + 1);
        rows * LEGEND_ROW_HEIGHT
    }

    fn draw(&self, root: &Area<'_>, top: i32) -> Drawn {
        let style = font(TEXT_SIZE).color(&INK).pos(Pos::new(HPos::Left, VPos::Center));
        for entry in &self.entries {
            let middle = top + entry.row * LEGEND_ROW_HEIGHT + LEGEND_ROW_HEIGHT / 2;
            let (left, right) = (entry.left, entry.left + LEGEND_SAMPLE - GAP);
            match entry.series {
                Some(series) => {
                    polyline(root, &[(left, middle), (right, middle)], line_style(series))?;
                    draw_marker(root, series, (left.midpoint(right), middle))?;
                }
                None => dashes(root, (left, middle), (right, middle))?,
            }
            root.draw_text(entry.name, &style, (left + LEGEND_SAMPLE, middle))?;
        }
        Ok(())
    }
}

fn colour(series: usize) -> RGBColor {
    COLOURS[series % COLOURS.len()]
}

fn line_style(series: usize) -> ShapeStyle {
    colour(series).stroke_width(2)
}

/// A marker in the colour of the series.
fn draw_marker(root: &Area<'_>, series: usize, (x, y): (i32, i32)) -> Drawn {
    let filled = colour(series).filled();
    let corners: &[(i32, i32)] = match series % COLOURS.len() {
        0 | 6 => return root.draw(&Circle::new((x, y), MARK, filled)),
        1 => &[(-1, -1), (1, -1), (1, 1), (-1, 1)],
        2 => &[(0, -1), (1, 1), (-1, 1)],
        3 => &[(0, -1), (1, 0), (0, 1), (-1, 0)],
        4 => &[(0, 1), (1, -1), (-1, -1)],
        5 => &[(-1, 0), (1, -1), (1, 1)],
        _ => &[(1, 0), (-1, -1), (-1, 1)],
    };
    let corner = |(right, down): &(i32, i32)| (x + right * (MARK + 1), y + down * (MARK + 1));
    root.draw(&Polygon::new(corners.iter().map(corner).collect::<Vec<_>>(), filled))
}

fn polyline(root: &Area<'_>, points: &[(i32, i32)], style: ShapeStyle) -> Drawn {
    root.draw(&PathElement::new(points, style))
}

fn dashes(root: &Area<'_>, from: (i32, i32), to: (i32, i32)) -> Drawn {
    root.draw(&DashedPathElement::new([from, to], 5, 4, FAINT.stroke_width(1)))
}

/// A panel and its position on the page.
struct Frame<'a> {
    panel: &'a Panel,
    left: i32,
    right: i32,
    top: i32,
    bottom: i32,
    /// Left edge of the panel with its labels.
    outer_left: i32,
}

impl<'a> Frame<'a> {
    fn new((left, top): (i32, i32), width: i32, panel: &'a Panel) -> Self {
        Self {
            panel,
            left: left + PLOT_LEFT,
            right: left + width - PLOT_RIGHT,
            top: top + PLOT_TOP,
            bottom: top + PANEL_HEIGHT - PLOT_BOTTOM,
            outer_left: left,
        }
    }

    fn x(&self, value: f64) -> i32 {
        position(&self.panel.x, value, self.left, self.right)
    }

    fn y(&self, value: f64) -> i32 {
        position(&self.panel.y, value, self.bottom, self.top)
    }

    fn draw(&self, root: &Area<'_>) -> Drawn {
        self.draw_grid(root)?;
        self.draw_labels(root)?;
        self.draw_stretches(root)?;
        self.draw_target(root)?;
        for (series, line) in self.panel.lines.iter().enumerate() {
            self.draw_line(root, series, line)?;
        }
        Ok(())
    }

    fn draw_grid(&self, root: &Area<'_>) -> Drawn {
        let (x, y) = (Ticks::of(&self.panel.x), Ticks::of(&self.panel.y));
        let across = |at: i32, style| polyline(root, &[(self.left, at), (self.right, at)], style);
        let along = |at: i32, style| polyline(root, &[(at, self.top), (at, self.bottom)], style);
        for value in &y.minor {
            across(self.y(*value), GRID_LIGHT.stroke_width(1))?;
        }
        let small = font(SMALL_SIZE).color(&INK);
        let beside = small.pos(Pos::new(HPos::Right, VPos::Center));
        for (value, label) in &y.major {
            across(self.y(*value), GRID.stroke_width(1))?;
            root.draw_text(label, &beside, (self.left - 6, self.y(*value)))?;
        }
        let below = small.pos(Pos::new(HPos::Center, VPos::Top));
        for (value, label) in &x.major {
            along(self.x(*value), GRID.stroke_width(1))?;
            root.draw_text(label, &below, (self.x(*value), self.bottom + 5))?;
        }
        across(self.bottom, INK.stroke_width(1))?;
        along(self.left, INK.stroke_width(1))
    }

    fn draw_labels(&self, root: &Area<'_>) -> Drawn {
        let centre = |font: FontDesc<'static>, vertical| font.color(&INK).pos(Pos::new(HPos::Center, vertical));
        let middle = self.left.midpoint(self.right);
        let title = centre(font(PANEL_TITLE_SIZE), VPos::Top);
        root.draw_text(&self.panel.title, &title, (middle, self.top - PLOT_TOP + 6))?;
        let below = centre(font(TEXT_SIZE), VPos::Bottom);
        let bottom = self.bottom + PLOT_BOTTOM - 10;
        root.draw_text(&self.panel.x.label, &below, (middle, bottom))?;
        let upwards = centre(font(TEXT_SIZE).transform(FontTransform::Rotate270), VPos::Top);
        let beside = (self.outer_left + 1, self.top.midpoint(self.bottom));
        root.draw_text(&self.panel.y.label, &upwards, beside)
    }

    fn draw_target(&self, root: &Area<'_>) -> Drawn {
        let Some((value, _)) = &self.panel.target else {
            return Ok(());
        };
        let at = self.y(*value);
        dashes(root, (self.left, at), (self.right, at))
    }

    fn draw_stretches(&self, root: &Area<'_>) -> Drawn {
        let stretches = &self.panel.stretches;
        for (index, (from, name)) in stretches.iter().enumerate() {
            let to = stretches.get(index + 1).map_or(self.panel.x.to, |(to, _)| *to);
            let (left, right) = (self.x(*from), self.x(to));
            if index > 0 {
                dashes(root, (left, self.top), (left, self.bottom))?;
            }
            let style = font(SMALL_SIZE).color(&FAINT).pos(Pos::new(HPos::Center, VPos::Top));
            for (row, words) in name.split('\n').enumerate() {
                let top = self.top + 3 + row as i32 * FOOTER_ROW_HEIGHT;
                root.draw_text(words, &style, (left.midpoint(right), top))?;
            }
        }
        Ok(())
    }

    fn draw_line(&self, root: &Area<'_>, series: usize, line: &[(f64, f64)]) -> Drawn {
        let scaled = |(x, y): &(f64, f64)| (*x, self.panel.y.scaled(*y));
        let mut points: Vec<(f64, f64)> = line.iter().map(scaled).collect();
        if self.panel.steps {
            points = stepped(&points);
        }
        let (from, to) = (self.panel.y.scaled(self.panel.y.from), self.panel.y.scaled(self.panel.y.to));
        let height = f64::from(self.bottom - self.top);
        let pixel =
            |(x, y): &(f64, f64)| (self.x(*x), self.bottom - ((y - from) / (to - from) * height).round() as i32);
        for piece in clipped(&points, from, to) {
            let pixels: Vec<_> = piece.iter().map(pixel).collect();
            polyline(root, &pixels, line_style(series))?;
        }
        if self.panel.steps {
            return Ok(());
        }
        for point in points.iter().filter(|(_, y)| (from..=to).contains(y)) {
            draw_marker(root, series, pixel(point))?;
        }
        Ok(())
    }
}

/// The position of a value on the page. `from` and `to` are the ends of the axis there.
fn position(axis: &Axis, value: f64, from: i32, to: i32) -> i32 {
    let (first, last) = (axis.scaled(axis.from), axis.scaled(axis.to));
    let part = (axis.scaled(value) - first) / (last - first);
    from + (part * f64::from(to - from)).round() as i32
}

/// A corner before each point, so that a value holds until the next one.
fn stepped(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut steps: Vec<(f64, f64)> = Vec::with_capacity(2 * points.len());
    for &(x, y) in points {
        steps.extend(steps.last().map(|(_, before)| (x, *before)));
        steps.push((x, y));
    }
    steps
}

/// The pieces of a line between two heights. The line is cut where it crosses them.
fn clipped(points: &[(f64, f64)], from: f64, to: f64) -> Vec<Vec<(f64, f64)>> {
    let mut pieces: Vec<Vec<(f64, f64)>> = Vec::new();
    let mut piece: Vec<(f64, f64)> = Vec::new();
    for pair in points.windows(2) {
        let ((x0, y0), (x1, y1)) = (pair[0], pair[1]);
        let cut = |(x, y): (f64, f64)| {
            let edge = y.clamp(from, to);
            if edge == y {
                return (x, y);
            }
            (x0 + (edge - y0) / (y1 - y0) * (x1 - x0), edge)
        };
        if y0.max(y1) < from || y0.min(y1) > to {
            continue;
        }
        if piece.is_empty() {
            piece.push(cut(pair[0]));
        }
        piece.push(cut(pair[1]));
        if y1 < from || y1 > to {
            pieces.push(std::mem::take(&mut piece));
        }
    }
    pieces.push(piece);
    pieces.retain(|piece| piece.len() > 1);
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_at_the_edge_and_come_back() {
        let line = [(0.0, 1.0), (1.0, 3.0), (2.0, 1.0), (3.0, 1.5)];
        assert_eq!(
            clipped(&line, 0.0, 2.0),
            [vec![(0.0, 1.0), (0.5, 2.0)], vec![(1.5, 2.0), (2.0, 1.0), (3.0, 1.5)]]
        );
        assert!(clipped(&line, 5.0, 6.0).is_empty());
    }

    #[test]
    fn a_step_holds_until_the_next() {
        let corners = [(0.0, 1.0), (2.0, 1.0), (2.0, 4.0)];
        assert_eq!(stepped(&[(0.0, 1.0), (2.0, 4.0)]), corners);
    }

    #[test]
    fn long_legends_and_footers_break() {
        let names: Vec<String> = (0..9).map(|number| format!("series number {number}")).collect();
        let drawing = Drawing {
            name: "wide".to_owned(),
            title: String::new(),
            series: names.clone(),
            panels: Vec::new(),
            columns: 1,
            footer: Vec::new(),
        };
        assert!(Legend::new(&drawing, 400).height() > 2 * LEGEND_ROW_HEIGHT);
        let rows = wrapped(&[names.join(" "), "end".to_owned()], 200);
        assert!(rows.len() > 3);
        assert_eq!(rows.last().unwrap(), "end");
        assert_eq!(rows[..rows.len() - 1].join(" "), names.join(" "));
    }
}
