//! The requests in the system: a place for each, and those that wait in lanes by type and level.

use super::admit::{Arrival, PRIORITIES, Ticket};
use crate::event::RequestId;

/// Levels of requests of a type: the priorities, and below them the requests of tenants over their share.
pub(super) const LEVELS: usize = PRIORITIES as usize + 1;

/// The lowest level.
pub(super) const OVER_SHARE: usize = LEVELS - 1;

/// No place.
const NONE: u32 = u32::MAX;

/// What a request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Doing {
    Nothing,
    Waits,
    Runs,
    /// Since when.
    Blocked(u64),
}

/// A request in the system.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) request: RequestId,
    pub(super) slot: usize,
    pub(super) level: usize,
    pub(super) count: u32,
    pub(super) tenant: u32,
    pub(super) ordered: bool,
    pub(super) arrived_ns: u64,
    /// When it is too late for it.
    pub(super) due_ns: u64,
    /// How many places in line it was from its turn at arrival, and how long it was expected to wait.
    pub(super) in_line: f64,
    pub(super) expected_ns: f64,
    /// Service that its tenant was charged for.
    pub(super) charged_ns: f64,
    pub(super) doing: Doing,
    before: u32,
    after: u32,
}

const EMPTY: Place = Place {
    request: RequestId(0),
    slot: 0,
    level: 0,
    count: 0,
    tenant: 0,
    ordered: false,
    arrived_ns: 0,
    due_ns: 0,
    in_line: 0.0,
    expected_ns: 0.0,
    charged_ns: 0.0,
    doing: Doing::Nothing,
    before: NONE,
    after: NONE,
};

#[derive(Debug, Clone, Copy)]
struct Lane {
    oldest: u32,
    newest: u32,
}

/// The requests of one type.
#[derive(Debug, Clone, Copy, Default)]
struct Count {
    /// Those that wait or run, by level.
    in_system: [u32; LEVELS],
    waiting: [u32; LEVELS],
    /// Those of them that must begin in order.
    ordered: u32,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Places {
    places: Vec<Place>,
    free: Vec<u32>,
    /// Of each type slot, a lane for each level.
    lanes: Vec<[Lane; LEVELS]>,
    counts: Vec<Count>,
}

impl Places {
    pub(super) fn new(slots: usize, requests_max: usize) -> Self {
        let lane = Lane { oldest: NONE, newest: NONE };
        Self {
            places: vec![EMPTY; requests_max],
            free: (0..requests_max as u32).rev().collect(),
            lanes: vec![[lane; LEVELS]; slots],
            counts: vec![Count::default(); slots],
        }
    }

    pub(super) fn get(&self, ticket: Ticket) -> &Place {
        &self.places[ticket.0 as usize]
    }

    pub(super) fn get_mut(&mut self, ticket: Ticket) -> &mut Place {
        &mut self.places[ticket.0 as usize]
    }

    /// Requests of the type that wait or run, of this level and those above.
    pub(super) fn in_system(&self, slot: usize, level: usize) -> u32 {
        self.counts[slot].in_system[..=level].iter().sum()
    }

    /// Requests of the type that wait, of this level and those above.
    pub(super) fn waiting(&self, slot: usize, level: usize) -> u32 {
        self.counts[slot].waiting[..=level].iter().sum()
    }

    /// Whether any waiting request of the type must begin in order.
    pub(super) fn is_ordered(&self, slot: usize) -> bool {
        self.counts[slot].ordered > 0
    }

    /// An arrival waits from now on. `None` if there is no place for it.
    pub(super) fn insert(&mut self, slot: usize, level: usize, arrival: &Arrival) -> Option<Ticket> {
        let ticket = Ticket(self.free.pop()?);
        *self.get_mut(ticket) = Place {
            request: arrival.request,
            slot,
            level,
            count: arrival.count,
            tenant: arrival.tenant,
            ordered: arrival.ordered,
            arrived_ns: arrival.arrived_ns,
            doing: Doing::Waits,
            ..EMPTY
        };
        self.counts[slot].in_system[level] += arrival.count;
        self.counts[slot].waiting[level] += arrival.count;
        self.counts[slot].ordered += u32::from(arrival.ordered);
        let lane = &mut self.lanes[slot][level];
        let before = std::mem::replace(&mut lane.newest, ticket.0);
        if before == NONE {
            lane.oldest = ticket.0;
        } else {
            self.places[before as usize].after = ticket.0;
        }
        self.places[ticket.0 as usize].before = before;
        Some(ticket)
    }

    /// A request waits no longer.
    pub(super) fn leave_lane(&mut self, ticket: Ticket) {
        let Place { slot, level, count, ordered, before, after, .. } = *self.get(ticket);
        let lane = &mut self.lanes[slot][level];
        match before {
            NONE => lane.oldest = after,
            before => self.places[before as usize].after = after,
        }
        let lane = &mut self.lanes[slot][level];
        match after {
            NONE => lane.newest = before,
            after => self.places[after as usize].before = before,
        }
        self.counts[slot].waiting[level] -= count;
        self.counts[slot].ordered -= u32::from(ordered);
        self.get_mut(ticket).doing = Doing::Runs;
    }

    /// A request that does not wait leaves the system. Returns what it was.
    pub(super) fn remove(&mut self, ticket: Ticket) -> Place {
        let place = *self.get(ticket);
        if place.doing == Doing::Runs {
            self.counts[place.slot].in_system[place.level] -= place.count;
        }
        self.get_mut(ticket).doing = Doing::Nothing;
        self.free.push(ticket.0);
        place
    }

    /// A running request is blocked: it waits for no worker, and needs none.
    pub(super) fn block(&mut self, now_ns: u64, ticket: Ticket) {
        let Place { slot, level, count, .. } = *self.get(ticket);
        self.counts[slot].in_system[level] -= count;
        self.get_mut(ticket).doing = Doing::Blocked(now_ns);
    }

    /// A blocked request needs a worker again.
    pub(super) fn unblock(&mut self, now_ns: u64, ticket: Ticket) {
        let place = self.get_mut(ticket);
        let Doing::Blocked(since_ns) = place.doing else {
            return;
        };
        place.doing = Doing::Runs;
        // Its time elsewhere is not the server's.
        place.arrived_ns += now_ns - since_ns;
        let Place { slot, level, count, .. } = *place;
        self.counts[slot].in_system[level] += count;
    }

    /// Of each level of the type, from the highest, the waiting request that arrived first.
    pub(super) fn oldest(&self, slot: usize) -> impl Iterator<Item = Ticket> + '_ {
        let lanes = self.lanes[slot].iter().filter(|lane| lane.oldest != NONE);
        lanes.map(|lane| Ticket(lane.oldest))
    }

    /// Of the highest level of the type with waiting requests, the one that arrived last.
    pub(super) fn newest(&self, slot: usize) -> Option<Ticket> {
        let lane = self.lanes[slot].iter().find(|lane| lane.oldest != NONE)?;
        Some(Ticket(lane.newest))
    }

    /// Two waiting requests change their names. Returns that of the second.
    pub(super) fn swap_names(&mut self, one: Ticket, other: Ticket) -> RequestId {
        let (first, second) = (self.get(one).request, self.get(other).request);
        self.get_mut(one).request = second;
        self.get_mut(other).request = first;
        second
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request_type::RequestType;

    fn arrival(request: u32) -> Arrival {
        Arrival::new(RequestId(request), RequestType::new(0), 0)
    }

    #[test]
    fn lanes_keep_the_order_of_arrival_and_let_go_of_anyone() {
        let mut places = Places::new(1, 8);
        let tickets: Vec<Ticket> = (0..4).map(|request| places.insert(0, 3, &arrival(request)).unwrap()).collect();
        let low = places.insert(0, 7, &arrival(9)).unwrap();
        assert_eq!(places.oldest(0).collect::<Vec<_>>(), [tickets[0], low]);
        assert_eq!(places.newest(0), Some(tickets[3]));
        for (leaves, oldest, newest) in [(1, 0, 3), (0, 2, 3), (3, 2, 2)] {
            places.leave_lane(tickets[leaves]);
            assert_eq!(places.oldest(0).next(), Some(tickets[oldest]));
            assert_eq!(places.newest(0), Some(tickets[newest]));
        }
        places.leave_lane(tickets[2]);
        assert_eq!((places.newest(0), places.waiting(0, 6), places.waiting(0, 7)), (Some(low), 0, 1));
        assert_eq!((places.in_system(0, 2), places.in_system(0, 3), places.in_system(0, 7)), (0, 4, 5));
    }

    #[test]
    fn places_are_bounded_and_used_again() {
        let mut places = Places::new(1, 2);
        let first = places.insert(0, 0, &arrival(5)).unwrap();
        let second = places.insert(0, 0, &arrival(6)).unwrap();
        assert_eq!(places.insert(0, 0, &arrival(7)), None);
        assert_eq!(places.swap_names(first, second), RequestId(6));
        assert_eq!((places.get(first).request, places.get(second).request), (RequestId(6), RequestId(5)));
        places.leave_lane(first);
        places.remove(first);
        assert_eq!(places.insert(0, 0, &arrival(7)), Some(first));
    }

    #[test]
    fn a_blocked_request_takes_no_room_and_no_time() {
        let mut places = Places::new(1, 2);
        let ticket = places.insert(0, 0, &arrival(0)).unwrap();
        places.leave_lane(ticket);
        places.block(10, ticket);
        assert_eq!(places.in_system(0, 8), 0);
        places.unblock(25, ticket);
        assert_eq!((places.in_system(0, 8), places.get(ticket).arrived_ns), (1, 15));
        places.block(30, ticket);
        places.remove(ticket);
        assert_eq!(places.in_system(0, 8), 0);
    }
}
