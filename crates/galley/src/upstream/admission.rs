//! What of the free places a request may have: one is kept for people, and a crawl leaves the processor to others.
//!
//! Three rules beside the limit itself, both for those who only read:
//!
//! - *Kept free*: with three places or more, one is never given to readers, so that who logs in, saves or orders finds a place
//!   at once and not after a page of somebody else's.
//! - *Held back*: a client whose requests have stood in the queue for a while asks for more than the upstream can do. While all
//!   processors of the machine are busy it has half of the places: more would not give it more pages, but would take the
//!   processor from hits, from the database and from the pages of others. Where PHP waits for something else, processors are
//!   free, and it gets places one by one. Half, since it may be other programs that keep the processors busy, and a proxy
//!   that stands for all visitors.
//!
//! - *Steps aside*: while somebody who logs in, saves or orders is being served and all processors are busy, such a client gets
//!   no new place, but for one in a while. A save is short, and of two processors a crawl's page takes one.
//!
//! None of them is known by a name or a cookie that could be forged to gain anything: a forger gains the place that is kept.
//! Pure: whether processors are busy is an argument.

use std::collections::HashMap;
use std::time::Duration;

use galley_policy::class::{Class, Network};

use tokio::time::Instant;

use super::queue::QueueIdentity;

/// Who has places.
#[derive(Debug, Default)]
pub(super) struct Holders {
    all: usize,
    readers: usize,
    /// Readers' places by client; those without any are left out.
    by_client: HashMap<Network, usize>,
    /// When a reader was last given a place.
    read_at: Option<Instant>,
}

/// When and how somebody wants a place.
#[derive(Clone, Copy, Debug)]
pub(super) struct AdmissionContext {
    pub(super) now: Instant,
    /// How long he has waited by now.
    pub(super) waited: Duration,
    pub(super) free: Processors,
}

/// Whether the machine has a processor to spare for somebody who is held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Processors {
    /// All of them are busy, or nobody has looked.
    Busy,
    /// One is free.
    Spare,
}

/// What is said to a request that wants a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum May {
    /// It may have one.
    Enter,
    /// Not now: none is free for it.
    Wait,
    /// One is free, and it is left to others for the moment.
    HeldBack,
}

impl Holders {
    /// Places that are taken.
    pub(super) fn all(&self) -> usize {
        self.all
    }

    /// Whether nobody else who reads would be let in: the others wait for these places.
    pub(super) fn are_full(&self, limit: usize) -> bool {
        let people = self.all - self.readers;
        self.all + kept_free(limit).saturating_sub(people) >= limit
    }

    /// Whether `who` may have a place of `limit`.
    pub(super) fn may(&self, who: QueueIdentity, limit: usize, moment: &AdmissionContext) -> May {
        if self.all >= limit {
            return May::Wait;
        }
        if !only_reads(who.class) {
            return May::Enter;
        }
        if self.readers + kept_free(limit) >= limit {
            return May::Wait;
        }
        if moment.waited < STANDING || moment.free == Processors::Spare {
            return May::Enter;
        }
        let held = self.by_client.get(&who.client).copied().unwrap_or(0);
        if held >= (limit / 2).max(1) || self.step_aside(moment.now) {
            return May::HeldBack;
        }
        May::Enter
    }

    /// Whether somebody who does something is being served, and a reader had his turn a moment ago.
    fn step_aside(&self, now: Instant) -> bool {
        let is_recent = |read: Instant| now.saturating_duration_since(read) < ASIDE;
        self.all > self.readers && self.read_at.is_some_and(is_recent)
    }

    /// Takes a place.
    pub(super) fn take(&mut self, who: QueueIdentity, now: Instant) {
        self.all += 1;
        if only_reads(who.class) {
            self.readers += 1;
            self.read_at = Some(now);
            *self.by_client.entry(who.client).or_default() += 1;
        }
    }

    /// Gives it back.
    pub(super) fn give_back(&mut self, who: QueueIdentity) {
        self.all -= 1;
        if only_reads(who.class) {
            self.readers -= 1;
            if let Some(held) = self.by_client.get_mut(&who.client) {
                *held -= 1;
                if *held == 0 {
                    self.by_client.remove(&who.client);
                }
            }
        }
    }
}

/// Whether one more process can run beside `running` others without taking the last processor of `all`. One processor is
/// left free for hits, where there is more than one.
pub(super) fn processors(running: usize, all: usize) -> Processors {
    if running < all.saturating_sub(1).max(1) {
        Processors::Spare
    } else {
        Processors::Busy
    }
}

/// Those who want to see a page, with nobody logged in and nothing bought.
fn only_reads(class: Class) -> bool {
    match class {
        Class::Editor | Class::Customer => false,
        Class::Visitor | Class::Crawler | Class::Background => true,
    }
}

/// Places that readers never have. Of two, one would be half of what a small machine can do.
fn kept_free(limit: usize) -> usize {
    usize::from(limit > 2)
}

/// Who has waited for so long stands in a queue, and not in a burst: a few pages take it.
const STANDING: Duration = Duration::from_millis(250);

/// For how long readers who stand in a queue step aside after one of them was let in: longer than a save, and short enough
/// that an export of minutes, or somebody who forges an editor's cookie, does not keep them out.
const ASIDE: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::*;

    fn who(class: Class, client: u32) -> QueueIdentity {
        QueueIdentity {
            class,
            client: Network::V4(client),
        }
    }

    fn held(all: &[QueueIdentity]) -> Holders {
        let mut holders = Holders::default();
        for who in all {
            holders.take(*who, Instant::now());
        }
        holders
    }

    fn after(waited: Duration, free: Processors) -> AdmissionContext {
        AdmissionContext {
            now: Instant::now(),
            waited,
            free,
        }
    }

    #[test]
    fn one_place_is_for_people_where_there_are_three() {
        let (editor, visitor) = (who(Class::Editor, 1), who(Class::Visitor, 2));
        let refresh = who(Class::Background, 3);
        for (taken, limit, who, wanted) in [
            (vec![], 1, visitor, May::Enter),
            (vec![visitor], 2, visitor, May::Enter),
            (vec![visitor, refresh], 3, visitor, May::Wait),
            (vec![visitor, refresh], 3, refresh, May::Wait),
            (vec![visitor, refresh], 3, editor, May::Enter),
            (vec![editor], 3, visitor, May::Enter),
            (vec![editor, visitor], 3, visitor, May::Enter),
            (vec![editor, editor, editor], 3, editor, May::Wait),
            (vec![editor, visitor], 2, editor, May::Wait),
        ] {
            let at_once = after(Duration::ZERO, Processors::Busy);
            let seen = held(&taken).may(who, limit, &at_once);
            assert_eq!(seen, wanted, "{taken:?} of {limit}: {who:?}");
        }
    }

    #[test]
    fn places_are_all_taken_when_no_reader_would_get_one() {
        let (editor, visitor) = (who(Class::Editor, 1), who(Class::Visitor, 2));
        for (taken, limit, is_full) in [
            (vec![], 1, false),
            (vec![visitor], 2, false),
            (vec![visitor, visitor], 2, true),
            (vec![visitor, visitor], 3, true),
            (vec![visitor, editor], 3, false),
            (vec![visitor, visitor, editor], 3, true),
        ] {
            assert_eq!(
                held(&taken).are_full(limit),
                is_full,
                "{taken:?} of {limit}"
            );
        }
    }

    #[test]
    fn a_crawl_has_half_of_the_places_while_processors_are_busy() {
        let (crawl, other) = (who(Class::Visitor, 1), who(Class::Visitor, 2));
        let long = STANDING;
        let short = STANDING / 2;
        for (taken, who, waited, free, wanted) in [
            (vec![], crawl, long, Processors::Busy, May::Enter),
            (vec![crawl], crawl, long, Processors::Busy, May::Enter),
            (vec![crawl; 2], crawl, long, Processors::Busy, May::HeldBack),
            (vec![crawl; 2], crawl, long, Processors::Spare, May::Enter),
            (vec![crawl; 2], crawl, short, Processors::Busy, May::Enter),
            (vec![crawl; 2], other, long, Processors::Busy, May::Enter),
            (vec![crawl; 4], other, long, Processors::Busy, May::Wait),
        ] {
            let seen = held(&taken).may(who, 5, &after(waited, free));
            assert_eq!(
                seen, wanted,
                "{taken:?}: {who:?} after {waited:?}, {free:?}"
            );
        }
    }

    #[test]
    fn a_crawl_steps_aside_for_who_does_something() {
        let (editor, customer) = (who(Class::Editor, 1), who(Class::Customer, 1));
        let (crawl, began) = (who(Class::Visitor, 2), Instant::now());
        let busy = Processors::Busy;
        let soon = ASIDE / 2;
        for (before, taken, waited, later, free, wanted) in [
            (
                Some(crawl),
                vec![editor],
                STANDING,
                soon,
                busy,
                May::HeldBack,
            ),
            (
                Some(crawl),
                vec![customer],
                STANDING,
                soon,
                busy,
                May::HeldBack,
            ),
            (Some(crawl), vec![], STANDING, soon, busy, May::Enter),
            (Some(crawl), vec![editor], STANDING, ASIDE, busy, May::Enter),
            (
                Some(crawl),
                vec![editor],
                STANDING / 2,
                soon,
                busy,
                May::Enter,
            ),
            (
                Some(crawl),
                vec![editor],
                STANDING,
                soon,
                Processors::Spare,
                May::Enter,
            ),
            (None, vec![editor], STANDING, soon, busy, May::Enter),
        ] {
            let mut holders = Holders::default();
            if let Some(reader) = before {
                holders.take(reader, began);
                holders.give_back(reader);
            }
            for who in &taken {
                holders.take(*who, began);
            }
            let now = began + later;
            let moment = AdmissionContext { now, waited, free };
            let case = format!("{taken:?}: after {waited:?} and {later:?}, {free:?}");
            assert_eq!(holders.may(crawl, 5, &moment), wanted, "{case}");
            assert_eq!(holders.may(editor, 5, &moment), May::Enter, "{case}");
        }
    }

    #[test]
    fn what_was_given_back_is_forgotten() {
        let visitor = who(Class::Visitor, 2);
        let mut holders = held(&[visitor, visitor, who(Class::Editor, 2)]);
        for who in [visitor, who(Class::Editor, 2), visitor] {
            holders.give_back(who);
        }
        assert_eq!((holders.all(), holders.readers), (0, 0));
        assert!(holders.by_client.is_empty());
    }

    #[test]
    fn a_processor_is_spare_where_another_stays_free() {
        for (running, all, wanted) in [
            (0, 1, Processors::Spare),
            (1, 1, Processors::Busy),
            (0, 2, Processors::Spare),
            (1, 2, Processors::Busy),
            (2, 4, Processors::Spare),
            (3, 4, Processors::Busy),
        ] {
            assert_eq!(processors(running, all), wanted, "{running} of {all}");
        }
    }
}
