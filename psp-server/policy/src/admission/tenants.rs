//! Fair shares of tenants in a table of fixed size.
//!
//! Two rows of counters, as in a count-min sketch: a tenant has one in each row, by two hashes, and what it used is the
//! lesser of the two. So a tenant is taken for another only if it shares both of its counters.

/// Counters in a row.
const COUNTERS: usize = 1024;

const ROWS: usize = 2;

/// A tenant is over its share if it asks for more than so many shares,
const ASKS: f64 = 1.15;

/// and for more than so many equal parts: what is asked for varies, and what is left of it varies more.
const EQUAL_PARTS: f64 = 1.5;

/// and if it has so much of its share already: others shall not crowd it out.
const HAS: f64 = 0.85;

/// Part of the past that an interval leaves.
const KEPT: f64 = 0.97;

/// What the tenants of one counter asked for and got lately, in nanoseconds of service.
#[derive(Debug, Clone, Copy, Default)]
struct Counter {
    asked_ns: f64,
    used_ns: f64,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Tenants {
    rows: [Vec<Counter>; ROWS],
    /// Of the first row, by what was asked.
    ascending: Vec<f64>,
    /// What a tenant may use in the remembered time, in nanoseconds.
    share_ns: f64,
    /// What it asks for at least to be over it.
    asks_least_ns: f64,
    share_max: f64,
    /// Workers' time that is remembered, in nanoseconds.
    remembered_ns: f64,
    seen: bool,
}

impl Tenants {
    /// No tenant may have more than `share_max` while others want it.
    pub(super) fn new(share_max: f64) -> Self {
        Self {
            rows: [vec![Counter::default(); COUNTERS], vec![Counter::default(); COUNTERS]],
            ascending: Vec::with_capacity(COUNTERS),
            share_ns: f64::INFINITY,
            asks_least_ns: f64::INFINITY,
            share_max,
            remembered_ns: 0.0,
            seen: false,
        }
    }

    fn counters(&mut self, tenant: u32) -> [&mut Counter; ROWS] {
        let hash = u64::from(tenant).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let hash = (hash ^ (hash >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        let [first, second] = &mut self.rows;
        [
            &mut first[(hash >> 54) as usize % COUNTERS],
            &mut second[(hash >> 32) as usize % COUNTERS],
        ]
    }

    /// A tenant asks for service. Returns whether it is over its share. Tenant 0 is nobody.
    pub(super) fn asks(&mut self, tenant: u32, service_ns: f64) -> bool {
        if tenant == 0 {
            return false;
        }
        self.seen = true;
        let share_ns = self.share_ns;
        let asks_ns = (ASKS * share_ns).max(self.asks_least_ns);
        let counters = self.counters(tenant);
        let mut over = true;
        for counter in counters {
            counter.asked_ns += service_ns;
            over &= counter.asked_ns > asks_ns && counter.used_ns + service_ns > HAS * share_ns;
        }
        over
    }

    /// A tenant is charged for service; a negative amount is given back.
    pub(super) fn charge(&mut self, tenant: u32, service_ns: f64) {
        if tenant == 0 {
            return;
        }
        for counter in self.counters(tenant) {
            counter.used_ns = (counter.used_ns + service_ns).max(0.0);
        }
    }

    /// An interval ended in which all workers together had so much time.
    pub(super) fn close(&mut self, workers_ns: f64) {
        self.remembered_ns = self.remembered_ns * KEPT + workers_ns;
        if !self.seen {
            return;
        }
        self.ascending.clear();
        let asked = self.rows[0].iter().map(|counter| counter.asked_ns).filter(|asked_ns| *asked_ns >= 1.0);
        self.ascending.extend(asked);
        self.ascending.sort_unstable_by(f64::total_cmp);
        let equal_ns = self.remembered_ns / self.ascending.len().max(1) as f64;
        let (mut left_ns, mut sharing) = (self.remembered_ns, self.ascending.len());
        for asked_ns in &self.ascending {
            // The last one may have what the others leave.
            if sharing == 1 || *asked_ns > left_ns / sharing as f64 {
                break;
            }
            left_ns -= asked_ns;
            sharing -= 1;
        }
        // Nobody's share is below an equal one, whatever is estimated.
        let fair_ns = (left_ns / sharing.max(1) as f64).max(equal_ns);
        let most_ns = self.share_max * self.remembered_ns;
        self.share_ns = fair_ns.min(most_ns);
        self.asks_least_ns = EQUAL_PARTS * equal_ns.min(most_ns);
        for counter in self.rows.iter_mut().flatten() {
            counter.asked_ns *= KEPT;
            counter.used_ns *= KEPT;
        }
        self.share_ns *= KEPT;
        self.asks_least_ns *= KEPT;
        self.seen = self.ascending.last().is_some();
    }
}

#[cfg(test)]
impl Tenants {
    /// What a tenant is charged for.
    pub(super) fn used_ns(&mut self, tenant: u32) -> f64 {
        let [first, second] = self.counters(tenant);
        first.used_ns.min(second.used_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether each tenant is over its share after a while in which each used and asked for so much of the whole.
    fn over(asks: &[f64], share_max: f64) -> Vec<bool> {
        let mut tenants = Tenants::new(share_max);
        for _ in 0..100 {
            for (tenant, asks) in (1..).zip(asks) {
                tenants.asks(tenant, asks * 1e6);
                tenants.charge(tenant, asks * 1e6);
            }
            tenants.close(1e6);
        }
        (1..).zip(asks).map(|(tenant, _)| tenants.asks(tenant, 1.0)).collect()
    }

    #[test]
    fn whoever_takes_more_than_an_equal_part_is_over_it() {
        assert_eq!(over(&[0.1, 0.1, 0.1, 1.0], 1.0), [false, false, false, true]);
        assert_eq!(over(&[0.6, 0.6, 0.6], 1.0), [true, true, true]);
        assert_eq!(over(&[0.4, 0.4], 1.0), [false, false]);
        assert_eq!(over(&[0.3, 0.6], 0.35), [false, true], "more than one may have");
    }

    #[test]
    fn a_million_tenants_need_no_more_memory_and_the_greedy_one_is_found_among_them() {
        let mut tenants = Tenants::new(1.0);
        for round in 0..20 {
            for tenant in 1..=50_000 {
                let tenant = tenant + round * 50_000;
                tenants.asks(tenant, 10.0);
                tenants.charge(tenant, 10.0);
            }
            tenants.asks(7, 500_000.0);
            tenants.charge(7, 500_000.0);
            tenants.close(600_000.0);
        }
        assert!(tenants.asks(7, 10.0));
        let others = (1_000_001..=1_001_000).filter(|tenant| tenants.asks(*tenant, 1.0)).count();
        assert!(others < 10, "{others} of 1000 others are over their share");
        assert_eq!(tenants.rows.iter().map(Vec::len).sum::<usize>(), ROWS * COUNTERS);
        assert!(tenants.rows.iter().flatten().all(|counter| counter.used_ns > 0.0));
    }

    #[test]
    fn nobody_is_never_over_a_share() {
        let mut tenants = Tenants::new(0.01);
        for _ in 0..20 {
            tenants.asks(0, 1e6);
            tenants.charge(0, 1e6);
            tenants.close(1e6);
        }
        assert!(!tenants.asks(0, 1e6));
    }

    #[test]
    fn a_tenant_over_its_share_asks_for_more_than_it_and_has_most_of_it() {
        let mut tenants = Tenants::new(1.0);
        (tenants.share_ns, tenants.asks_least_ns) = (1_000.0, 0.0);
        tenants.charge(1, 800.0);
        let over = [1_150.0, 50.0, 51.0].map(|service_ns| tenants.asks(1, service_ns));
        assert_eq!(over, [false, false, true]);
        tenants.asks_least_ns = 5_000.0;
        assert!(!tenants.asks(1, 51.0));
        // One that has little of it is not over it.
        assert!(!tenants.asks(2, 840.0) && !tenants.asks(2, 840.0));
    }

    #[test]
    fn shares_are_those_of_filling_up_and_the_past_fades() {
        for (asked, share_max, share_ns, equal_ns) in [
            (&[100.0, 300.0, 2_000.0][..], 1.0, 800.0, 400.0),
            (&[100.0, 300.0, 500.0], 1.0, 800.0, 400.0),
            (&[100.0, 900.0, 1_000.0], 1.0, 550.0, 400.0),
            (&[100.0, 900.0, 1_000.0], 0.25, 300.0, 300.0),
        ] {
            let mut tenants = Tenants::new(share_max);
            for (tenant, asked_ns) in (1..).zip(asked) {
                tenants.asks(tenant, *asked_ns);
                tenants.charge(tenant, 10.0);
            }
            tenants.close(1_200.0);
            assert_eq!(
                (tenants.share_ns, tenants.asks_least_ns),
                (share_ns * KEPT, EQUAL_PARTS * equal_ns * KEPT)
            );
            let [counter, _] = tenants.counters(1);
            assert_eq!((counter.asked_ns, counter.used_ns), (100.0 * KEPT, 10.0 * KEPT));
        }
    }
}
