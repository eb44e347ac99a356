//! The pace of requests without proof ([`Class::Unseen`], [`Class::Login`]) while people use PHP.
//!
//! Half of the slots keeps a slot free for everybody else, but not the processors: where PHP has as many workers as the machine has
//! processors, each page of a crawl makes the pages beside it slower, by half on two processors. So while people use PHP, both classes
//! get one part in [`SHARE`] of the time of its slots, whatever the crawl's rate: each page costs a rest, after which the next one
//! starts only if others hold less than half of the slots. Few of the people's pages then meet one of its pages.
//!
//! [`CREDIT`] lets pages start without a rest where there is no crawl: a visitor whose first page is a filter is one of few. A client
//! that has proved a visit does not rest: it is a person who combines more filters than most, or a crawl to which the rates of
//! combined facets apply.
//!
//! Pure: `now` is an argument.

use std::time::Duration;

use galley_policy::class::{Class, Standing, Trust};
use tokio::time::Instant;

/// When people have used PHP, and until when both classes rest.
#[derive(Debug, Default)]
pub(super) struct UnseenPace {
    people_until: Option<Instant>,
    rests_until: Option<Instant>,
}

impl UnseenPace {
    /// Records that a request had a slot for `took`, one of `slots` that the classes without proof may have.
    pub(super) fn record(
        &mut self,
        standing: Standing,
        took: Duration,
        slots: usize,
        now: Instant,
    ) {
        match standing.class {
            Class::Editor | Class::Customer | Class::Visitor => {
                self.people_until = Some(now + PRESENCE);
            }
            _ if rests(standing) && self.people_until.is_some_and(|until| now < until) => {
                let slots = u32::try_from(slots.max(1)).unwrap_or(u32::MAX);
                let rest = (took * SHARE / slots).min(LONGEST_REST);
                // Without credit left, the page began when the last rest ended.
                let rests_until = match self.rests_until {
                    Some(until) => until.max(now.checked_sub(CREDIT).unwrap_or(until)) + rest,
                    None => now.checked_sub(CREDIT).unwrap_or(now) + rest,
                };
                self.rests_until = Some(rests_until.min(now + LONGEST_REST));
            }
            _ => {}
        }
    }

    /// The end of the present rest, which may be over.
    pub(super) fn rests_until(&self) -> Option<Instant> {
        self.rests_until
    }

    /// Whether half of the credit is used up: it is a crawl, or somebody tries passwords.
    pub(super) fn is_spent(&self, now: Instant) -> bool {
        self.rests_until
            .is_some_and(|until| until + CREDIT / 2 > now)
    }
}

/// Whether such requests rest: pages of clients without proof, and passwords that clients without proof try.
pub(super) fn rests(standing: Standing) -> bool {
    match standing.class {
        Class::Unseen => standing.trust != Trust::Proven,
        Class::Login => true,
        _ => false,
    }
}

/// While people use PHP, both classes get one in so many parts of the time of their slots: on two processors an eighth keeps the slowest
/// twentieth of a customer's pages within 1.1 times.
const SHARE: u32 = 8;

/// The rests that were not needed count for so long: those of twelve pages of 40 ms with one slot.
const CREDIT: Duration = Duration::from_secs(4);

/// People have left this long after their last page.
const PRESENCE: Duration = Duration::from_secs(10);

/// A page that hung says nothing of the next.
const LONGEST_REST: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: Duration = Duration::from_millis(40);

    fn of(class: Class) -> Standing {
        let trust = Trust::Plain;
        Standing { class, trust }
    }

    /// The part of an hour in which a crawl that always has a request uses its slots, beside a page of a person each `every`.
    fn share_of_a_crawl(slots: usize, every: Option<Duration>) -> f64 {
        let start = Instant::now();
        let (mut pace, mut now, mut used) = (UnseenPace::default(), start, Duration::ZERO);
        let mut person = start;
        while now - start < Duration::from_secs(3600) {
            while let Some(every) = every
                && person <= now
            {
                pace.record(of(Class::Visitor), PAGE, slots, person);
                person += every;
            }
            now = pace.rests_until().map_or(now, |until| until.max(now)) + PAGE;
            for _ in 0..slots {
                pace.record(of(Class::Unseen), PAGE, slots, now);
                used += PAGE;
            }
        }
        let slots = u32::try_from(slots).unwrap();
        used.as_secs_f64() / (now - start).as_secs_f64() / f64::from(slots)
    }

    #[test]
    fn a_crawl_gets_an_eighth_while_people_use_php_and_all_when_they_have_left() {
        for slots in [1, 2, 8] {
            for every in [1, 5, 9] {
                let share = share_of_a_crawl(slots, Some(Duration::from_secs(every)));
                assert!((0.12..0.13).contains(&share), "{slots}, {every}: {share}");
            }
            let alone = share_of_a_crawl(slots, None);
            assert!(alone > 0.999, "{slots}: {alone}");
        }
        let sparse = share_of_a_crawl(1, Some(Duration::from_secs(100)));
        assert!((0.9..0.95).contains(&sparse), "{sparse}");
    }

    #[test]
    fn few_visitors_do_not_rest_beside_people() {
        let (start, mut pace) = (Instant::now() + CREDIT, UnseenPace::default());
        let is_resting = |pace: &UnseenPace, now| pace.rests_until().is_some_and(|end| now < end);
        for second in 0..600 {
            let now = start + Duration::from_secs(second);
            pace.record(of(Class::Customer), PAGE, 1, now);
            assert!(!is_resting(&pace, now) && !pace.is_spent(now), "{second}");
            // Three visitors in a second now and then, otherwise one in two.
            for _ in 0..[3, 0, 1, 0, 1, 0][usize::try_from(second % 6).unwrap()] {
                pace.record(of(Class::Unseen), PAGE, 1, now);
            }
        }
        let now = start + Duration::from_secs(600);
        pace.record(of(Class::Customer), PAGE, 1, now);
        let burst = (0..100).position(|_| {
            pace.record(of(Class::Unseen), PAGE, 1, now);
            is_resting(&pace, now)
        });
        assert_eq!(burst, Some(12), "then it is a crawl");
        assert!(pace.is_spent(now + CREDIT / 2 - PAGE));
    }

    #[test]
    fn a_rest_ends_also_after_pages_that_hung() {
        let (start, mut pace) = (Instant::now(), UnseenPace::default());
        pace.record(of(Class::Customer), PAGE, 4, start);
        for _ in 0..100 {
            pace.record(of(Class::Unseen), Duration::from_secs(60), 4, start);
        }
        assert_eq!(pace.rests_until(), Some(start + LONGEST_REST));
    }

    #[test]
    fn bots_and_refreshes_are_no_people_and_proven_clients_do_not_rest() {
        let (start, mut pace) = (Instant::now(), UnseenPace::default());
        for class in [Class::Crawler, Class::Background] {
            pace.record(of(class), PAGE, 1, start);
            pace.record(of(Class::Unseen), PAGE, 1, start);
        }
        assert_eq!(pace.rests_until(), None);
        pace.record(of(Class::Visitor), PAGE, 1, start);
        let (class, trust) = (Class::Unseen, Trust::Proven);
        pace.record(Standing { class, trust }, PAGE, 1, start);
        assert_eq!(pace.rests_until(), None);
    }
}
