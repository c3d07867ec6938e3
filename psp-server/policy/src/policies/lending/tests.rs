//! Lending, event by event.

use std::time::Duration;

use proptest::prelude::*;

use crate::event::Sample;
use crate::policy::Policy;
use crate::rehearsal::{ONE, Rehearsal, sample};
use crate::request_type::{RequestType, TypeSpec};
use crate::settings::{Darc, DarcLending};
use crate::setup::Preemption;

const SHORT: RequestType = RequestType::new(0);
const LONG: RequestType = RequestType::new(1);

const MICRO: u64 = 1000;

/// Half 1 us, half 100 us.
fn types() -> [TypeSpec; 2] {
    let spec = |name, micros| {
        let spec = TypeSpec::new(name).service_time(Duration::from_micros(micros));
        spec.share(0.5).queue_capacity(20)
    };
    [spec("SHORT", 1), spec("LONG", 100)]
}

/// Three workers, of which worker 0 is reserved for shorts. Of their SLO, 10 us, they may wait
/// 9 us without a preemption that costs 1 us: an allowance of 8 us.
fn lending(settings: DarcLending) -> Rehearsal {
    Rehearsal::new(settings, 3, types())
}

/// Longs on workers 1 and 2, since 0 and 10 us, and one that borrowed worker 0 at 65 us.
fn all_lent(settings: DarcLending) -> Rehearsal {
    let mut rehearsal = lending(settings);
    assert_eq!(rehearsal.arrives(0, 0, LONG), "0@1");
    assert_eq!(rehearsal.arrives(10 * MICRO, 1, LONG), "1@2");
    assert_eq!(rehearsal.arrives(20 * MICRO, 2, LONG), "");
    // A twentieth of what 1000 us leave beside the 100 that it takes and the one to come back.
    let borrows_ns = 20 * MICRO + 44_950;
    assert_eq!(rehearsal.deadline_ns(), Some(borrows_ns));
    assert_eq!(rehearsal.ticks(borrows_ns - 1), "");
    assert_eq!(rehearsal.ticks(borrows_ns), "2@0");
    assert_eq!(rehearsal.deadline_ns(), None);
    rehearsal
}

#[test]
fn a_long_borrows_when_it_waited_and_is_preempted_when_a_short_did() {
    let mut rehearsal = all_lent(DarcLending::default());
    assert_eq!(rehearsal.arrives(70 * MICRO, 3, SHORT), "");
    // Nothing presses on the longs: a tenth of 8 us.
    assert_eq!(rehearsal.deadline_ns(), Some(70_800));
    assert_eq!(rehearsal.ticks(70_799), "");
    assert_eq!(rehearsal.ticks(70_800), "stop 0", "it has most before it");
    assert_eq!(rehearsal.deadline_ns(), None);
    assert_eq!(rehearsal.yields_after(71_800, 0, 5_850), "3@0");
    assert_eq!(rehearsal.completes(72_800, 0), "2@0", "it waited before");
    assert_eq!(rehearsal.arrives(73 * MICRO, 4, SHORT), "");
    assert_eq!(rehearsal.completes(73_500, 1), "4@1", "no need to preempt");
}

#[test]
fn each_change_of_the_workers_reserves_them_anew() {
    let mut rehearsal = lending(DarcLending::default());
    assert_eq!(rehearsal.reservation_updates(), 1);
    rehearsal.has_workers(2);
    assert_eq!(rehearsal.reservation_updates(), 2);
    let mut unhinted = Rehearsal::with_one_type(Policy::darc_lending(), 3);
    unhinted.has_workers(2);
    assert_eq!(unhinted.reservation_updates(), 0, "nothing was reserved");
}

#[test]
fn patience_grows_while_longs_wait() {
    let mut rehearsal = all_lent(DarcLending::default());
    rehearsal.arrives(70 * MICRO, 3, LONG);
    rehearsal.arrives(200 * MICRO, 4, SHORT);
    // The long has waited 130 of 899 us, twice that is 0.29 of the short's 8 us; the more it
    // waits the longer the short does, which takes several looks.
    let mut looks = vec![rehearsal.deadline_ns().unwrap()];
    while rehearsal.ticks(*looks.last().unwrap()).is_empty() {
        looks.push(rehearsal.deadline_ns().unwrap());
    }
    let waited_ns = looks.last().unwrap() - 200 * MICRO;
    assert!((2_310..2_400).contains(&waited_ns), "{looks:?}");
    assert!(looks.is_sorted() && looks.len() < 5, "{looks:?}");
}

#[test]
fn the_request_with_the_least_of_its_allowance_left_goes_first() {
    for (short_us, first) in [(600, "4@1"), (961, "4@1"), (966, "3@1"), (1_000, "4@1")] {
        let mut rehearsal = all_lent(DarcLending::default());
        // It may wait for 899 us.
        rehearsal.arrives(70 * MICRO, 3, LONG);
        assert_eq!(rehearsal.arrives(short_us * MICRO, 4, SHORT), "");
        assert_eq!(rehearsal.completes(short_us * MICRO + 1, 1), first, "at {short_us} us");
    }
}

#[test]
fn no_worker_is_taken_back_for_a_short_before_the_turn_of_a_long() {
    for (longs, stops) in [(3, "stop 0"), (4, "")] {
        let mut rehearsal = all_lent(DarcLending::default().patience(0.1));
        // It may wait for 899 us, and has 3 us left.
        (3..longs).for_each(|id| assert_eq!(rehearsal.arrives(70 * MICRO, id, LONG), ""));
        assert_eq!(rehearsal.arrives(966 * MICRO, 4, SHORT), "");
        assert_eq!(rehearsal.ticks(966_800), stops);
    }
}

#[test]
fn patience_ends_at_its_maximum() {
    let mut rehearsal = all_lent(DarcLending::default());
    rehearsal.arrives(70 * MICRO, 3, LONG);
    rehearsal.arrives(570 * MICRO, 4, SHORT);
    assert_eq!(rehearsal.deadline_ns(), Some(574_800), "0.6 of 8 us");
}

#[test]
fn one_worker_serves_many_shorts_and_another_comes_when_it_cannot() {
    let mut rehearsal = all_lent(DarcLending::default().patience_min(0.5));
    rehearsal.arrives(70 * MICRO, 3, SHORT);
    assert_eq!(rehearsal.ticks(74 * MICRO), "stop 0");
    // Behind the first, each takes the coming worker 1 us; half of the allowance is 4 us.
    for id in 4..7 {
        assert_eq!(rehearsal.arrives(74_100, id, SHORT), "");
    }
    assert_eq!(rehearsal.arrives(74_200, 7, SHORT), "stop 2");
    for id in 8..12 {
        assert_eq!(rehearsal.arrives(74_300, id, SHORT), "");
    }
    assert_eq!(rehearsal.arrives(74_400, 12, SHORT), "stop 1");
    assert_eq!(rehearsal.arrives(74_500, 13, SHORT), "", "none is left");
}

#[test]
fn a_group_that_cannot_wait_for_a_preemption_does_not_lend() {
    let preemption = Some(Preemption::new(6_000));
    let mut rehearsal = Rehearsal::with_preemption(Policy::darc_lending(), 3, types(), preemption);
    for (id, expected) in [(0, "0@1"), (1, "1@2"), (2, "")] {
        assert_eq!(rehearsal.arrives(0, id, LONG), expected);
    }
    assert_eq!(rehearsal.deadline_ns(), None);
    assert_eq!(rehearsal.ticks(500 * MICRO), "");
    assert_eq!(rehearsal.arrives(500 * MICRO, 3, SHORT), "3@0");
    assert_eq!(rehearsal.arrives(500 * MICRO, 4, SHORT), "");
    assert_eq!(rehearsal.ticks(600 * MICRO), "");
    assert_eq!(rehearsal.completes(600 * MICRO, 0), "4@0");
}

#[test]
fn a_types_own_slo_says_how_long_it_may_wait() {
    let [short, long] = types();
    let short = short.slo(Duration::from_micros(42));
    let mut rehearsal = Rehearsal::new(Policy::darc_lending(), 1, [short, long]);
    rehearsal.arrives(0, 0, LONG);
    rehearsal.arrives(MICRO, 1, SHORT);
    // A tenth of 42 us without 1 us of its own and 1 us for the preemption.
    assert_eq!(rehearsal.deadline_ns(), Some(5 * MICRO));
    assert_eq!(rehearsal.ticks(5 * MICRO), "stop 0");
}

#[test]
fn the_shorter_of_two_longer_groups_is_spared() {
    let [short, long] = types();
    let medium = TypeSpec::new("MEDIUM").service_time(Duration::from_micros(10));
    let mut rehearsal = Rehearsal::new(Policy::darc_lending(), 2, [short, long, medium]);
    assert_eq!(rehearsal.arrives(0, 0, LONG), "0@1");
    let medium = RequestType::new(2);
    assert_eq!(rehearsal.arrives(1, 1, medium), "1@0");
    rehearsal.arrives(2, 2, SHORT);
    assert_eq!(rehearsal.ticks(2 + 800), "stop 1");
    assert_eq!(rehearsal.arrives(900, 3, medium), "");
    assert_eq!(rehearsal.yields_after(1_802, 1, 802), "2@1");
    assert_eq!(rehearsal.completes(2_802, 1), "3@1", "medium before long");
    assert_eq!(rehearsal.completes(10_002, 0), "", "it has not waited enough to borrow");
}

/// Rules for a single type that a window of 100 samples shows to be widely spread: half 1 us, half
/// 100 us. They age after 20 us.
fn spread(workers: usize) -> Rehearsal {
    let settings = DarcLending::default().aged_after_costs(20.0);
    let settings = settings.darc(Darc::default().samples_min(100));
    let mut rehearsal = Rehearsal::with_one_type(settings, workers);
    for id in 0..100 {
        rehearsal.arrives(u64::from(id), id, ONE);
        let service_ns = [MICRO, 100 * MICRO][id as usize % 2];
        rehearsal.measures(u64::from(id), 0, &[sample(ONE, service_ns)]);
    }
    rehearsal
}

#[test]
fn a_request_of_a_spread_type_makes_way_when_it_is_aged() {
    let mut rehearsal = spread(1);
    assert_eq!(rehearsal.arrives(1_000, 0, ONE), "0@0");
    assert_eq!(rehearsal.arrives(2_000, 1, ONE), "");
    assert_eq!(rehearsal.deadline_ns(), Some(21_000));
    assert_eq!(rehearsal.ticks(21_000), "stop 0");
    assert_eq!(rehearsal.arrives(21_500, 2, ONE), "");
    assert_eq!(rehearsal.yields_after(22_000, 0, 20_000), "1@0");
    assert_eq!(rehearsal.completes(23_000, 0), "2@0", "the aged one goes last");
    assert_eq!(rehearsal.completes(24_000, 0), "0@0");
    assert_eq!(rehearsal.arrives(24_100, 3, ONE), "stop 0", "it is aged still");
}

#[test]
fn a_spread_that_is_known_from_before_counts_from_the_first_request_on() {
    let settings = DarcLending::default().aged_after_costs(20.0);
    let types = || [TypeSpec::new("ONE").service_time(Duration::from_micros(50))];
    let samples: Vec<Sample> = (0..100).map(|number| sample(ONE, [MICRO, 100 * MICRO][number % 2])).collect();
    for (samples, stops) in [(&samples[..], "stop 0"), (&[], "")] {
        let mut rehearsal = Rehearsal::with_history(settings.clone(), 1, types(), samples, 100 * 50 * MICRO);
        assert_eq!(rehearsal.arrives(1_000, 0, ONE), "0@0");
        assert_eq!(rehearsal.arrives(2_000, 1, ONE), "");
        assert_eq!(rehearsal.ticks(21_000), stops);
    }
}

/// Its shortest requests cannot wait for a preemption.
#[test]
fn as_many_workers_are_kept_idle_as_requests_arrived_during_a_preemption_before() {
    let settings = DarcLending::default().aged_after_costs(20.0);
    let types = || [TypeSpec::new("ONE").service_time(Duration::from_micros(50))];
    let samples: Vec<Sample> = (0..100).map(|number| sample(ONE, [MICRO / 20, 100 * MICRO][number % 2])).collect();
    for (every_ns, stops) in [(10_000, 0), (500, 1), (250, 3)] {
        let mut rehearsal = Rehearsal::with_history(settings.clone(), 10, types(), &samples, 100 * every_ns);
        for id in 0..9 {
            assert_eq!(rehearsal.arrives(1_000, id, ONE), format!("{id}@{id}"));
        }
        let stopped = rehearsal.ticks(21_000).matches("stop").count();
        assert_eq!(stopped, stops, "one every {every_ns} ns");
    }
}

/// Its shortest requests cannot wait for a preemption.
#[test]
fn an_aged_request_goes_on_when_more_workers_idle_than_are_kept_so() {
    let settings = DarcLending::default().aged_after_costs(20.0);
    let types = [TypeSpec::new("ONE").service_time(Duration::from_micros(50))];
    let samples: Vec<Sample> = (0..100).map(|number| sample(ONE, [MICRO / 20, 100 * MICRO][number % 2])).collect();
    let mut rehearsal = Rehearsal::with_history(settings, 3, types, &samples, 100 * 50 * MICRO);
    for (id, expected) in [(0, "0@0"), (1, "1@1"), (2, "2@2")] {
        assert_eq!(rehearsal.arrives(u64::from(id), id, ONE), expected);
    }
    assert_eq!(rehearsal.ticks(20 * MICRO + 2), "stop 0", "one is to be idle");
    assert_eq!(rehearsal.yields_after(21 * MICRO, 0, 21 * MICRO), "");
    assert_eq!(rehearsal.arrives(22 * MICRO, 3, ONE), "3@0, stop 1");
    assert_eq!(rehearsal.yields_after(23 * MICRO, 1, 23 * MICRO), "");
    assert_eq!(rehearsal.completes(24 * MICRO, 0), "0@0", "two were idle");
    assert_eq!(rehearsal.ticks(30 * MICRO), "", "one is");
    assert_eq!(rehearsal.completes(31 * MICRO, 2), "1@2");
}

#[test]
fn an_aged_request_makes_way_for_one_that_ran_for_much_less() {
    let mut rehearsal = spread(1);
    assert_eq!(rehearsal.arrives(1_000, 0, ONE), "0@0");
    assert_eq!(rehearsal.arrives(2_000, 1, ONE), "");
    assert_eq!(rehearsal.ticks(21_000), "stop 0");
    assert_eq!(rehearsal.yields_after(22_000, 0, 20_000), "1@0");
    // Both are aged after 20 us; a level ends at four times that.
    assert_eq!(rehearsal.deadline_ns(), Some(102_000));
    assert_eq!(rehearsal.ticks(101_999), "");
    assert_eq!(rehearsal.ticks(102_000), "stop 0");
    assert_eq!(rehearsal.yields_after(103_000, 0, 80_000), "0@0");
    assert_eq!(rehearsal.ticks(200_000), "", "the other ran for longer");
    assert_eq!(rehearsal.completes(210_000, 0), "1@0");
}

#[test]
fn requests_of_a_varied_type_wait_as_the_shortest_of_them_can() {
    let settings = DarcLending::default().aged_after_costs(20.0);
    let settings = settings.darc(Darc::default().samples_min(100));
    let mut rehearsal = all_lent(settings);
    for id in 0..50 {
        let shorts = [500, 1_500].map(|ns| sample(SHORT, ns));
        let at_ns = 80 * MICRO + id;
        assert_eq!(rehearsal.measures(at_ns, 1, &shorts), "");
        assert_eq!(rehearsal.arrives(at_ns, 100 + id as u32, LONG), format!("{}@1", 100 + id));
    }
    assert_eq!(rehearsal.arrives(90 * MICRO, 3, SHORT), "");
    // A tenth of the 3.5 us that nine times half a microsecond leave beside the preemption.
    let waits_ns = rehearsal.deadline_ns().unwrap() - 90 * MICRO;
    assert!((300..400).contains(&waits_ns), "{waits_ns}");
}

#[test]
fn what_is_aged_or_stopping_goes_on_under_another_policy() {
    let mut rehearsal = spread(2);
    assert_eq!(rehearsal.arrives(1_000, 0, ONE), "0@0");
    assert_eq!(rehearsal.arrives(1_000, 1, ONE), "1@1");
    rehearsal.arrives(30_000, 2, ONE);
    rehearsal.arrives(30_000, 3, ONE);
    assert_eq!(rehearsal.yields_after(31_000, 0, 30_000), "2@0");
    assert_eq!(rehearsal.arrives(31_000, 4, ONE), "");
    let next = Rehearsal::with_one_type(Policy::c_fcfs(), 2);
    assert_eq!(rehearsal.switches(31_500, next), "");
    assert_eq!(rehearsal.yields_after(32_000, 1, 31_000), "0@1", "c-FCFS goes by arrival");
    assert_eq!(rehearsal.completes(33_000, 1), "1@1");
    assert_eq!(rehearsal.completes(33_000, 0), "3@0");
    let next = Rehearsal::with_one_type(Policy::darc_lending(), 2);
    assert_eq!(rehearsal.switches(33_000, next), "");
    assert_eq!(rehearsal.completes(34_000, 0), "4@0");
}

#[test]
fn what_has_less_of_its_allowance_left_than_the_short_is_not_preempted_for_it() {
    let mut rehearsal = lending(DarcLending::default());
    for (us, id, request_type, expected) in
        [(0, 0, LONG, "0@1"), (10, 1, LONG, "1@2"), (15, 2, SHORT, "2@0"), (20, 3, LONG, "")]
    {
        assert_eq!(rehearsal.arrives(us * MICRO, id, request_type), expected);
    }
    // It may wait for 899 us, and waited for 895.
    assert_eq!(rehearsal.completes(915 * MICRO, 0), "3@0");
    assert_eq!(rehearsal.arrives(916 * MICRO, 4, SHORT), "");
    assert_eq!(rehearsal.ticks(916_800), "stop 2");
}

/// Three workers, of which worker 0 is reserved for SPREAD, half of which takes 50 ns and half 100 us. These age after
/// 20 us, and cannot wait for a preemption. The others are for LONG requests of 10 ms.
fn spread_and_long(settings: DarcLending) -> Rehearsal {
    let spec = |name, us| TypeSpec::new(name).service_time(Duration::from_micros(us)).share(0.5);
    let spread = [50, 100 * MICRO].into_iter().cycle().map(|ns| sample(SHORT, ns));
    let samples: Vec<Sample> = spread.take(100).chain(vec![sample(LONG, 10_000 * MICRO); 100]).collect();
    let types = [spec("SPREAD", 50), spec("LONG", 10_000)];
    Rehearsal::with_history(settings.aged_after_costs(20.0), 3, types, &samples, 1_000_000 * MICRO)
}

#[test]
fn longer_requests_make_way_for_one_that_waits_and_for_none_yet_to_come() {
    let mut rehearsal = spread_and_long(DarcLending::default());
    for (id, expected) in [(0, "0@1"), (1, "1@2"), (2, "")] {
        assert_eq!(rehearsal.arrives(0, id, LONG), expected);
    }
    let borrows_ns = rehearsal.deadline_ns().unwrap();
    assert_eq!(rehearsal.ticks(borrows_ns), "2@0");
    assert_eq!(rehearsal.deadline_ns(), None);
    assert_eq!(rehearsal.arrives(borrows_ns + 100, 3, SHORT), "stop 0");
}

/// LONG requests on workers 1 and 2, and one of SPREAD that ran for 21 us and leaves worker 0 idle.
fn one_is_aged(settings: DarcLending) -> Rehearsal {
    let mut rehearsal = spread_and_long(settings);
    (0..2).for_each(|id| _ = rehearsal.arrives(0, id, LONG));
    assert_eq!(rehearsal.arrives(0, 2, SHORT), "2@0");
    assert_eq!(rehearsal.ticks(20 * MICRO), "stop 0");
    assert_eq!(rehearsal.yields_after(21 * MICRO, 0, 21 * MICRO), "");
    rehearsal
}

/// What a request of SPREAD may wait that runs for 21 us: of its like, which take 50 us, one may wait for 449.
const AGED_WAITS_NS: f64 = 21_000.0 * 449.0 / 50.0;

#[test]
fn an_aged_request_that_is_late_takes_the_worker_that_was_to_be_idle() {
    let mut rehearsal = one_is_aged(DarcLending::default().patience(1.0).patience_min(1.0));
    let late_ns = 21 * MICRO + (AGED_WAITS_NS / 5.0) as u64;
    assert_eq!(rehearsal.deadline_ns(), Some(late_ns));
    assert_eq!(rehearsal.ticks(late_ns - 1), "");
    assert_eq!(rehearsal.ticks(late_ns), "2@0");
    // It is not asked to stop at once, but after as long as five preemptions take.
    assert_eq!(rehearsal.deadline_ns(), Some(late_ns + 5 * MICRO));
    assert_eq!(rehearsal.ticks(late_ns + 5 * MICRO), "stop 0");
}

#[test]
fn a_longer_request_makes_way_for_an_aged_one_that_has_waited_for_a_part_of_what_it_may() {
    let mut rehearsal = one_is_aged(DarcLending::default());
    let due_ns = 21 * MICRO + (AGED_WAITS_NS / 10.0) as u64;
    assert_eq!(rehearsal.deadline_ns(), Some(due_ns));
    assert_eq!(rehearsal.ticks(due_ns - 1), "");
    assert_eq!(rehearsal.ticks(due_ns), "stop 2, 2@0", "another is to be idle");
}

#[test]
fn an_aged_request_goes_on_where_a_longer_one_would_take_its_worker_at_once() {
    for longs in [2, 3] {
        let mut rehearsal = spread_and_long(DarcLending::default());
        (0..longs).for_each(|id| _ = rehearsal.arrives(0, id, LONG));
        assert_eq!(rehearsal.arrives(0, 3, SHORT), "3@0");
        assert_eq!(rehearsal.ticks(20 * MICRO), "stop 0", "a worker is to be idle");
        // By now a third LONG request may borrow.
        rehearsal.arrives(4_990 * MICRO, 4, SHORT);
        assert_eq!(rehearsal.completes(5_000 * MICRO, 0), "4@0");
        let stops = if longs == 2 { "stop 0" } else { "" };
        assert_eq!(rehearsal.ticks(5_020 * MICRO), stops, "{longs}");
    }
}

/// Longs on workers 1 and 2, and one that borrowed worker 0 at 45 us, each on one of `contexts`.
fn all_lent_at_home(contexts: usize, settings: DarcLending) -> Rehearsal {
    let preemption = Some(Preemption::new(MICRO));
    let mut rehearsal = Rehearsal::at_home(settings, 3, types(), preemption, contexts);
    for (id, expected) in [(0, "0@1"), (1, "1@2"), (2, "")] {
        assert_eq!(rehearsal.arrives(0, id, LONG), expected);
    }
    assert_eq!(rehearsal.ticks(45 * MICRO), "2@0");
    rehearsal
}

#[test]
fn what_was_taken_back_goes_on_at_home_when_the_owners_leave_it() {
    let mut rehearsal = all_lent_at_home(2, DarcLending::default());
    assert_eq!(rehearsal.arrives(50 * MICRO, 3, SHORT), "");
    assert_eq!(rehearsal.ticks(50_800), "stop 0");
    assert_eq!(rehearsal.yields_after(51_800, 0, 6_800), "3@0");
    assert_eq!(rehearsal.completes(52_000, 1), "", "it waits for worker 0");
    assert_eq!(rehearsal.arrives(52_100, 4, LONG), "4@1");
    assert_eq!(rehearsal.completes(52_800, 0), "2@0");
}

#[test]
fn a_worker_is_taken_back_for_a_short_that_can_resume_only_there() {
    let preemption = Some(Preemption::new(MICRO));
    let mut rehearsal = Rehearsal::at_home(Policy::darc_lending(), 3, types(), preemption, 8);
    for (id, request_type, expected) in [(0, LONG, "0@1"), (1, LONG, "1@2"), (2, SHORT, "2@0")] {
        assert_eq!(rehearsal.arrives(0, id, request_type), expected);
    }
    assert_eq!(rehearsal.blocks(100, 0, 100), "");
    assert_eq!(rehearsal.arrives(100, 3, LONG), "");
    assert_eq!(rehearsal.ticks(46 * MICRO), "3@0", "lent");
    assert_eq!(rehearsal.unblocks(50 * MICRO, 2), "");
    assert_eq!(rehearsal.deadline_ns(), Some(50_800));
    assert_eq!(rehearsal.ticks(50_799), "");
    assert_eq!(rehearsal.ticks(50_800), "stop 0");
    assert_eq!(rehearsal.yields_after(51_800, 0, 5_800), "2@0");
}

#[test]
fn a_worker_without_a_context_left_is_not_taken_back_and_not_lent() {
    let mut rehearsal = all_lent_at_home(2, DarcLending::default());
    rehearsal.arrives(50 * MICRO, 3, SHORT);
    assert_eq!(rehearsal.ticks(50_800), "stop 0");
    assert_eq!(rehearsal.arrives(50_900, 4, LONG), "");
    assert_eq!(rehearsal.yields_after(51_800, 0, 6_800), "3@0");
    assert_eq!(rehearsal.completes(52_800, 0), "2@0", "its home");
    rehearsal.arrives(60 * MICRO, 5, SHORT);
    assert_eq!(rehearsal.ticks(60_800), "stop 0");
    assert_eq!(rehearsal.yields_after(61_800, 0, 8_000), "5@0");
    // By now 4 may borrow, but worker 0 could not be taken back from it.
    assert_eq!(rehearsal.arrives(120 * MICRO, 6, SHORT), "");
    assert_eq!(rehearsal.completes(121 * MICRO, 0), "6@0");
    assert_eq!(rehearsal.completes(122 * MICRO, 0), "2@0", "not 4");
    assert_eq!(rehearsal.completes(123 * MICRO, 0), "4@0", "nothing is suspended");
}

#[test]
fn with_one_context_nothing_is_lent() {
    let preemption = Some(Preemption::new(MICRO));
    let mut rehearsal = Rehearsal::at_home(Policy::darc_lending(), 3, types(), preemption, 1);
    for (id, expected) in [(0, "0@1"), (1, "1@2"), (2, "")] {
        assert_eq!(rehearsal.arrives(0, id, LONG), expected);
    }
    assert_eq!(rehearsal.ticks(500 * MICRO), "");
    assert_eq!(rehearsal.deadline_ns(), None);
}

/// As [`all_lent_at_home`], when longs are known to take 100 us.
fn all_lent_and_known(settings: DarcLending) -> Rehearsal {
    let mut rehearsal = all_lent_at_home(8, settings);
    let longs = vec![sample(LONG, 100 * MICRO); 500];
    assert_eq!(rehearsal.measures(46 * MICRO, 1, &longs), "");
    assert_eq!(rehearsal.arrives(46 * MICRO, 3, LONG), "3@1");
    rehearsal
}

#[test]
fn a_request_about_to_finish_is_not_preempted_for_one_that_waits() {
    let mut rehearsal = all_lent_and_known(DarcLending::default());
    assert_eq!(rehearsal.arrives(98_500, 4, SHORT), "");
    // Worker 2 should be idle at 100 us, and has a margin of half a microsecond.
    assert_eq!(rehearsal.ticks(99_300), "");
    assert_eq!(rehearsal.deadline_ns(), Some(100_500));
    assert_eq!(rehearsal.completes(100_100, 2), "4@2");
    assert_eq!(rehearsal.deadline_ns(), None);
}

#[test]
fn when_it_does_not_finish_in_time_one_is_preempted() {
    let mut rehearsal = all_lent_and_known(DarcLending::default());
    rehearsal.arrives(98_500, 4, SHORT);
    assert_eq!(rehearsal.ticks(99_300), "");
    assert_eq!(rehearsal.ticks(100_499), "");
    assert_eq!(rehearsal.ticks(100_500), "stop 1", "the one with most before it");
}

#[test]
fn others_are_preempted_for_all_waiting_requests_but_one() {
    for (shorts, stops) in [(2, "stop 1"), (3, "stop 1, stop 0")] {
        let mut rehearsal = all_lent_and_known(DarcLending::default());
        (0..shorts).for_each(|id| assert_eq!(rehearsal.arrives(98_500, 4 + id, SHORT), ""));
        assert_eq!(rehearsal.ticks(99_300), stops);
    }
}

#[test]
fn with_the_setting_off_a_request_about_to_finish_is_preempted_too() {
    let mut rehearsal = all_lent_and_known(DarcLending::default().spare_finishing(false));
    rehearsal.arrives(98_500, 4, SHORT);
    assert_eq!(rehearsal.ticks(99_300), "stop 1");
}

#[test]
fn a_short_that_yielded_goes_on_before_a_long_that_was_there() {
    let mut rehearsal = all_lent_at_home(8, DarcLending::default());
    rehearsal.arrives(50 * MICRO, 3, SHORT);
    assert_eq!(rehearsal.ticks(50_800), "stop 0");
    assert_eq!(rehearsal.yields_after(51_800, 0, 6_800), "3@0");
    assert_eq!(rehearsal.yields_after(51_900, 0, 100), "3@0");
    assert_eq!(rehearsal.completes(52_000, 0), "2@0");
}

/// What happens next, to two schedulers that must not differ.
#[derive(Debug, Clone)]
enum Step {
    Arrive(u32),
    Complete(prop::sample::Index, u64),
    Yield(prop::sample::Index),
    Tick(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0_u32..3).prop_map(Step::Arrive),
        4 => (any::<prop::sample::Index>(), 1_u64..200).prop_map(|(at, us)| Step::Complete(at, us)),
        1 => any::<prop::sample::Index>().prop_map(Step::Yield),
        1 => (1_u64..2_000_000).prop_map(Step::Tick),
    ];
    prop::collection::vec(step, 0..300)
}

proptest! {
    #[test]
    fn without_preemption_it_is_darc(steps in steps(), hinted in any::<bool>()) {
        let darc = Darc::default().samples_min(20);
        let lending = DarcLending::default().darc(darc.clone());
        let types = || types().map(|spec| if hinted { spec } else { TypeSpec::new(spec.name) });
        let mut both = [Policy::from(darc), lending.into()]
            .map(|policy| Rehearsal::with_preemption(policy, 3, types(), None));
        let (mut now_ns, mut busy, mut next_id) = (0, Vec::new(), 0);
        for step in steps {
            now_ns += MICRO;
            let worker = match &step {
                Step::Complete(..) | Step::Yield(_) if busy.is_empty() => continue,
                Step::Complete(at, _) | Step::Yield(at) => busy.swap_remove(at.index(busy.len())),
                Step::Arrive(_) | Step::Tick(_) => 0,
            };
            if let Step::Tick(passed_ns) = step {
                now_ns += passed_ns;
            }
            next_id += 1;
            let [darc, lending] = both.each_mut().map(|rehearsal| match step {
                Step::Arrive(index) => rehearsal.arrives(now_ns, next_id, RequestType::new(index)),
                Step::Complete(_, us) => {
                    let request_type = RequestType::new(u32::from(us > 50));
                    rehearsal.measures(now_ns, worker, &[sample(request_type, us * MICRO)])
                }
                Step::Yield(_) => rehearsal.yields(now_ns, worker),
                Step::Tick(_) => rehearsal.ticks(now_ns),
            });
            prop_assert_eq!(&darc, &lending);
            let ran = darc.split(", ").filter_map(|action| action.split_once('@'));
            busy.extend(ran.map(|(_, worker)| worker.parse::<u32>().unwrap()));
        }
        prop_assert_eq!(both[1].deadline_ns(), None);
        prop_assert_eq!(both[0].reservation_updates(), both[1].reservation_updates());
    }
}
