//! Commands on places. A place is a member of a sorted set: [`crate::geo`] tells its score.
//!
//! Searches walk a snapshot. The STORE variants then replace the destination at one instant.

use psp_protocols::Sink;
use psp_protocols::resp::{Encoder, Version};
use psp_store::{Element, SortedSet};

use super::pace::Pace;
use super::{sorted_sets, walk};
use crate::command::{Context, ReplyEncoder, Row};
use crate::error::CommandError;
use crate::geo::{self, Area, Place, Shape};
use crate::growth::Growth;
use crate::keyspace_events::{Class, Read, Rule};
use crate::parse::{self, Result, is};
use crate::typed::{Typed, read, snapshot};

/// Rows of the command table.
pub(crate) const COMMANDS: &[Row] = &[
    Row::new("geoadd", geoadd).event(Class::SortedSet, "zadd", Rule::Scores),
    Row::new("geodist", geodist),
    Row::new("geohash", geohash),
    Row::new("geopos", geopos),
    Row::new("georadius", |context, args, out| search(context, args, out, Form::RADIUS))
        .event(Class::SortedSet, "georadiusstore", Rule::StoredBehind(&["store", "storedist"]))
        .reads(Read::Between(1, 1)),
    Row::new("georadius_ro", |context, args, out| search(context, args, out, Form::RADIUS.read_only())),
    Row::new("georadiusbymember", |context, args, out| {
        search(context, args, out, Form::RADIUS_BY_MEMBER)
    })
    .event(Class::SortedSet, "georadiusstore", Rule::StoredBehind(&["store", "storedist"]))
    .reads(Read::Between(1, 1)),
    Row::new("georadiusbymember_ro", |context, args, out| {
        search(context, args, out, Form::RADIUS_BY_MEMBER.read_only())
    }),
    Row::new("geosearch", |context, args, out| search(context, args, out, Form::SEARCH)),
    Row::new("geosearchstore", |context, args, out| search(context, args, out, Form::SEARCH_STORE))
        .event(Class::SortedSet, "geosearchstore", Rule::Stored(1))
        .reads(Read::Between(2, 2)),
];

/// Units of distances, in metres.
const UNITS_M: [(&str, f64); 4] = [("m", 1.0), ("km", 1000.0), ("ft", 0.3048), ("mi", 1609.34)];

fn unit_m(arg: &[u8]) -> Result<f64> {
    let found = UNITS_M.iter().find(|(name, _)| is(arg, name));
    found
        .map(|(_, unit_m)| *unit_m)
        .ok_or(CommandError::line("ERR unsupported unit provided. please use M, KM, FT, MI"))
}

fn place(longitude: &[u8], latitude: &[u8]) -> Result<Place> {
    let (longitude, latitude) = (parse::float(longitude)?, parse::float(latitude)?);
    Place::new(longitude, latitude).ok_or_else(|| {
        let line = format!("ERR invalid longitude,latitude pair {longitude:.6},{latitude:.6}");
        CommandError::Other(line.into())
    })
}

/// A measure of an area. `no_number` is the error for what is no number.
fn measure(arg: &[u8], no_number: &'static str) -> Result<f64> {
    parse::float(arg).map_err(|_| CommandError::line(no_number))
}

fn circle(radius: &[u8], unit: &[u8]) -> Result<(Shape, f64)> {
    let radius = measure(radius, "ERR need numeric radius")?;
    if radius < 0.0 {
        return Err(CommandError::line("ERR radius cannot be negative"));
    }
    Ok((Shape::Circle { radius }, unit_m(unit)?))
}

fn rectangle(width: &[u8], height: &[u8], unit: &[u8]) -> Result<(Shape, f64)> {
    let width = measure(width, "ERR need numeric width")?;
    let height = measure(height, "ERR need numeric height")?;
    if width < 0.0 || height < 0.0 {
        return Err(CommandError::line("ERR height or width cannot be negative"));
    }
    Ok((Shape::Rectangle { width, height }, unit_m(unit)?))
}

/// Adds members as ZADD does, with the scores of their places.
fn geoadd(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let is_option = |arg: &&&[u8]| ["nx", "xx", "ch"].iter().any(|name| is(arg, name));
    let options = args[2..].iter().take_while(is_option).count();
    let (head, members) = args.split_at(2 + options);
    let has = |name: &str| head[2..].iter().any(|arg| is(arg, name));
    let (members, rest) = members.as_chunks::<3>();
    if !rest.is_empty() || (has("nx") && has("xx")) {
        return Err(CommandError::Syntax);
    }
    let pace = Pace::new();
    let scores = members.iter().map(|[longitude, latitude, _]| {
        pace.step();
        let score = place(longitude, latitude)?.score();
        Ok(format!("{score:.0}"))
    });
    let scores = scores.collect::<Result<Vec<_>>>()?;
    let mut addition = head.to_vec();
    addition[0] = b"ZADD";
    for (score, [_, _, member]) in scores.iter().zip(members) {
        pace.step();
        addition.extend([score.as_bytes(), member]);
    }
    let added = sorted_sets::zadd(context, &addition, out);
    pace.drop_all(scores);
    added
}

fn geodist(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    let unit_m = match args[4..] {
        [] => 1.0,
        [unit] => unit_m(unit)?,
        _ => return Err(CommandError::Syntax),
    };
    read(context.store, args[1], |set: Option<&SortedSet>| {
        let place = |member: &[u8]| set?.score(member).map(Place::of_score);
        match (place(args[2]), place(args[3])) {
            (Some(from), Some(to)) => write_distance(out, from.distance_m(to) / unit_m),
            _ => out.null(),
        }
    })
}

fn geohash(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    read(context.store, args[1], |set: Option<&SortedSet>| {
        out.array(args.len() - 2);
        let pace = Pace::new();
        for member in &args[2..] {
            pace.step();
            match set.and_then(|set| set.score(member)) {
                Some(score) => out.bulk(&Place::of_score(score).geohash()),
                None => out.null(),
            }
        }
    })
}

fn geopos(context: &mut Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>) -> Result<()> {
    read(context.store, args[1], |set: Option<&SortedSet>| {
        out.array(args.len() - 2);
        let pace = Pace::new();
        for member in &args[2..] {
            pace.step();
            match set.and_then(|set| set.score(member)) {
                Some(score) => write_place(out, Place::of_score(score)),
                None => out.null_array(),
            }
        }
    })
}

/// Four digits behind the point, in both versions of RESP.
fn write_distance<S: Sink + ?Sized>(out: &mut Encoder<'_, S>, distance: f64) {
    let units = (distance * 10_000.0).round_ties_even() as i64;
    out.bulk(format!("{}.{:04}", units / 10_000, units % 10_000).as_bytes());
}

fn write_place<S: Sink + ?Sized>(out: &mut Encoder<'_, S>, place: Place) {
    out.array(2);
    for degrees in [place.longitude, place.latitude] {
        let text = format!("{degrees:.17}");
        let text = text.trim_end_matches('0').trim_end_matches('.');
        match out.version() {
            Version::Resp2 => out.bulk(text.as_bytes()),
            Version::Resp3 => out.raw(format!(",{text}\r\n").as_bytes()),
        }
    }
}

/// What the name of a search says of its arguments.
#[derive(Clone, Copy)]
struct Form {
    /// The index of the source's key.
    source: usize,
    origin: Origin,
    /// The destination is the first argument, before the source.
    stores_first: bool,
    /// STORE and STOREDIST name the destination.
    stores_by_option: bool,
}

/// Where a search has its centre from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    Coordinates,
    Member,
    Options,
}

impl Form {
    const RADIUS: Self = Self {
        source: 1,
        origin: Origin::Coordinates,
        stores_first: false,
        stores_by_option: true,
    };

    const RADIUS_BY_MEMBER: Self = Self { origin: Origin::Member, ..Self::RADIUS };

    const SEARCH: Self = Self {
        source: 1,
        origin: Origin::Options,
        stores_first: false,
        stores_by_option: false,
    };

    const SEARCH_STORE: Self = Self { source: 2, stores_first: true, ..Self::SEARCH };

    const fn read_only(self) -> Self {
        Self { stores_by_option: false, ..self }
    }

    fn of(name: &[u8]) -> Option<Self> {
        [
            ("georadius", Self::RADIUS),
            ("georadius_ro", Self::RADIUS.read_only()),
            ("georadiusbymember", Self::RADIUS_BY_MEMBER),
            ("georadiusbymember_ro", Self::RADIUS_BY_MEMBER.read_only()),
            ("geosearch", Self::SEARCH),
            ("geosearchstore", Self::SEARCH_STORE),
        ]
        .into_iter()
        .find_map(|(of, form)| is(name, of).then_some(form))
    }
}

/// A search, but for its source.
#[derive(Default)]
struct Query<'a> {
    centre: Option<Place>,
    shape: Option<(Shape, f64)>,
    with_distance: bool,
    with_hash: bool,
    with_place: bool,
    order: Option<Order>,
    /// Most places of the result.
    count: Option<usize>,
    /// Any places will do, not only the nearest.
    any: bool,
    target: Option<&'a [u8]>,
    stores_distance: bool,
    by_member: bool,
    by_place: bool,
    by_radius: bool,
    by_box: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    Nearest,
    Farthest,
}

impl<'a> Query<'a> {
    /// Parses the arguments of a search of `set`; without a set, members are taken to be there.
    fn parse(form: Form, args: &[&'a [u8]], set: Option<&SortedSet>) -> Result<Self> {
        let mut query = Self {
            target: form.stores_first.then(|| args[1]),
            ..Self::default()
        };
        let member = |name: &[u8]| match set.map(|set| set.score(name)) {
            None => Ok(None),
            Some(Some(score)) => Ok(Some(Place::of_score(score))),
            Some(None) => Err(CommandError::line("ERR could not decode requested zset member")),
        };
        let options = match form.origin {
            Origin::Coordinates => {
                query.centre = Some(place(args[2], args[3])?);
                query.shape = Some(circle(args[4], args[5])?);
                &args[6..]
            }
            Origin::Member => {
                query.centre = member(args[2])?;
                if set.is_some() {
                    query.shape = Some(circle(args[3], args[4])?);
                }
                &args[5..]
            }
            Origin::Options => &args[form.source + 1..],
        };
        query.parse_options(form, options, member)?;
        query.check(form, args[0])?;
        Ok(query)
    }

    fn parse_options(
        &mut self,
        form: Form,
        mut options: &[&'a [u8]],
        member: impl Fn(&[u8]) -> Result<Option<Place>>,
    ) -> Result<()> {
        let is_search = form.origin == Origin::Options;
        while let Some((name, rest)) = options.split_first() {
            if let Some(flag) = self.flag(form, name) {
                *flag = true;
                options = rest;
                continue;
            }
            options = match *rest {
                _ if is(name, "asc") => {
                    self.order = Some(Order::Nearest);
                    rest
                }
                _ if is(name, "desc") => {
                    self.order = Some(Order::Farthest);
                    rest
                }
                [count, ref rest @ ..] if is(name, "count") => {
                    let count = usize::try_from(parse::integer(count)?).ok();
                    let count = count.filter(|count| *count > 0);
                    self.count = Some(count.ok_or(CommandError::line("ERR COUNT must be > 0"))?);
                    rest
                }
                [target, ref rest @ ..] if form.stores_by_option && (is(name, "store") || is(name, "storedist")) => {
                    self.target = Some(target);
                    self.stores_distance = is(name, "storedist");
                    rest
                }
                [of, ref rest @ ..] if is_search && !self.by_place && is(name, "frommember") => {
                    self.centre = member(of)?;
                    self.by_member = true;
                    rest
                }
                [longitude, latitude, ref rest @ ..] if is_search && !self.by_member && is(name, "fromlonlat") => {
                    self.centre = Some(place(longitude, latitude)?);
                    self.by_place = true;
                    rest
                }
                [radius, unit, ref rest @ ..] if is_search && !self.by_box && is(name, "byradius") => {
                    self.shape = Some(circle(radius, unit)?);
                    self.by_radius = true;
                    rest
                }
                [width, height, unit, ref rest @ ..] if is_search && !self.by_radius && is(name, "bybox") => {
                    self.shape = Some(rectangle(width, height, unit)?);
                    self.by_box = true;
                    rest
                }
                _ => return Err(CommandError::Syntax),
            };
        }
        Ok(())
    }

    /// The option `name`, if it is one without arguments.
    fn flag(&mut self, form: Form, name: &[u8]) -> Option<&mut bool> {
        match name {
            name if is(name, "withdist") => Some(&mut self.with_distance),
            name if is(name, "withhash") => Some(&mut self.with_hash),
            name if is(name, "withcoord") => Some(&mut self.with_place),
            name if is(name, "any") => Some(&mut self.any),
            name if form.stores_first && is(name, "storedist") => Some(&mut self.stores_distance),
            _ => None,
        }
    }

    /// Refuses options that do not go together. Errors quote `command`, as the client spells it.
    fn check(&self, form: Form, command: &[u8]) -> Result<()> {
        let command = String::from_utf8_lossy(command);
        let is_search = form.origin == Origin::Options;
        let line = if self.target.is_some() && self.extras() > 0 {
            let name = if form.stores_first {
                "GEOSEARCHSTORE"
            } else {
                "STORE option in GEORADIUS"
            };
            format!("{name} is not compatible with WITHDIST, WITHHASH and WITHCOORD options")
        } else if is_search && !(self.by_member || self.by_place) {
            format!("exactly one of FROMMEMBER or FROMLONLAT can be specified for {command}")
        } else if is_search && !(self.by_radius || self.by_box) {
            format!("exactly one of BYRADIUS and BYBOX can be specified for {command}")
        } else if self.any && self.count.is_none() {
            "the ANY argument requires COUNT argument".to_owned()
        } else {
            return Ok(());
        };
        Err(CommandError::Other(format!("ERR {line}").into()))
    }

    /// How much the reply tells of each place, besides its name.
    fn extras(&self) -> usize {
        let extras = [self.with_distance, self.with_hash, self.with_place];
        extras.iter().filter(|extra| **extra).count()
    }

    fn area(&self) -> Option<Area> {
        let (centre, (shape, unit_m)) = self.centre.zip(self.shape)?;
        Some(Area { centre, shape, unit_m })
    }
}

/// A member that a search found.
struct Found {
    member: Element,
    score: f64,
    place: Place,
    distance_m: f64,
}

fn search(context: &Context<'_>, args: &[&[u8]], out: &mut ReplyEncoder<'_>, form: Form) -> Result<()> {
    let set: Option<SortedSet> = snapshot(context.store, args[form.source])?;
    let query = Query::parse(form, args, set.as_ref())?;
    let (found, unit_m) = match (&set, query.area()) {
        (Some(set), Some(area)) => (find(set, &area, &query), area.unit_m),
        _ => (Vec::new(), 1.0),
    };
    match query.target {
        Some(target) => {
            let len = store(context, target, &found, query.stores_distance.then_some(unit_m))?;
            out.integer(len as i64);
        }
        None => write_found(out, &found, unit_m, &query),
    }
    Ok(())
}

fn find(set: &SortedSet, area: &Area, query: &Query<'_>) -> Vec<Found> {
    let pace = Pace::new();
    let ranges = area.scores().into_iter();
    let candidates = ranges.flat_map(|scores| set.range(geo::ranks(set, &scores)));
    let found = candidates.filter_map(|scored| {
        pace.step();
        let place = Place::of_score(scored.score);
        let distance_m = area.distance_m(place)?;
        Some(Found {
            member: scored.member.to_element(),
            score: scored.score,
            place,
            distance_m,
        })
    });
    let count = query.count.unwrap_or(usize::MAX);
    let mut found: Vec<_> = if query.any {
        found.take(count).collect()
    } else {
        found.collect()
    };
    let nearest_first = (query.count.is_some() && !query.any).then_some(Order::Nearest);
    let by_distance = |left: &Found, right: &Found| left.distance_m.total_cmp(&right.distance_m);
    match query.order.or(nearest_first) {
        Some(Order::Nearest) => found.sort_by(by_distance),
        Some(Order::Farthest) => found.sort_by(|left, right| by_distance(right, left)),
        None => {}
    }
    found.truncate(count);
    found
}

/// Replaces `target` with what a search found: with their own scores, or with their distances in `distance_unit_m`.
fn store(context: &Context<'_>, target: &[u8], found: &[Found], distance_unit_m: Option<f64>) -> Result<usize> {
    let pace = Pace::new();
    let mut set = SortedSet::new();
    let growth = Growth::new(context.server);
    for place in found {
        pace.step();
        if !growth.has_room(place.member.len()) {
            context.store.discard(set.into_value());
            return growth.check().map(|()| 0);
        }
        let score = distance_unit_m.map_or(place.score, |unit_m| place.distance_m / unit_m);
        set.insert(&place.member, score).map_err(|_| CommandError::NotFloat)?;
    }
    // Storing an empty collection removes the key.
    context.store.insert(target, set.into_value());
    Ok(found.len())
}

fn write_found(out: &mut ReplyEncoder<'_>, found: &[Found], unit_m: f64, query: &Query<'_>) {
    out.array(found.len());
    let extras = query.extras();
    walk::batched(out, |out| {
        for place in found {
            if extras > 0 {
                out.array(1 + extras);
            }
            walk::element(out, &place.member);
            if query.with_distance {
                write_distance(out, place.distance_m / unit_m);
            }
            if query.with_hash {
                out.integer(place.score as i64);
            }
            if query.with_place {
                write_place(out, place.place);
            }
        }
    });
}

/// How many members of `set` a search looks at, for the classifier. `args` are those of one of the search commands.
pub(crate) fn candidates(args: &[&[u8]], set: &SortedSet) -> usize {
    let query = Form::of(args[0]).and_then(|form| Query::parse(form, args, Some(set)).ok());
    // A wrong search gets an error, which is quick.
    let area = query.and_then(|query| query.area());
    area.map_or(0, |area| area.candidates(set))
}

#[cfg(test)]
mod tests {
    use crate::testing::Session;

    const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value";

    /// The places of Redis's manual.
    fn sicily() -> Session {
        let mut session = Session::new();
        session.expect(&[
            ("GEOADD g 13.361389 38.115556 Palermo 15.087269 37.502669 Catania", ":2"),
            ("GEOADD g 12.758489 38.788135 edge1 17.241510 38.788135 edge2", ":2"),
        ]);
        session
    }

    #[test]
    fn places_are_added_and_told() {
        let mut session = sicily();
        session.expect(&[
            ("ZSCORE g Palermo", "$16 3479099956230698"),
            ("GEOADD g NX 0 0 Palermo", ":0"),
            ("GEOADD g XX CH 13.5 38 Palermo 0 0 new", ":1"),
            ("GEOADD g CH 13.361389 38.115556 Palermo", ":1"),
            ("GEOADD g NX XX 0 0 a", "-ERR syntax error"),
            ("GEOADD g 0 0", "-ERR wrong number of arguments for 'geoadd' command"),
            ("GEOADD g 0 0 a 1", "-ERR syntax error"),
            ("GEOADD g x 0 a", "-ERR value is not a valid float"),
            ("GEOADD g 200 100 a", "-ERR invalid longitude,latitude pair 200.000000,100.000000"),
            ("GEOPOS g Palermo none", "*2 *2 $20 13.36138933897018433 $20 38.11555639549629859 *-1"),
            ("GEOPOS none a", "*1 *-1"),
            ("GEOPOS g", "*0"),
            ("GEOHASH g Palermo none Catania", "*3 $11 sqc8b49rny0 $-1 $11 sqdtr74hyu0"),
            ("GEODIST g Palermo Catania", "$11 166274.1516"),
            ("GEODIST g Palermo Catania km", "$8 166.2742"),
            ("GEODIST g Palermo Palermo", "$6 0.0000"),
            ("GEODIST g Palermo none", "$-1"),
            ("GEODIST none a b", "$-1"),
            ("GEODIST g a b parsec", "-ERR unsupported unit provided. please use M, KM, FT, MI"),
            ("GEODIST g a b m m", "-ERR syntax error"),
            ("SET s v", "+OK"),
            ("GEOADD s 0 0 a", WRONG_TYPE),
            ("GEOPOS s a", WRONG_TYPE),
            ("GEODIST s a b", WRONG_TYPE),
            ("GEOHASH s a", WRONG_TYPE),
            ("GEOSEARCH s FROMLONLAT 0 0 BYRADIUS 1 m", WRONG_TYPE),
        ]);
    }

    #[test]
    fn searches_find_what_is_near() {
        sicily().expect(&[
            ("GEOSEARCH g FROMLONLAT 15 37 BYRADIUS 200 km ASC", "*2 $7 Catania $7 Palermo"),
            (
                "GEOSEARCH g FROMLONLAT 15 37 BYBOX 400 400 km ASC WITHDIST",
                "*4 *2 $7 Catania $7 56.4413 *2 $7 Palermo $8 190.4424 *2 $5 edge2 $8 279.7403 \
                 *2 $5 edge1 $8 279.7405",
            ),
            ("GEOSEARCH g FROMMEMBER Palermo BYRADIUS 200 km DESC COUNT 2", "*2 $7 Catania $5 edge1"),
            (
                "GEOSEARCH g FROMLONLAT 15 37 BYRADIUS 200 km COUNT 1 WITHHASH WITHCOORD WITHDIST",
                "*1 *4 $7 Catania $7 56.4413 :3479447370796909 *2 $20 15.08726745843887329 \
                 $20 37.50266842333162032",
            ),
            (
                "GEORADIUS g 15 37 200 km WITHDIST DESC",
                "*2 *2 $7 Palermo $8 190.4424 *2 $7 Catania $7 56.4413",
            ),
            ("GEORADIUS_RO g 15 37 100 km", "*1 $7 Catania"),
            ("GEORADIUSBYMEMBER g Palermo 10 m", "*1 $7 Palermo"),
            ("GEORADIUSBYMEMBER_RO g Palermo 0 m", "*1 $7 Palermo"),
            ("GEOSEARCH none FROMMEMBER a BYRADIUS 1 m", "*0"),
            ("GEOSEARCH g FROMLONLAT 15 37 BYRADIUS 1 m", "*0"),
        ]);
    }

    #[test]
    fn searches_are_stored() {
        sicily().expect(&[
            ("GEOSEARCHSTORE d g FROMLONLAT 15 37 BYRADIUS 200 km", ":2"),
            ("ZSCORE d Palermo", "$16 3479099956230698"),
            ("GEOSEARCHSTORE d g FROMLONLAT 15 37 BYRADIUS 100 km STOREDIST", ":1"),
            ("ZRANGE d 0 -1 WITHSCORES", "*2 $7 Catania $16 56.4412578701582"),
            ("GEORADIUS g 15 37 200 km STORE d", ":2"),
            ("GEORADIUSBYMEMBER g Palermo 1 m STOREDIST d", ":1"),
            ("ZRANGE d 0 -1 WITHSCORES", "*2 $7 Palermo $1 0"),
            ("GEOSEARCHSTORE d g FROMLONLAT 0 0 BYRADIUS 1 m", ":0"),
            ("EXISTS d", ":0"),
            ("SET d v", "+OK"),
            ("GEORADIUSBYMEMBER none a 1 m STORE d", ":0"),
            ("EXISTS d", ":0"),
            ("GEORADIUS_RO g 15 37 200 km STORE d", "-ERR syntax error"),
            ("GEOSEARCH g FROMLONLAT 15 37 BYRADIUS 200 km STOREDIST", "-ERR syntax error"),
        ]);
    }

    #[test]
    fn wrong_searches_are_errors() {
        sicily().expect(&[
            (
                "geoSearch g BYRADIUS 1 m ASC ANY ANY",
                "-ERR exactly one of FROMMEMBER or FROMLONLAT can be specified for geoSearch",
            ),
            (
                "GEOSEARCH g FROMLONLAT 1 2 ASC DESC",
                "-ERR exactly one of BYRADIUS and BYBOX can be specified for GEOSEARCH",
            ),
            ("GEOSEARCH g FROMLONLAT 1 2 FROMMEMBER a BYRADIUS 1 m", "-ERR syntax error"),
            ("GEOSEARCH g FROMLONLAT 1 2 BYRADIUS 1 m BYBOX 1 1 m", "-ERR syntax error"),
            (
                "GEOSEARCH g FROMMEMBER nobody BYRADIUS 1 m",
                "-ERR could not decode requested zset member",
            ),
            (
                "GEOSEARCH g FROMLONLAT 1 2 BYRADIUS 1 m ANY",
                "-ERR the ANY argument requires COUNT argument",
            ),
            ("GEOSEARCH g FROMLONLAT 1 2 BYRADIUS 1 m COUNT 0", "-ERR COUNT must be > 0"),
            ("GEOSEARCH g FROMLONLAT 1 2 BYRADIUS x m", "-ERR need numeric radius"),
            ("GEOSEARCH g FROMLONLAT 1 2 BYRADIUS -1 m", "-ERR radius cannot be negative"),
            ("GEOSEARCH g FROMLONLAT 1 2 BYBOX x 1 m", "-ERR need numeric width"),
            ("GEOSEARCH g FROMLONLAT 1 2 BYBOX 1 x m", "-ERR need numeric height"),
            ("GEOSEARCH g FROMLONLAT 1 2 BYBOX 1 -1 m", "-ERR height or width cannot be negative"),
            (
                "GEORADIUS g 1 2 1 m STORE d WITHDIST",
                "-ERR STORE option in GEORADIUS is not compatible with WITHDIST, WITHHASH and WITHCOORD options",
            ),
            (
                "GEOSEARCHSTORE d g FROMLONLAT 1 2 BYRADIUS 1 m WITHCOORD",
                "-ERR GEOSEARCHSTORE is not compatible with WITHDIST, WITHHASH and WITHCOORD options",
            ),
        ]);
    }

    #[test]
    fn resp3_has_coordinates_as_doubles() {
        let mut session = sicily().resp3();
        session.expect(&[
            ("GEOPOS g Palermo none", "*2 *2 ,13.36138933897018433 ,38.11555639549629859 _"),
            ("GEODIST g Palermo Catania km", "$8 166.2742"),
        ]);
    }
}
