//! Which clients have visited a site a short time ago: a filter of constant size.
//!
//! ```text
//! a word, 64 bits:  | period, 12 bits | bits of the period before, 26 | bits of this period, 26 |
//! a count, 32 bits: | period, 16 bits | new clients of one /24 or /48 in this period, 16 bits |
//! ```
//!
//! A client (an IPv4 address or a /64) sets two bits in each of two words. A word ages when it is next written: the bits of this
//! period become those of the period before. So a visit counts for one to two periods, nothing is ever swept, and no thread
//! waits. Bits and counts are selected by a keyed hash, so that nobody can choose addresses that look like others.
//!
//! A client that never visited looks like one if others have set its four bits: 70,000 clients in a period, as many as large crawls use, make one of
//! seventeen do so (0.0586: 8.5 clients set two of a word's 26 bits each). Each /24 or /48 can add [`CLIENTS`] clients a period;
//! further ones prove nothing until the next. Both errors only change who waits.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use galley_policy::class::{Network, Proof};
use galley_policy::time::Tick;

/// The visitors of one site.
pub struct Visits {
    words: Box<[AtomicU64]>,
    counts: Box<[AtomicU32]>,
    /// Clients that need no look at the filter in this period, because they are recorded or cannot be: a number for each, at a
    /// position that its address gives. A newer one replaces another.
    settled: Box<[AtomicU64]>,
    /// The time of the last visit and one; 0: none.
    last: AtomicU64,
    /// The same for the style sheet that pages link to if files prove too few visits.
    linked: AtomicU64,
    /// Pages that were generated lately, and those among them for proven clients.
    pages: AtomicU64,
    /// Whether pages need the link; see [`Self::needs_link`].
    needs_link: AtomicBool,
    key: (u64, u64),
    pub(super) ticket_key: (u64, u64),
}

/// A client that is not known yet, to be added with [`Visits::add`].
pub struct NewVisitor {
    client: Network,
    places: [FilterBits; 2],
    period: u64,
}

/// A word and its bits.
#[derive(Clone, Copy)]
struct FilterBits {
    word: usize,
    bits: u64,
}

impl Visits {
    /// Nobody has visited the site.
    #[expect(clippy::new_without_default, reason = "it draws a random key")]
    pub fn new() -> Self {
        let random = || u64::from_ne_bytes(galley_sys::random_bytes());
        Self {
            words: (0..WORDS).map(|_| AtomicU64::new(0)).collect(),
            counts: (0..COUNTS).map(|_| AtomicU32::new(0)).collect(),
            settled: (0..SETTLED).map(|_| AtomicU64::new(0)).collect(),
            last: AtomicU64::new(0),
            linked: AtomicU64::new(0),
            pages: AtomicU64::new(0),
            needs_link: AtomicBool::new(false),
            key: (random(), random() | 1),
            ticket_key: (random(), random()),
        }
    }

    /// What a client has proved. A site to which nobody has come for a day gets no visits that count, because its files come from
    /// elsewhere, or it has no visitors to protect: it requires none.
    pub fn proof(&self, client: IpAddr, now: Tick) -> Proof {
        if !self.is_visited(now) {
            Proof::NotRequired
        } else if self.proves(client, now) {
            Proof::Visit
        } else {
            Proof::Unproven
        }
    }

    /// Whether anybody has visited the site within a day.
    pub fn is_visited(&self, now: Tick) -> bool {
        is_of_today(&self.last, now)
    }

    /// Whether anybody has loaded the style sheet of [`Self::needs_link`] within a day.
    pub fn is_link_loaded(&self, now: Tick) -> bool {
        is_of_today(&self.linked, now)
    }

    /// Records that a client has loaded that style sheet.
    pub fn note_link(&self, now: Tick) {
        self.linked.store(now.0 + 1, Ordering::Relaxed);
    }

    /// Counts a page that has to be generated for a visitor.
    pub fn count_page(&self, proof: Proof) {
        let next = |seen: u64| {
            let (mut all, mut proven) = (seen >> 32, seen & 0xffff_ffff);
            if all >= 2 * JUDGED_PAGES {
                (all, proven) = (all / 2, proven / 2);
            }
            Some((all + 1) << 32 | (proven + u64::from(proof == Proof::Visit)))
        };
        let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
        let counts = self.pages.fetch_update(set, fetch, next).unwrap_or(0);
        if counts >> 32 >= JUDGED_PAGES && (counts & 0xffff_ffff) * 4 < counts >> 32 {
            self.needs_link.store(true, Ordering::Relaxed);
        }
    }

    /// Whether pages have to link to a style sheet of the site that no cache keeps for long, because few of the visitors who
    /// request pages have loaded a file here: the files come from another host, or from the cache of the browser or of a proxy.
    /// It stays so until the end of the process: with the link, visits are proven again, and pages would lose it.
    pub fn needs_link(&self) -> bool {
        self.needs_link.load(Ordering::Relaxed)
    }

    /// Whether a client has visited the site within the last period, and perhaps the one before.
    pub fn proves(&self, client: IpAddr, now: Tick) -> bool {
        let period = period(now);
        self.places(Network::of(client))
            .iter()
            .all(|place| self.is_set(*place, period))
    }

    /// The client, unless it is recorded or declined in this period.
    #[inline]
    pub fn unless_known(&self, client: IpAddr, now: Tick) -> Option<NewVisitor> {
        let (client, period) = (Network::of(client), period(now));
        let (slot, value) = self.settled_slot(client, period);
        if slot.is_some_and(|slot| slot.load(Ordering::Relaxed) == value) {
            return None;
        }
        self.unless_recorded(client, period)
    }

    #[cold]
    fn unless_recorded(&self, client: Network, period: u64) -> Option<NewVisitor> {
        let places = self.places(client);
        let is_known = places.iter().all(|place| {
            let word = self.words.get(place.word);
            let periods = word.map_or(0, |word| word.load(Ordering::Relaxed));
            periods >> AGE_BITS == period & AGES && periods & place.bits == place.bits
        });
        let visitor = NewVisitor {
            client,
            places,
            period,
        };
        if is_known {
            self.decline(&visitor);
            return None;
        }
        Some(visitor)
    }

    /// Remembers that a client needs no look at the filter in this period. The memory is small; a forgotten client is looked up
    /// once more.
    pub fn decline(&self, visitor: &NewVisitor) {
        let (slot, value) = self.settled_slot(visitor.client, visitor.period);
        if let Some(slot) = slot {
            slot.store(value, Ordering::Relaxed);
        }
    }

    /// Two clients have different values within a period, so that none is taken for another.
    #[inline]
    fn settled_slot(&self, client: Network, period: u64) -> (Option<&AtomicU64>, u64) {
        let number = number(client);
        let low = usize::try_from((number ^ (number >> 12)) & 0xffff).unwrap_or_default();
        let value = number ^ period.wrapping_mul(MIX);
        (self.settled.get(low % SETTLED), value)
    }

    /// Records a visit, unless the client's network has had its share of this period. Only visits by files show that visitors of this
    /// site can prove theirs (`is_by_file`): an editor in the administration of a site whose files come from a CDN does not.
    pub fn add(&self, visitor: &NewVisitor, is_by_file: bool, now: Tick) {
        let NewVisitor {
            client,
            places,
            period,
        } = visitor;
        // A visit of the period before is prolonged, which needs no share.
        let is_old = places.iter().all(|place| self.is_set(*place, *period));
        if !is_old && !self.count(*client, *period) {
            self.decline(visitor);
        } else {
            if is_by_file {
                self.last.store(now.0 + 1, Ordering::Relaxed);
            }
            for place in places {
                if let Some(word) = self.words.get(place.word) {
                    let aged = |seen| Some(aged(seen, *period) | place.bits);
                    // Never fails: the closure never returns `None`.
                    let _ = word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, aged);
                }
            }
        }
    }

    fn is_set(&self, place: FilterBits, period: u64) -> bool {
        let word = self.words.get(place.word);
        let periods = aged(word.map_or(0, |word| word.load(Ordering::Relaxed)), period);
        (periods | periods >> PERIOD_BITS) & place.bits == place.bits
    }

    /// Takes one of the network's share; false if there is none left.
    fn count(&self, client: Network, period: u64) -> bool {
        let network = match client {
            Network::V4(bits) => u64::from(bits >> 8),
            Network::V6(bits) => (bits >> 16) | 1 << 63,
        };
        let index = usize::try_from(self.hash(network) >> 32).unwrap_or_default() % COUNTS;
        let Some(count) = self.counts.get(index) else {
            return false;
        };
        let age = u32::try_from(period & 0xffff).unwrap_or_default();
        let next = |seen: u32| {
            let so_far = if seen >> 16 == age { seen & 0xffff } else { 0 };
            (so_far < CLIENTS).then_some(age << 16 | (so_far + 1))
        };
        count
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next)
            .is_ok()
    }

    #[inline]
    fn places(&self, client: Network) -> [FilterBits; 2] {
        let hash = self.hash(number(client));
        let place = |hash: u64| {
            let word = usize::try_from(hash & 0xffff_ffff).unwrap_or_default() % WORDS;
            let bit = |bits: u64| 1 << (((bits & 0xff) * PERIOD_BITS) >> 8);
            FilterBits {
                word,
                bits: bit(hash >> 16) | bit(hash >> 24),
            }
        };
        [place(hash & 0xffff_ffff), place(hash >> 32)]
    }

    /// A keyed hash: two multiplications to 128 bits, folded. Its results are never shown to anybody.
    #[inline]
    fn hash(&self, value: u64) -> u64 {
        fold(fold(value ^ self.key.0, self.key.1) ^ self.key.0, MIX)
    }
}

#[inline]
fn number(client: Network) -> u64 {
    match client {
        Network::V4(bits) => u64::from(bits),
        Network::V6(bits) => bits ^ V6,
    }
}

#[inline]
fn fold(one: u64, other: u64) -> u64 {
    let product = u128::from(one) * u128::from(other);
    #[expect(clippy::cast_possible_truncation, reason = "both halves are used")]
    let halves = (product as u64, (product >> 64) as u64);
    halves.0 ^ halves.1
}

fn is_of_today(last: &AtomicU64, now: Tick) -> bool {
    let last = last.load(Ordering::Relaxed);
    last > 0 && now.0.saturating_sub(last) < REMEMBERED_MS
}

/// A word as it is in `period`.
fn aged(seen: u64, period: u64) -> u64 {
    let age = period & AGES;
    let (this, before) = (seen & BITS, seen >> AGE_BITS);
    if before == age {
        seen
    } else if (before + 1) & AGES == age {
        age << AGE_BITS | this << PERIOD_BITS
    } else {
        age << AGE_BITS
    }
}

/// Starts at 1, so that empty words are old.
#[inline]
fn period(now: Tick) -> u64 {
    now.0 / Visits::PERIOD_MS + 1
}

impl Visits {
    /// A period of ten minutes: a person who reads a long page is still known with the next click.
    pub const PERIOD_MS: u64 = 10 * 60 * 1_000;
}

/// 128 KiB a site.
const WORDS: usize = 16_384;
/// 16 KiB more.
const COUNTS: usize = 4_096;
/// 32 KiB more.
const SETTLED: usize = 4_096;

/// How long a site that had a visit requires proof.
const REMEMBERED_MS: u64 = 24 * 60 * 60 * 1_000;

/// So many pages show whether visitors prove their visits. Fewer are the first minutes after a restart.
const JUDGED_PAGES: u64 = 200;

const PERIOD_BITS: u64 = 26;
const AGE_BITS: u64 = 2 * PERIOD_BITS;
const BITS: u64 = (1 << PERIOD_BITS) - 1;
const AGES: u64 = (1 << (64 - AGE_BITS)) - 1;

/// The new clients of one /24 or /48 in a period: a large office or a mobile network behind a few addresses has fewer, and a rented
/// network gains little. Networks that share a count share this.
const CLIENTS: u32 = 64;

/// Distinguishes /64s from IPv4 addresses with the same bits.
const V6: u64 = 0x5bd1_e995_9e37_79b9;
const MIX: u64 = 0xa076_1d64_78bd_642f;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    fn v4(bits: u32) -> IpAddr {
        Ipv4Addr::from_bits(bits).into()
    }

    fn visit(visits: &Visits, client: IpAddr, now: Tick) {
        if let Some(new) = visits.unless_known(client, now) {
            visits.add(&new, true, now);
        }
    }

    const PERIOD: u64 = Visits::PERIOD_MS;

    #[test]
    fn a_visit_counts_for_one_to_two_periods() {
        let visits = Visits::new();
        let client = v4(0xc000_0201);
        for start in [0, 3 * PERIOD - 1, 7 * PERIOD + 5] {
            assert!(!visits.proves(client, Tick(start)), "{start}");
            visit(&visits, client, Tick(start));
            assert!(visits.unless_known(client, Tick(start)).is_none());
            for after in [0, 1, PERIOD / 2, PERIOD] {
                assert!(
                    visits.proves(client, Tick(start + after)),
                    "{start} {after}"
                );
            }
            assert!(!visits.proves(client, Tick(start + 2 * PERIOD)), "{start}");
        }
        let again = Tick(9 * PERIOD);
        visit(&visits, client, again);
        // A word that was not written for the number of periods that its field can count.
        assert!(!visits.proves(client, Tick(again.0 + 4 * PERIOD)));
    }

    #[test]
    fn a_64_is_one_client() {
        let visits = Visits::new();
        let of =
            |host: u64| IpAddr::from(Ipv6Addr::from_bits(0x2001_0db8 << 96 | u128::from(host)));
        visit(&visits, of(1), Tick(0));
        assert!(visits.proves(of(u64::MAX), Tick(0)));
        let next = IpAddr::from(Ipv6Addr::from_bits(0x2001_0db8 << 96 | 1 << 64));
        assert!(!visits.proves(next, Tick(0)));
    }

    #[test]
    fn proof_is_required_for_a_day_after_a_visit() {
        let visits = Visits::new();
        let (client, other) = (v4(1), v4(2));
        assert_eq!(visits.proof(client, Tick(0)), Proof::NotRequired);
        visit(&visits, client, Tick(0));
        assert_eq!(visits.proof(client, Tick(0)), Proof::Visit);
        assert_eq!(visits.proof(other, Tick(0)), Proof::Unproven);
        assert_eq!(visits.proof(client, Tick(3 * PERIOD)), Proof::Unproven);
        assert_eq!(
            visits.proof(other, Tick(REMEMBERED_MS + 1)),
            Proof::NotRequired
        );
    }

    #[test]
    fn a_declined_client_is_examined_once_in_a_period() {
        let visits = Visits::new();
        let proxy = v4(7);
        let new = visits.unless_known(proxy, Tick(0)).unwrap();
        visits.decline(&new);
        assert!(visits.unless_known(proxy, Tick(1)).is_none());
        assert!(!visits.proves(proxy, Tick(1)) && !visits.is_visited(Tick(1)));
        assert!(visits.unless_known(proxy, Tick(PERIOD)).is_some());
        assert!(visits.unless_known(v4(8), Tick(1)).is_some());
    }

    #[test]
    fn pages_need_a_link_if_few_visits_are_proven() {
        for (proven_of_ten, wanted) in [(0, true), (2, true), (3, false), (10, false)] {
            let visits = Visits::new();
            for number in 0..2_000 {
                assert!(number > 200 || !visits.needs_link(), "too early: {number}");
                let proof = if number % 10 < proven_of_ten {
                    Proof::Visit
                } else {
                    Proof::Unproven
                };
                visits.count_page(proof);
            }
            assert_eq!(visits.needs_link(), wanted, "{proven_of_ten}");
            // With the link, visits are proven, and the link stays.
            (0..2_000).for_each(|_| visits.count_page(Proof::Visit));
            assert_eq!(visits.needs_link(), wanted, "{proven_of_ten}");
        }
    }

    /// The share of strangers that look like visitors.
    fn false_positives(visits: &Visits) -> f64 {
        let strangers = (0..100_000_u32).filter(|n| visits.proves(v4(0x6000_0000 + n), Tick(0)));
        f64::from(u32::try_from(strangers.count()).unwrap()) / 100_000.0
    }

    #[test]
    fn only_files_show_that_visitors_can_prove_a_visit() {
        let visits = Visits::new();
        let (editor, person) = (v4(0x7f00_0001), v4(0x7f00_0002));
        let new = visits.unless_known(editor, Tick(0)).unwrap();
        visits.add(&new, false, Tick(0));
        assert_eq!(visits.proof(person, Tick(0)), Proof::NotRequired);
        visit(&visits, v4(0x7f00_0003), Tick(0));
        assert_eq!(visits.proof(person, Tick(0)), Proof::Unproven);
        assert_eq!(visits.proof(editor, Tick(0)), Proof::Visit);
    }

    #[test]
    fn seventy_thousand_addresses_do_not_fill_it() {
        let many = 70_000_u32;
        // From few networks: each /24 adds its share only.
        let few = Visits::new();
        (0..many).for_each(|n| visit(&few, v4(0x7f00_0000 + n), Tick(0)));
        let known = (0..many).filter(|n| few.proves(v4(0x7f00_0000 + n), Tick(0)));
        let share = known.count() as u64;
        assert!(
            share <= u64::from(many.div_ceil(256) * CLIENTS * 11 / 10),
            "{share}"
        );
        assert!(false_positives(&few) < 0.005, "{}", false_positives(&few));
        // Each from a network of its own: nothing but the size limits them.
        let spread = Visits::new();
        (0..many).for_each(|n| visit(&spread, v4(n << 8), Tick(0)));
        let share = false_positives(&spread);
        // 0.0586 is expected, and 25 keys gave 0.056 to 0.064.
        assert!(share < 0.08, "{share}");
        // A person from elsewhere is recorded nevertheless, and an hour later all is forgotten.
        let person = v4(0x2222_2222);
        visit(&spread, person, Tick(0));
        assert!(spread.proves(person, Tick(0)));
        let later = (0..many).filter(|n| spread.proves(v4(n << 8), Tick(6 * PERIOD)));
        assert_eq!(later.count(), 0);
    }

    proptest! {
        /// No visit is forgotten within a period, whatever others do.
        #[test]
        fn no_visit_is_lost(
            clients in proptest::collection::btree_set(any::<u32>(), 1..200),
            start in 0_u64..10 * PERIOD,
            after in 0_u64..=PERIOD,
        ) {
            let visits = Visits::new();
            let clients: Vec<u32> = clients.into_iter().collect();
            let (first, rest) = clients.split_first().unwrap();
            visit(&visits, v4(*first), Tick(start));
            for (step, client) in (0..).zip(rest) {
                visit(&visits, v4(*client), Tick(start + after * step / 200));
            }
            prop_assert!(visits.proves(v4(*first), Tick(start + after)));
        }
    }
}
