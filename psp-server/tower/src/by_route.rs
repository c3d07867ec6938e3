//! Types by the routes of axum.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use axum::extract::MatchedPath;
use http::Request;
use psp_pool::{RequestType, TypeSpec};

use crate::classify::Classify;
use crate::parts::Parts;
use crate::table::Table;

/// Routes that get a type when they are first asked for, unless [`ByRoute::room_for`] says otherwise.
const ROOM: usize = 32;

/// Routes that orchestrators ask. They are cheap, and seldom asked for: a type of their own, which is polled inline
/// from the first request on, has no cold start. One that turns out to be long goes to the pool, as any type.
const PROBES: [&str; 7] = ["/health", "/healthz", "/live", "/livez", "/ready", "/readyz", "/ping"];
const PROBE_TIME: Duration = Duration::from_micros(10);

/// Types requests by the routes of an axum `Router`. Nothing has to be declared: a route gets its type with its first
/// request, and those named `/health`, `/healthz`, `/live`, `/livez`, `/ready`, `/readyz` and `/ping` share one that is
/// taken for short at once. The layer has to be one of the router (`Router::layer`), so that the route is known.
/// Requests that match no route are `UNKNOWN`.
///
/// ```
/// use psp_tower::{ByRoute, decade};
///
/// // `/rows?n=` costs as much as `n` says: a type for each decade of it, up to 10^7.
/// let routes = ByRoute::new().by("/rows", 8, |parts| decade(parts.number("n").unwrap_or(0)));
/// let pool = psp_pool::Pool::builder().types(routes.types());
/// ```
#[derive(Debug)]
pub struct ByRoute {
    table: Table,
    room: usize,
    /// Routes that were not declared, in the order of their first requests.
    seen: RwLock<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    types: HashMap<String, RequestType>,
    names: Vec<String>,
}

impl Default for ByRoute {
    fn default() -> Self {
        Self { table: Table::default(), room: ROOM, seen: RwLock::default() }
    }
}

impl ByRoute {
    /// A type for each route.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// So many types for one route whose cost depends on an argument: `class` says which. What is beyond the last one
    /// belongs to that.
    #[must_use]
    pub fn by(
        mut self,
        route: impl Into<String>,
        classes: usize,
        class: impl Fn(&Parts<'_>) -> usize + Send + Sync + 'static,
    ) -> Self {
        self.table.add_classes(route.into(), classes, Box::new(class));
        self
    }

    /// So many other routes get types; 32 by default. Those that are asked for later are `UNKNOWN`.
    #[must_use]
    pub fn room_for(mut self, routes: usize) -> Self {
        self.room = routes;
        self
    }

    /// The types, for [`Builder::types`](psp_pool::Builder::types), once [`by`](Self::by) and
    /// [`room_for`](Self::room_for) have said all. Those of routes that are not known yet are called `route 0`,
    /// `route 1` and so on there; the layer's snapshots have their true names.
    #[must_use]
    pub fn types(&self) -> Vec<TypeSpec> {
        let mut types = self.table.types();
        let rest = (0..self.room).map(|route| TypeSpec::new(format!("route {route}")));
        types.extend(rest);
        types.push(TypeSpec::new("probes").service_time(PROBE_TIME));
        types
    }

    fn of_route(&self, route: &str) -> RequestType {
        if PROBES.contains(&route) {
            return self.at(self.room);
        }
        let seen = self.seen.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(&request_type) = seen.types.get(route) {
            return request_type;
        }
        if seen.names.len() >= self.room {
            return RequestType::UNKNOWN;
        }
        drop(seen);
        self.add(route)
    }

    /// The type behind so many that routes may get.
    fn at(&self, number: usize) -> RequestType {
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        RequestType::new(self.table.next().saturating_add(number))
    }

    fn add(&self, route: &str) -> RequestType {
        let mut seen = self.seen.write().unwrap_or_else(PoisonError::into_inner);
        let Seen { types, names } = &mut *seen;
        if let Some(&request_type) = types.get(route) {
            return request_type;
        }
        if names.len() >= self.room {
            return RequestType::UNKNOWN;
        }
        let request_type = self.at(names.len());
        types.insert(route.to_owned(), request_type);
        names.push(route.to_owned());
        request_type
    }
}

impl<B> Classify<Request<B>> for ByRoute {
    fn classify(&self, request: &Request<B>) -> RequestType {
        let Some(route) = request.extensions().get::<MatchedPath>() else {
            return RequestType::UNKNOWN;
        };
        let found = self.table.find(route.as_str(), &Parts::of(request));
        found.unwrap_or_else(|| self.of_route(route.as_str()))
    }

    fn type_name(&self, request_type: RequestType) -> Option<String> {
        let seen = self.seen.read().unwrap_or_else(PoisonError::into_inner);
        let index = request_type.index()?;
        let index = index.checked_sub(self.table.next() as usize)?;
        seen.names.get(index).cloned()
    }
}
