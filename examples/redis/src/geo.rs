//! Places on the earth as scores of sorted sets, and the scores to look at for those near a place.
//!
//! ```text
//!   longitude, latitude ─► 26 bits each ─► interleaved: 52 bits, the score
//!   area ─► the cell that holds its centre, and its eight neighbours ─► ranges of scores
//! ```
//!
//! A cell of `step` has the first `2 * step` bits of its scores in common, so its places are neighbours in the sorted
//! set. Formulas, constants and the order of the cells are those of Redis, so that all results are equal: Niemeyer's
//! geohash, on the range of latitudes of EPSG:3857, and haversine distances.

use std::f64::consts::PI;
use std::ops::Range;

use psp_store::{ScoreBound, SortedSet};

const LONGITUDE_MAX: f64 = 180.0;
const LATITUDE_MAX: f64 = 85.051_128_78;
const EARTH_RADIUS_M: f64 = 6_372_797.560_856;
/// Half of the equator in Mercator's projection, in metres.
const MERCATOR_MAX_M: f64 = 20_037_726.37;
const STEP_MAX: u32 = 26;
/// Bits of a score.
const SCORE_BITS: u32 = 2 * STEP_MAX;
const EVEN_BITS: u64 = 0x5555_5555_5555_5555;
const ALPHABET: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";

/// A place, in degrees.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Place {
    /// East of Greenwich.
    pub longitude: f64,
    /// North of the equator.
    pub latitude: f64,
}

impl Place {
    /// The place, if scores can stand for it.
    #[must_use]
    pub fn new(longitude: f64, latitude: f64) -> Option<Self> {
        let is_valid = longitude.abs() <= LONGITUDE_MAX && latitude.abs() <= LATITUDE_MAX;
        is_valid.then_some(Self { longitude, latitude })
    }

    /// The middle of the cell that `score` stands for.
    #[must_use]
    pub fn of_score(score: f64) -> Self {
        let cell = Cell { bits: score as i64 as u64, step: STEP_MAX };
        let [west, south, east, north] = cell.bounds();
        Self {
            longitude: f64::midpoint(west, east).clamp(-LONGITUDE_MAX, LONGITUDE_MAX),
            latitude: f64::midpoint(south, north).clamp(-LATITUDE_MAX, LATITUDE_MAX),
        }
    }

    /// The score that stands for the place.
    #[must_use]
    pub fn score(self) -> f64 {
        Cell::around(self, STEP_MAX).bits as f64
    }

    /// The 11 letters of the place's standard geohash. It has 52 bits: the last letter is always `0`.
    #[must_use]
    pub fn geohash(self) -> [u8; 11] {
        // The standard's range of latitudes reaches to the poles.
        let bits = self.encode(90.0, STEP_MAX);
        let mut letters = [ALPHABET[0]; 11];
        for (letter, shift) in letters[..10].iter_mut().zip((0..SCORE_BITS - 4).rev().step_by(5)) {
            *letter = ALPHABET[(bits >> shift) as usize % ALPHABET.len()];
        }
        letters
    }

    fn encode(self, latitude_max: f64, step: u32) -> u64 {
        let cells = (1_u64 << step) as f64;
        let part = |value: f64, max: f64| ((value + max) / (max + max) * cells) as u32;
        let latitude = spread(part(self.latitude, latitude_max));
        latitude | spread(part(self.longitude, LONGITUDE_MAX)) << 1
    }

    /// Metres to another place.
    #[must_use]
    pub fn distance_m(self, other: Self) -> f64 {
        let half_sine = |from: f64, to: f64| ((to.to_radians_of_c() - from.to_radians_of_c()) / 2.0).sin();
        let across = half_sine(self.longitude, other.longitude);
        if across == 0.0 {
            return latitude_distance_m(self.latitude, other.latitude);
        }
        let along = half_sine(self.latitude, other.latitude);
        let narrowing = self.latitude.to_radians_of_c().cos() * other.latitude.to_radians_of_c().cos();
        let sum = along * along + narrowing * across * across;
        2.0 * EARTH_RADIUS_M * sum.sqrt().asin()
    }
}

fn latitude_distance_m(from: f64, to: f64) -> f64 {
    EARTH_RADIUS_M * (to.to_radians_of_c() - from.to_radians_of_c()).abs()
}

/// Degrees and radians with the roundings of Redis, which multiplies with and divides by `PI / 180`.
trait Angle {
    fn to_radians_of_c(self) -> f64;
    fn to_degrees_of_c(self) -> f64;
}

impl Angle for f64 {
    fn to_radians_of_c(self) -> f64 {
        self * (PI / 180.0)
    }

    fn to_degrees_of_c(self) -> f64 {
        self / (PI / 180.0)
    }
}

/// Puts a zero before each bit.
fn spread(bits: u32) -> u64 {
    let mut spread = u64::from(bits);
    for (shift, mask) in [
        (16, 0x0000_ffff_0000_ffff),
        (8, 0x00ff_00ff_00ff_00ff),
        (4, 0x0f0f_0f0f_0f0f_0f0f),
        (2, 0x3333_3333_3333_3333),
        (1, EVEN_BITS),
    ] {
        spread = (spread | spread << shift) & mask;
    }
    spread
}

/// Takes every other bit.
fn squeeze(bits: u64) -> u32 {
    let mut squeezed = bits & EVEN_BITS;
    for (shift, mask) in [
        (1, 0x3333_3333_3333_3333),
        (2, 0x0f0f_0f0f_0f0f_0f0f),
        (4, 0x00ff_00ff_00ff_00ff),
        (8, 0x0000_ffff_0000_ffff),
        (16, 0x0000_0000_ffff_ffff),
    ] {
        squeezed = (squeezed | squeezed >> shift) & mask;
    }
    squeezed as u32
}

/// A part of the earth: the first bits of the scores within.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cell {
    bits: u64,
    step: u32,
}

impl Cell {
    fn around(place: Place, step: u32) -> Self {
        let bits = place.encode(LATITUDE_MAX, step);
        Self { bits, step }
    }

    /// West, south, east, north.
    fn bounds(self) -> [f64; 4] {
        let cells = (1_u64 << self.step) as f64;
        let at = |index: u32, max: f64| -max + f64::from(index) / cells * (max + max);
        let (x, y) = (squeeze(self.bits >> 1), squeeze(self.bits));
        [
            at(x, LONGITUDE_MAX),
            at(y, LATITUDE_MAX),
            at(x.wrapping_add(1), LONGITUDE_MAX),
            at(y.wrapping_add(1), LATITUDE_MAX),
        ]
    }

    /// The cell so many cells to the east and to the north, around the earth.
    fn moved(self, east: i32, north: i32) -> Self {
        let last = (1_u32 << self.step) - 1;
        let moved = |index: u32, by: i32| match by {
            0 => index,
            by => index.wrapping_add_signed(by) & last,
        };
        let (x, y) = (squeeze(self.bits >> 1), squeeze(self.bits));
        Self {
            bits: spread(moved(y, north)) | spread(moved(x, east)) << 1,
            ..self
        }
    }

    /// The scores of the places within.
    fn scores(self) -> Range<f64> {
        let aligned = |bits: u64| (bits << (SCORE_BITS - 2 * self.step)) as f64;
        aligned(self.bits)..aligned(self.bits + 1)
    }
}

/// The shape of an area, with its measures in the unit of the area.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Shape {
    /// All places as near as this.
    Circle {
        /// The radius.
        radius: f64,
    },
    /// A rectangle, with the area's centre in the middle.
    Rectangle {
        /// From west to east.
        width: f64,
        /// From south to north.
        height: f64,
    },
}

/// A part of the earth in which places are searched.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Area {
    /// The middle.
    pub centre: Place,
    /// The shape.
    pub shape: Shape,
    /// Metres of one unit.
    pub unit_m: f64,
}

/// Where the neighbours of the middle cell are, to the east and to the north, in the order of the search.
const NEIGHBOURS: [(i32, i32); 8] = [(0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, 1), (1, -1), (-1, -1)];

impl Area {
    /// Metres from the centre to `place`, if it lies in the area.
    #[must_use]
    pub fn distance_m(&self, place: Place) -> Option<f64> {
        let is_inside = match self.shape {
            Shape::Circle { radius } => {
                let distance_m = self.centre.distance_m(place);
                return (distance_m <= radius * self.unit_m).then_some(distance_m);
            }
            Shape::Rectangle { width, height } => {
                let south = latitude_distance_m(place.latitude, self.centre.latitude);
                let beside = Place { longitude: self.centre.longitude, ..place };
                south <= height * self.unit_m / 2.0 && place.distance_m(beside) <= width * self.unit_m / 2.0
            }
        };
        is_inside.then(|| self.centre.distance_m(place))
    }

    /// Metres from the centre to the farthest places.
    fn reach_m(&self) -> f64 {
        let reach = match self.shape {
            Shape::Circle { radius } => radius,
            Shape::Rectangle { width, height } => {
                let (half_width, half_height) = (width / 2.0, height / 2.0);
                (half_width * half_width + half_height * half_height).sqrt()
            }
        };
        reach * self.unit_m
    }

    /// Bounds of the area: west, south, east, north.
    fn bounds(&self) -> [f64; 4] {
        let Place { longitude, latitude } = self.centre;
        let (width, height) = match self.shape {
            Shape::Circle { radius } => (radius, radius),
            Shape::Rectangle { width, height } => (width / 2.0, height / 2.0),
        };
        let [width_m, height_m] = [width, height].map(|half| self.unit_m * half);
        let along = (height_m / EARTH_RADIUS_M).to_degrees_of_c();
        // The side nearer to a pole spans more degrees.
        let side = if latitude < 0.0 {
            latitude - along
        } else {
            latitude + along
        };
        let across = (width_m / EARTH_RADIUS_M / side.to_radians_of_c().cos()).to_degrees_of_c();
        [longitude - across, latitude - along, longitude + across, latitude + along]
    }

    /// Ranges of scores, without their ends, that have all places of the area, in the order of the search.
    #[must_use]
    pub fn scores(&self) -> Vec<Range<f64>> {
        let mut step = step_for(self.reach_m(), self.centre.latitude);
        let mut middle = Cell::around(self.centre, step);
        let [west, south, east, north] = self.bounds();
        let is_covered = {
            let side = |east, north| middle.moved(east, north).bounds();
            side(0, 1)[3] >= north && side(0, -1)[1] <= south && side(1, 0)[2] >= east && side(-1, 0)[0] <= west
        };
        // Near the edge of its cell, an area may reach beyond the neighbours.
        if !is_covered && step > 1 {
            step -= 1;
            middle = Cell::around(self.centre, step);
        }
        let [cell_west, cell_south, cell_east, cell_north] = middle.bounds();
        let is_needed = |(to_east, to_north): (i32, i32)| {
            step < 2
                || !(to_north < 0 && cell_south < south
                    || to_north > 0 && cell_north > north
                    || to_east < 0 && cell_west < west
                    || to_east > 0 && cell_east > east)
        };
        let needed = NEIGHBOURS.into_iter().filter(|at| is_needed(*at));
        let mut cells = vec![middle];
        for (to_east, to_north) in needed {
            let cell = middle.moved(to_east, to_north);
            // Around the whole earth, neighbours are the same cell.
            if cells.len() == 1 || cells.last() != Some(&cell) {
                cells.push(cell);
            }
        }
        cells.into_iter().map(Cell::scores).collect()
    }

    /// How many members of `places` a search looks at.
    #[must_use]
    pub fn candidates(&self, places: &SortedSet) -> usize {
        let ranges = self.scores().into_iter();
        ranges.map(|scores| ranks(places, &scores).len()).sum()
    }
}

/// The ranks of the members with scores in `scores`.
#[must_use]
pub fn ranks(places: &SortedSet, scores: &Range<f64>) -> Range<usize> {
    let bound = |score, exclusive| ScoreBound { score, exclusive };
    places.ranks_by_score(bound(scores.start, false), bound(scores.end, true))
}

/// The step at which nine cells mostly hold an area that reaches so far.
fn step_for(mut reach_m: f64, latitude: f64) -> u32 {
    if reach_m == 0.0 {
        return STEP_MAX;
    }
    let mut step = 1;
    while reach_m < MERCATOR_MAX_M {
        reach_m *= 2.0;
        step += 1;
    }
    // Cells are narrower towards the poles.
    let narrower = [66.0, 80.0].iter().filter(|bound| latitude.abs() > **bound).count() as i32;
    (step - 2 - narrower).clamp(1, STEP_MAX as i32) as u32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn place(longitude: f64, latitude: f64) -> Place {
        Place::new(longitude, latitude).expect("a valid place")
    }

    #[test]
    fn scores_and_distances_are_those_of_redis() {
        let palermo = place(13.361389, 38.115556);
        let catania = place(15.087269, 37.502669);
        assert_eq!(palermo.score(), 3_479_099_956_230_698.0);
        assert_eq!(catania.score(), 3_479_447_370_796_909.0);
        let [palermo, catania] = [palermo, catania].map(|place| Place::of_score(place.score()));
        assert_eq!(palermo.distance_m(catania), 166_274.151_569_600_33);
        assert_eq!(&palermo.geohash(), b"sqc8b49rny0");
        assert_eq!(&catania.geohash(), b"sqdtr74hyu0");
    }

    #[test]
    fn places_beyond_the_ends_have_no_scores() {
        assert_eq!(Place::new(180.1, 0.0), None);
        assert_eq!(Place::new(0.0, -85.06), None);
        assert!(Place::new(-180.0, 85.05).is_some());
    }

    fn any_place() -> impl Strategy<Value = Place> {
        (-180.0..180.0, -85.05..85.05).prop_map(|(longitude, latitude)| place(longitude, latitude))
    }

    proptest! {
        #[test]
        fn a_score_stands_for_its_place(place in any_place()) {
            let middle = Place::of_score(place.score());
            prop_assert!(middle.distance_m(place) < 1.0);
            prop_assert_eq!(middle.score(), place.score());
        }

        #[test]
        fn a_circle_holds_what_the_ranges_find(
            centre in (-150.0..150.0, -60.0..60.0).prop_map(|(longitude, latitude)| place(longitude, latitude)),
            radius in 1.0..1_000_000.0_f64,
            offset in (-1.0..1.0, -1.0..1.0),
        ) {
            let degrees = radius / 111_000.0;
            let near = place(centre.longitude + degrees * offset.0, centre.latitude + degrees * offset.1);
            let near = Place::of_score(near.score());
            let area = Area { centre, shape: Shape::Circle { radius }, unit_m: 1.0 };
            let is_found = area.scores().iter().any(|scores| scores.contains(&near.score()));
            prop_assert!(is_found || area.distance_m(near).is_none());
        }

        #[test]
        fn any_area_has_ranges(
            centre in any_place(),
            measures in (0.0..1e9_f64, 0.0..1e9_f64),
            is_circle: bool,
        ) {
            let shape = if is_circle {
                Shape::Circle { radius: measures.0 }
            } else {
                Shape::Rectangle { width: measures.0, height: measures.1 }
            };
            let ranges = Area { centre, shape, unit_m: 1.0 }.scores();
            prop_assert!((1..=9).contains(&ranges.len()));
        }
    }
}
