//! Decides which requests may take a free slot: one slot is reserved for writers, bounded classes get half of the slots, and
//! clients with many requests are throttled.
//!
//! Rules besides the limit itself, for readers (requests of all classes but editors and customers):
//!
//! - *Reserved*: with three slots or more, readers never get the last one, so that a request that logs in, saves or orders
//!   gets a slot immediately and does not wait for another client's page.
//! - *Bounded*: the classes of unproven clients that crawls and password guessers have ([`Class::is_bounded`]) get half of the
//!   slots together, so that the others find a slot at once, however many addresses crawl. With one slot, they get it while
//!   nobody else waits. Requests without proof have a [pace](super::pace) besides.
//! - *Throttled*: a client whose requests have been queued for a while demands more than the upstream can process. While
//!   all processors of the machine are busy, it gets half of the slots: more would not generate more of its pages, but
//!   would take processor time from hits, from the database and from the pages of others. If PHP waits for something else,
//!   processors are free, and the client gets slots one by one. Half, because other programs may keep the processors busy,
//!   and because the client may be a proxy for all visitors.
//!
//! A forged name or cookie gains nothing beyond the reserved slot.
//!
//! Pure: whether processors are busy is an argument.

use std::collections::HashMap;
use std::time::Duration;

use galley_policy::class::{Class, Network};

use super::queue::QueueIdentity;

/// The requests that hold slots.
#[derive(Debug, Default)]
pub(super) struct SlotHolders {
    all: usize,
    readers: usize,
    /// Slots of bounded classes.
    bounded: usize,
    /// Slots of readers by client; clients without slots are omitted.
    by_client: HashMap<Network, usize>,
}

/// The circumstances of a request for a slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct AdmissionContext {
    /// The time that the request has waited.
    pub(super) waited: Duration,
    pub(super) free: Processors,
}

/// Whether the machine has a processor for a throttled request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Processors {
    /// All of them are busy, or it was not checked.
    Busy,
    /// At least one is free.
    Spare,
}

/// The decision on a request for a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AdmissionDecision {
    /// The request gets a slot.
    Admit,
    /// No slot is free for the request.
    Wait,
    /// A slot is free, but currently reserved for others.
    Throttled,
}

impl SlotHolders {
    /// The number of slots in use.
    pub(super) fn all(&self) -> usize {
        self.all
    }

    /// Whether classes that are not bounded hold at least half of the slots.
    pub(super) fn are_others_half(&self, limit: usize) -> bool {
        self.all - self.bounded >= half(limit)
    }

    /// Whether no other reader would be admitted, because the remaining slots are reserved.
    pub(super) fn are_full(&self, limit: usize) -> bool {
        let writers = self.all - self.readers;
        self.all + reserved_slots(limit).saturating_sub(writers) >= limit
    }

    /// Whether `identity` may take one of `limit` slots.
    pub(super) fn admission(
        &self,
        identity: QueueIdentity,
        limit: usize,
        context: &AdmissionContext,
    ) -> AdmissionDecision {
        if self.all >= limit {
            return AdmissionDecision::Wait;
        }
        if !only_reads(identity.class) {
            return AdmissionDecision::Admit;
        }
        if self.readers + reserved_slots(limit) >= limit {
            return AdmissionDecision::Wait;
        }
        if identity.class.is_bounded() && self.bounded >= half(limit) {
            return AdmissionDecision::Wait;
        }
        if context.waited < STANDING_QUEUE_WAIT || context.free == Processors::Spare {
            return AdmissionDecision::Admit;
        }
        let of_client = self.by_client.get(&identity.client).copied().unwrap_or(0);
        if of_client >= half(limit) {
            return AdmissionDecision::Throttled;
        }
        AdmissionDecision::Admit
    }

    /// Takes a slot.
    pub(super) fn take(&mut self, identity: QueueIdentity) {
        self.all += 1;
        if only_reads(identity.class) {
            self.readers += 1;
            self.bounded += usize::from(identity.class.is_bounded());
            *self.by_client.entry(identity.client).or_default() += 1;
        }
    }

    /// Releases a slot.
    pub(super) fn release(&mut self, identity: QueueIdentity) {
        self.all -= 1;
        if only_reads(identity.class) {
            self.readers -= 1;
            self.bounded -= usize::from(identity.class.is_bounded());
            if let Some(held) = self.by_client.get_mut(&identity.client) {
                *held -= 1;
                if *held == 0 {
                    self.by_client.remove(&identity.client);
                }
            }
        }
    }
}

/// Whether one more process can run in addition to `running` others and leave one of `all` processors free for hits, if there is
/// more than one.
pub(super) fn processors(running: usize, all: usize) -> Processors {
    if running < all.saturating_sub(1).max(1) {
        Processors::Spare
    } else {
        Processors::Busy
    }
}

/// Whether requests of the class may not take the reserved slot: they only read, or try a password.
fn only_reads(class: Class) -> bool {
    match class {
        Class::Editor | Class::Customer => false,
        Class::Visitor | Class::Crawler | Class::Login | Class::Unseen | Class::Background => true,
    }
}

/// The part of the slots that one client of many requests gets, and all bounded classes together.
pub(super) fn half(limit: usize) -> usize {
    (limit / 2).max(1)
}

/// The number of slots that readers never get. With two slots, one would be half of the capacity of a small machine.
fn reserved_slots(limit: usize) -> usize {
    usize::from(limit > 2)
}

/// The wait that distinguishes a standing queue from a burst, in which a few pages take as long.
const STANDING_QUEUE_WAIT: Duration = Duration::from_millis(250);

#[cfg(test)]
mod tests {
    use super::AdmissionDecision::{Admit, Throttled, Wait};
    use super::*;
    use galley_policy::class::Trust;

    fn identity(class: Class, client: u32) -> QueueIdentity {
        QueueIdentity {
            class,
            trust: Trust::Proven,
            client: Network::V4(client),
        }
    }

    fn held(all: &[QueueIdentity]) -> SlotHolders {
        let mut holders = SlotHolders::default();
        for identity in all {
            holders.take(*identity);
        }
        holders
    }

    fn after(waited: Duration, free: Processors) -> AdmissionContext {
        AdmissionContext { waited, free }
    }

    #[test]
    fn one_of_three_slots_is_reserved_for_writers() {
        let (editor, visitor) = (identity(Class::Editor, 1), identity(Class::Visitor, 2));
        let refresh = identity(Class::Background, 3);
        for (taken, limit, identity, wanted) in [
            (vec![], 1, visitor, Admit),
            (vec![visitor], 2, visitor, Admit),
            (vec![visitor, refresh], 3, visitor, Wait),
            (vec![visitor, refresh], 3, refresh, Wait),
            (vec![visitor, refresh], 3, editor, Admit),
            (vec![editor], 3, visitor, Admit),
            (vec![editor, visitor], 3, visitor, Admit),
            (vec![editor, editor, editor], 3, editor, Wait),
            (vec![editor, visitor], 2, editor, Wait),
        ] {
            let context = after(Duration::ZERO, Processors::Busy);
            let seen = held(&taken).admission(identity, limit, &context);
            assert_eq!(seen, wanted, "{taken:?} of {limit}: {identity:?}");
        }
    }

    #[test]
    fn bounded_classes_get_half_of_the_slots_together() {
        let (unseen, login) = (identity(Class::Unseen, 1), identity(Class::Login, 2));
        let visitor = identity(Class::Visitor, 3);
        for (taken, limit, identity, wanted) in [
            (vec![], 1, unseen, Admit),
            (vec![], 2, unseen, Admit),
            (vec![unseen], 2, login, Wait),
            (vec![login], 2, unseen, Wait),
            (vec![unseen], 2, visitor, Admit),
            (vec![unseen], 3, unseen, Wait),
            (vec![visitor], 3, unseen, Admit),
            (vec![unseen], 4, login, Admit),
            (vec![unseen, login], 4, unseen, Wait),
            (vec![unseen, login], 4, visitor, Admit),
        ] {
            let context = after(Duration::ZERO, Processors::Spare);
            let seen = held(&taken).admission(identity, limit, &context);
            assert_eq!(seen, wanted, "{taken:?} of {limit}: {identity:?}");
        }
    }

    #[test]
    fn slots_are_full_when_no_reader_would_get_one() {
        let (editor, visitor) = (identity(Class::Editor, 1), identity(Class::Visitor, 2));
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
    fn a_crawler_gets_half_of_the_slots_while_processors_are_busy() {
        let (crawl, other) = (identity(Class::Visitor, 1), identity(Class::Visitor, 2));
        let long = STANDING_QUEUE_WAIT;
        let short = STANDING_QUEUE_WAIT / 2;
        for (taken, identity, waited, free, wanted) in [
            (vec![], crawl, long, Processors::Busy, Admit),
            (vec![crawl], crawl, long, Processors::Busy, Admit),
            (vec![crawl; 2], crawl, long, Processors::Busy, Throttled),
            (vec![crawl; 2], crawl, long, Processors::Spare, Admit),
            (vec![crawl; 2], crawl, short, Processors::Busy, Admit),
            (vec![crawl; 2], other, long, Processors::Busy, Admit),
            (vec![crawl; 4], other, long, Processors::Busy, Wait),
        ] {
            let seen = held(&taken).admission(identity, 5, &after(waited, free));
            assert_eq!(
                seen, wanted,
                "{taken:?}: {identity:?} after {waited:?}, {free:?}"
            );
        }
    }

    #[test]
    fn released_slots_are_no_longer_counted() {
        let visitor = identity(Class::Visitor, 2);
        let mut holders = held(&[visitor, visitor, identity(Class::Editor, 2)]);
        for identity in [visitor, identity(Class::Editor, 2), visitor] {
            holders.release(identity);
        }
        assert_eq!((holders.all(), holders.readers), (0, 0));
        assert!(holders.by_client.is_empty());
    }

    #[test]
    fn a_processor_is_spare_if_another_remains_free() {
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
