//! The memo of heads: what a core's hits need of a request, found again by the request's bytes.
//!
//! Browsers of one kind on their first visit, monitors and load tests send the same heads again and again, over many
//! connections. What reading, framing, facts, key and the words of the access line come to is a function of these bytes, of
//! the scheme and of the site; it is kept here, and nothing else is: who is let in, what is stored, how old that is and
//! whether the client has it are asked anew at each hit (`request::hit_again`).
//! Hashes only find the place, the bytes are compared. A head comes in at its second hit, so that a crawl passes by, and its
//! buffers are those of the one that it follows. Heads of trusted proxies and of visitors with a session never come in.

use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};
use std::rc::Rc;
use std::sync::Arc;

use galley_http::answer::ConnectionField;
use galley_policy::request_info::{Cacheability, RequestInfo, Scheme};
use memchr::memmem::Finder;

use crate::request::Site;
use crate::telemetry::access::Rendered;

/// See the module.
pub(super) struct HeadCache {
    /// Another one in each process and core, so that nobody outside can aim at a place.
    seed: u64,
    /// Of heads that have come once, each in its place: a part of its hash.
    seen: Vec<u32>,
    /// Sets of [`WAYS`], one behind the other.
    places: Vec<Option<Rc<Remembered>>>,
    head_end: Finder<'static>,
}

/// What a head came to. Held by whoever answers with it; then another takes its place without it.
pub(super) struct Remembered {
    hash: u64,
    head: Vec<u8>,
    /// Whether it was asked for since others last looked for a place.
    is_asked: Cell<bool>,
    /// `Host` as it was sent.
    pub(super) host: Vec<u8>,
    /// The site that it led to.
    pub(super) site: Arc<Site>,
    pub(super) facts: RequestInfo,
    /// The key of its page.
    pub(super) key: Vec<u8>,
    pub(super) connection: ConnectionField,
    /// For the site's log.
    pub(super) rendered: Rendered,
}

/// The bytes of a head, and what they are found by.
#[derive(Clone, Copy)]
pub(super) struct HeadBytes<'b> {
    pub(super) head: &'b [u8],
    hash: u64,
}

/// What is kept of a head.
pub(super) struct Read<'a> {
    pub(super) host: &'a [u8],
    pub(super) site: &'a Arc<Site>,
    pub(super) facts: &'a RequestInfo,
    pub(super) key: &'a [u8],
    pub(super) connection: ConnectionField,
}

impl Default for HeadCache {
    fn default() -> Self {
        Self {
            seed: RandomState::new().hash_one(0),
            seen: vec![0; SEEN],
            places: vec![None; SETS * WAYS],
            head_end: Finder::new(HEAD_END),
        }
    }
}

impl HeadCache {
    /// The head at the beginning of what has come, if it is short enough to be known. `is_first`: nothing of what came with it
    /// has been read, so that most likely it is all there is.
    pub(super) fn sight<'b>(&self, input: &'b [u8], is_first: bool) -> Option<HeadBytes<'b>> {
        if is_first && input.len() <= MOST_HEAD && input.ends_with(HEAD_END) {
            return Some(self.sight_of(input));
        }
        let within = input.get(..MOST_HEAD).unwrap_or(input);
        let end = self.head_end.find(within)? + HEAD_END.len();
        input.get(..end).map(|head| self.sight_of(head))
    }

    fn sight_of<'b>(&self, head: &'b [u8]) -> HeadBytes<'b> {
        HeadBytes {
            head,
            hash: hash(self.seed, head),
        }
    }

    /// What the same bytes came to before, over a connection of this scheme.
    pub(super) fn find(&self, sight: HeadBytes<'_>, scheme: Scheme) -> Option<&Rc<Remembered>> {
        let set = self.places.get(set_of(sight.hash)..)?;
        let mut ways = set.iter().take(WAYS).flatten();
        let found = ways.find(|known| known.is(sight, scheme))?;
        found.is_asked.set(true);
        Some(found)
    }

    /// Takes a head in that was a hit just now, if it has come before. `sight`: of the same head, or of what was taken for one.
    pub(super) fn offer(
        &mut self,
        sight: Option<HeadBytes<'_>>,
        head: &[u8],
        read: &Read<'_>,
        render: impl FnOnce(&mut Rendered),
    ) {
        let size = read.facts.size() + read.key.len() + read.host.len();
        let may_come_in = head.len() <= MOST_HEAD
            && size <= MOST_BESIDE
            && read.facts.gate() == Cacheability::Open;
        if !may_come_in {
            return;
        }
        let sight = match sight {
            Some(sight) if sight.head.len() == head.len() => sight,
            _ => self.sight_of(head),
        };
        if self.is_second(sight.hash) {
            self.take_in(sight, read, render);
        }
    }

    /// Whether a hash was noted lately; notes it.
    fn is_second(&mut self, hash: u64) -> bool {
        let [_, _, place @ .., mark0, mark1, mark2, mark3] = hash.to_be_bytes();
        let mark = u32::from_be_bytes([mark0, mark1, mark2, mark3]);
        let place = usize::from(u16::from_be_bytes(place)) % SEEN;
        let noted = self.seen.get_mut(place);
        noted.is_some_and(|noted| std::mem::replace(noted, mark) == mark)
    }

    fn take_in(
        &mut self,
        sight: HeadBytes<'_>,
        read: &Read<'_>,
        render: impl FnOnce(&mut Rendered),
    ) {
        let Some(place) = self.place_for(sight, read.facts.scheme()) else {
            return;
        };
        let mut kept = place
            .take()
            .unwrap_or_else(|| Rc::new(Remembered::beginning(read.site)));
        if Rc::get_mut(&mut kept).is_none() {
            // Somebody is answering with it.
            kept = Rc::new(Remembered::beginning(read.site));
        }
        if let Some(known) = Rc::get_mut(&mut kept) {
            known.become_that(sight, read);
            render(&mut known.rendered);
            *place = (known.rendered.size() <= MOST_BESIDE).then_some(kept);
        }
    }

    /// Where the same head is already, else a free place, else that of one which nobody has asked for since the last round.
    fn place_for(
        &mut self,
        sight: HeadBytes<'_>,
        scheme: Scheme,
    ) -> Option<&mut Option<Rc<Remembered>>> {
        let first = set_of(sight.hash);
        let set = self.places.get_mut(first..first + WAYS)?;
        let is_it = |known: &Rc<Remembered>| known.is(sight, scheme);
        let place = set
            .iter()
            .position(|way| way.as_ref().is_some_and(is_it))
            .or_else(|| set.iter().position(Option::is_none))
            .or_else(|| {
                let unasked = |way: &Rc<Remembered>| !way.is_asked.replace(false);
                set.iter().position(|way| way.as_ref().is_some_and(unasked))
            });
        set.get_mut(place.unwrap_or_default())
    }
}

impl Remembered {
    fn beginning(site: &Arc<Site>) -> Self {
        Self {
            hash: 0,
            head: Vec::new(),
            is_asked: Cell::new(false),
            host: Vec::new(),
            site: Arc::clone(site),
            facts: RequestInfo::default(),
            key: Vec::new(),
            connection: ConnectionField::Close,
            rendered: Rendered::default(),
        }
    }

    fn become_that(&mut self, sight: HeadBytes<'_>, read: &Read<'_>) {
        self.hash = sight.hash;
        sight.head.clone_into(&mut self.head);
        self.is_asked.set(false);
        read.host.clone_into(&mut self.host);
        self.site = Arc::clone(read.site);
        self.facts.clone_from(read.facts);
        read.key.clone_into(&mut self.key);
        self.connection = read.connection;
    }

    fn is(&self, sight: HeadBytes<'_>, scheme: Scheme) -> bool {
        self.hash == sight.hash && self.facts.scheme() == scheme && self.head == sight.head
    }
}

/// Where the set of a hash begins.
fn set_of(hash: u64) -> usize {
    let [high, low, ..] = hash.to_be_bytes();
    usize::from(u16::from_be_bytes([high, low])) % SETS * WAYS
}

/// Thirty-two bytes a step, each pair of words by one wide multiplication.
fn hash(seed: u64, bytes: &[u8]) -> u64 {
    let mut states = [seed ^ bytes.len() as u64, seed.rotate_left(32)];
    let (steps, rest) = bytes.as_chunks::<STEP>();
    for step in steps {
        mix(&mut states, step);
    }
    let mut last = [0; STEP];
    for (to, from) in last.iter_mut().zip(rest) {
        *to = *from;
    }
    mix(&mut states, &last);
    let [one, two] = states;
    fold(one ^ SECRET[0], two ^ SECRET[1])
}

fn mix(states: &mut [u64; 2], step: &[u8; STEP]) {
    let (words, _) = step.as_chunks::<8>();
    if let &[a, b, c, d] = words {
        let [a, b, c, d] = [a, b, c, d].map(u64::from_le_bytes);
        let [one, two] = *states;
        *states = [fold(a ^ SECRET[0], b ^ one), fold(c ^ SECRET[1], d ^ two)];
    }
}

/// Both halves of the product.
fn fold(one: u64, two: u64) -> u64 {
    let product = u128::from(one) * u128::from(two);
    let halves = [product & u128::from(u64::MAX), product >> 64];
    let [low, high] = halves.map(|half| u64::try_from(half).unwrap_or_default());
    low ^ high
}

/// Bits without a pattern: the fractions of the square roots of 2 and 3.
const SECRET: [u64; 2] = [0x6a09_e667_f3bc_c908, 0xbb67_ae85_84ca_a73b];

const STEP: usize = 32;

const HEAD_END: &[u8] = b"\r\n\r\n";

/// A browser's head has 600 to 900 bytes.
const MOST_HEAD: usize = 2048;

/// Bytes of facts and keys, and bytes of rendered words: each some 400 for a browser's head.
const MOST_BESIDE: usize = 1024;

/// Places of a core are SETS * WAYS: some 2 KB each with browsers' heads, and 11 KB at most, since buffers double as they grow.
const SETS: usize = 48;

const WAYS: usize = 4;

/// Hashes of heads that have come once: a head that others crowd out before it comes again gains little by being known.
const SEEN: usize = 2048;

#[cfg(test)]
mod tests {
    use super::*;
    use galley_http::head::{self, HeadLimits, ParsedHead};
    use proptest::prelude::*;

    fn length(input: &[u8]) -> Option<usize> {
        match head::parse(input, &HeadLimits::default(), &mut head::HeadBuffer::new()) {
            Ok(ParsedHead::Whole { length, .. }) => Some(length),
            _ => None,
        }
    }

    fn heads() -> impl Strategy<Value = Vec<u8>> {
        let line = "[A-Za-z-]{1,12}: ?[ -~]{0,40}(\r\n|\n|\r|)";
        prop::collection::vec(line, 0..8).prop_map(|lines| {
            let lines = lines.concat();
            format!("GET /a?b HTTP/1.1\r\nHost: example.test\r\n{lines}\r\n\r\n").into_bytes()
        })
    }

    proptest! {
        #[test]
        fn a_head_that_is_known_is_what_would_be_read(
            head in heads(),
            rest in prop_oneof![Just(Vec::new()), heads(), prop::collection::vec(any::<u8>(), 0..90)],
            is_first in any::<bool>(),
        ) {
            let memo = HeadCache::default();
            // What comes in was read: exactly so many bytes, whatever came with them.
            let Some(known) = length(&head).and_then(|length| head.get(..length)) else {
                return Ok(());
            };
            let input = [known, &rest].concat();
            prop_assert_eq!(length(&input), Some(known.len()));
            let Some(sight) = memo.sight(&input, is_first) else {
                return Ok(());
            };
            prop_assert!(input.starts_with(sight.head) && sight.head.ends_with(HEAD_END));
            let is_all = is_first && sight.head.len() == input.len();
            prop_assert!(is_all || sight.head == known);
        }

        #[test]
        fn one_bit_makes_another_hash(
            bytes in prop::collection::vec(any::<u8>(), 1..200),
            place in any::<prop::sample::Index>(),
            bit in 0..8_u32,
            seed in any::<u64>(),
        ) {
            let mut other = bytes.clone();
            other[place.index(bytes.len())] ^= 1 << bit;
            prop_assert_ne!(hash(seed, &bytes), hash(seed, &other));
            // Zeros at the end are no padding.
            other.clone_from(&bytes);
            other.push(0);
            prop_assert_ne!(hash(seed, &bytes), hash(seed, &other));
        }
    }

    #[test]
    fn a_head_comes_in_the_second_time_unless_others_crowd_it_out() {
        let mut memo = HeadCache::default();
        assert!(!memo.is_second(7));
        assert!(memo.is_second(7));
        assert!(memo.is_second(7));
        // Of the same place, as in a crawl.
        assert!(!memo.is_second(8));
        assert!(!memo.is_second(7), "another one was noted there");
    }

    #[test]
    fn a_whole_head_and_the_first_of_many_are_seen() {
        let memo = HeadCache::default();
        let one: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        let seen = |input: &[u8], is_first| memo.sight(input, is_first).map(|s| s.head.len());
        assert_eq!(seen(one, true), Some(one.len()));
        assert_eq!(seen(one, false), Some(one.len()));
        assert_eq!(seen(&one.repeat(100), true), Some(one.len()));
        assert_eq!(seen(&one.repeat(100), false), Some(one.len()));
        assert_eq!(seen(&one[..one.len() - 1], true), None);
        assert_eq!(seen(b"", false), None);
        let long = [b"GET /", "a".repeat(MOST_HEAD).as_bytes(), HEAD_END].concat();
        assert_eq!(seen(&long, true), None);
    }
}
