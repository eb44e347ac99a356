//! Which keys a request will read: by its URL, else by the pattern of its URL; and which keys it reads after another one.
//!
//! PHP names URL and pattern as hashes. At its end it reports the keys that it read, unless it read what was foreseen. A URL has the keys of
//! its last reports: a page may show other products each time. A pattern has a score for each key, which rises when a request reads the key
//! and falls when it does not; keys that every second request reads are foreseen. In the same way each key that was *not* foreseen has its
//! followers: who reads a post that nobody expected reads its fields, terms and image next, so they are sent together. All is bounded, and
//! what is foreseen wrongly costs bytes only: nobody sees a value because of it.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::sync::Arc;

use quick_cache::Weighter;
use quick_cache::unsync::Cache;

use crate::numbers::{KeyNumbers, number};

/// The hash of a URL with its login state, or of its pattern.
pub type RequestClass = [u8; 16];

/// A key that a request has read, and whether the first answer contained it.
pub(crate) type ReadKey = (Arc<[u8]>, Foreseen);

/// Whether the first answer contained a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Foreseen {
    /// It did.
    Yes,
    /// PHP had to ask for it, or it came after another one.
    No,
}

/// A key or its number, and the keys after it in a report.
type FollowedKey = (Arc<[u8]>, Vec<Arc<[u8]>>);

/// A key, and how often it is read.
type Rated = (Arc<[u8]>, u8);

/// What the requests of a site read.
#[derive(Debug)]
pub struct Learner {
    /// With each key, the number of reports in a row without it.
    urls: Lists<RequestClass>,
    /// With each key, its score.
    patterns: Lists<RequestClass>,
    /// By key or its number, the keys that are read after it, with their scores.
    followers: Lists<Arc<[u8]>>,
    numbers: KeyNumbers,
}

impl Learner {
    /// `limit`: the memory, in bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            urls: lists(limit / 2),
            patterns: lists(limit / 6),
            followers: lists(limit / 3),
            numbers: KeyNumbers::default(),
        }
    }

    /// The keys that a request will probably read, in the order in which such requests read them. For a URL that nobody has requested also less
    /// likely ones of its pattern, while half of all are probably read.
    pub fn foresee(&self, url: RequestClass, pattern: RequestClass) -> Vec<Arc<[u8]>> {
        if let Some(keys) = self.urls.get(&url) {
            return keys.iter().map(|(key, _)| Arc::clone(key)).collect();
        }
        let keys = self.patterns.get(&pattern).into_iter().flatten();
        let (likely, mut others): (Vec<_>, Vec<_>) = keys.partition(|(_, score)| *score >= LIKELY);
        others.sort_by_key(|(_, score)| std::cmp::Reverse(*score));
        let mut balance = 0;
        let is_worth_it = |(_, score): &&Rated| {
            balance += i32::from(*score) - i32::from(LIKELY);
            balance >= 0
        };
        let keys = likely.into_iter().chain(others).take_while(is_worth_it);
        keys.map(|(key, _)| Arc::clone(key)).collect()
    }

    /// The keys that some requests of a pattern have read and [`Learner::foresee`] lacks, the most frequent first.
    pub fn possible(&self, url: RequestClass, pattern: RequestClass) -> Vec<Arc<[u8]>> {
        let foreseen: HashSet<_> = self.foresee(url, pattern).into_iter().collect();
        let keys = self.patterns.get(&pattern).into_iter().flatten();
        let mut possible: Vec<_> = keys.filter(|(key, _)| !foreseen.contains(key)).collect();
        possible.sort_by_key(|(_, score)| std::cmp::Reverse(*score));
        possible.truncate(MAX_POSSIBLE);
        possible.iter().map(|(key, _)| Arc::clone(key)).collect()
    }

    /// The keys that a request will probably read after these: the same number in other groups, as the fields and terms of a post, and what
    /// followed before.
    pub fn follow(&self, asked: &[&[u8]]) -> Vec<Arc<[u8]>> {
        let asked = &asked[..asked.len().min(MAX_ROOTS)];
        let mut known: HashSet<Arc<[u8]>> = asked.iter().map(|key| Arc::from(*key)).collect();
        let mut all = Vec::new();
        let mut push = |key: Arc<[u8]>| {
            if all.len() < MAX_KEYS && known.insert(Arc::clone(&key)) {
                all.push(key);
            }
        };
        for number in asked.iter().filter_map(|key| number(key)) {
            let same = self.numbers.keys_with(number);
            same.for_each(|key| push(key.into()));
        }
        for key in asked {
            likely(self.followers.get(number(key).unwrap_or(key))).for_each(&mut push);
        }
        all
    }

    /// Learns the keys that a request has read.
    pub(crate) fn learn(
        &mut self,
        url: RequestClass,
        pattern: RequestClass,
        mut report: Vec<ReadKey>,
    ) {
        report.truncate(MAX_KEYS);
        let unforeseen = report.iter().filter(|(_, how)| *how == Foreseen::No);
        let unforeseen: Vec<_> = unforeseen.map(|(key, _)| Arc::clone(key)).collect();
        let keys: Vec<_> = report.into_iter().map(|(key, _)| key).collect();
        self.learn_followers(&unforeseen);
        change(&mut self.patterns, pattern, |rated| {
            rate(rated, &keys, MAX_KEYS);
        });
        change(&mut self.urls, url, |before| {
            *before = joined(keys, std::mem::take(before));
        });
    }

    /// A key is followed by those that were read soon after it; a number also by what came right after its other keys.
    fn learn_followers(&mut self, keys: &[Arc<[u8]>]) {
        let mut numbers: HashMap<&[u8], usize> = HashMap::new();
        let mut all: Vec<FollowedKey> = Vec::new();
        for (at, key) in keys.iter().enumerate() {
            let own = number(key);
            if let Some(number) = own {
                self.numbers.learn(key, number);
            }
            let others = keys[at + 1..].iter();
            let others = others.filter(|key| own.is_none() || number(key) != own);
            // The first key of each post, term or user is the one that is asked for.
            if let Some(root) = own.and_then(|number| numbers.get(number)) {
                all[*root].1.extend(others.take(NEAR).map(Arc::clone));
            } else if own.map_or(all.len() - numbers.len(), |_| numbers.len()) < MAX_ROOTS {
                let next = others.take(WINDOW).map(Arc::clone).collect();
                if let Some(number) = own {
                    numbers.insert(number, all.len());
                }
                all.push((own.map_or_else(|| Arc::clone(key), Arc::from), next));
            }
        }
        for (root, next) in all {
            change(&mut self.followers, root, |rated| {
                rate(rated, &next, 2 * WINDOW);
            });
        }
    }
}

/// Lists of keys, up to a number of bytes. Those that nobody requests again, such as the URLs of a crawler, go first.
type Lists<K> = Cache<K, Vec<Rated>, ListWeight>;

#[derive(Clone, Debug)]
struct ListWeight;

impl<K> Weighter<K, Vec<Rated>> for ListWeight {
    /// The memory of keys: most are those of values, which the store counts.
    fn weight(&self, _: &K, keys: &Vec<Rated>) -> u64 {
        let bytes: usize = keys.iter().map(|(key, _)| 32 + key.len() / 4).sum();
        bytes as u64 + 128
    }
}

fn lists<K: Eq + Hash>(limit: usize) -> Lists<K> {
    Cache::with_weighter(limit / USUAL_LIST, limit as u64, ListWeight)
}

fn change<K: Eq + Hash>(lists: &mut Lists<K>, name: K, change: impl FnOnce(&mut Vec<Rated>)) {
    let before = lists
        .peek_mut(&name)
        .map(|mut keys| std::mem::take(&mut *keys));
    let is_known = before.is_some();
    let mut keys = before.unwrap_or_default();
    change(&mut keys);
    // Only what is put in makes others give way: a list that grows in its place would exceed the limit.
    if is_known {
        // It fails for a name that is not there.
        let _ = lists.replace(name, keys, true);
    } else {
        lists.insert(name, keys);
    }
}

fn likely(keys: Option<&Vec<Rated>>) -> impl Iterator<Item = Arc<[u8]>> {
    let keys = keys.into_iter().flatten();
    keys.filter(|(_, score)| *score >= LIKELY)
        .map(|(key, _)| Arc::clone(key))
}

/// Raises the scores of the keys that were read, and lowers those of the others.
fn rate(rated: &mut Vec<Rated>, read: &[Arc<[u8]>], most: usize) {
    let first = if rated.is_empty() {
        LIKELY
    } else {
        FIRST_SCORE
    };
    let mut unseen: HashSet<&Arc<[u8]>> = read.iter().collect();
    rated.retain_mut(|(key, score)| {
        *score = if unseen.remove(key) {
            *score + (u8::MAX - *score) / 4
        } else {
            *score - (*score / 4).max(1)
        };
        *score > 0
    });
    if rated.len() + unseen.len() > most {
        rated.retain(|(_, score)| *score >= FIRST_SCORE / 2);
    }
    for key in read {
        if rated.len() >= most {
            break;
        }
        if unseen.remove(key) {
            rated.push((Arc::clone(key), first));
        }
    }
}

/// The keys of a report, then those of earlier ones that it lacks, at most as many: half of what is sent should be used.
fn joined(keys: Vec<Arc<[u8]>>, before: Vec<Rated>) -> Vec<Rated> {
    let read: HashSet<&Arc<[u8]>> = keys.iter().collect();
    let mut others: Vec<_> = before
        .into_iter()
        .filter(|(key, missed)| *missed < MAX_MISSED && !read.contains(key))
        .map(|(key, missed)| (key, missed + 1))
        .collect();
    others.sort_by_key(|(_, missed)| *missed);
    others.truncate(keys.len().min(MAX_KEYS.saturating_sub(keys.len())));
    keys.into_iter().map(|key| (key, 0)).chain(others).collect()
}

/// The memory of a list of a hundred keys, in bytes.
const USUAL_LIST: usize = 4096;

/// Reports in a row without a key after which a URL loses it.
const MAX_MISSED: u8 = 4;

/// The lowest score of a key that is foreseen.
const LIKELY: u8 = 128;

/// Two requests in a row that read a key make it likely.
const FIRST_SCORE: u8 = 88;

/// Keys of a URL or a pattern. A page of a large shop reads about 600.
pub(crate) const MAX_KEYS: usize = 2048;

/// Keys of a pattern that are sent although they are not likely.
const MAX_POSSIBLE: usize = 512;

/// Numbers of a report that get followers, and keys without a number.
const MAX_ROOTS: usize = 64;

/// Keys after another one that are its followers.
const WINDOW: usize = 48;

/// Keys after each further one with the same number that are followers, too: a key with a random part comes after the one that has this part
/// for its value.
const NEAR: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numbers::MAX_TEXTS;

    fn keys(names: &[&str]) -> Vec<Arc<[u8]>> {
        names.iter().map(|name| name.as_bytes().into()).collect()
    }

    fn report(names: &[&str]) -> Vec<ReadKey> {
        let keys = keys(names).into_iter();
        keys.map(|key| (key, Foreseen::Yes)).collect()
    }

    fn unforeseen(names: &[&str]) -> Vec<ReadKey> {
        let keys = keys(names).into_iter();
        keys.map(|key| (key, Foreseen::No)).collect()
    }

    #[test]
    fn a_url_has_the_keys_of_its_last_reports() {
        let mut learner = Learner::new(1 << 20);
        learner.learn([1; 16], [9; 16], report(&["a", "b"]));
        learner.learn([1; 16], [9; 16], report(&["b", "c"]));
        assert_eq!(learner.foresee([1; 16], [9; 16]), keys(&["b", "c", "a"]));
        for _ in 0..4 {
            learner.learn([1; 16], [9; 16], report(&["b", "c"]));
        }
        assert_eq!(learner.foresee([1; 16], [9; 16]), keys(&["b", "c"]));
    }

    #[test]
    fn at_most_half_of_what_a_url_gets_is_from_earlier_reports() {
        let mut learner = Learner::new(1 << 20);
        learner.learn([1; 16], [9; 16], report(&["a", "b", "c", "d"]));
        learner.learn([1; 16], [9; 16], report(&["e"]));
        assert_eq!(learner.foresee([1; 16], [9; 16]).len(), 2);
    }

    #[test]
    fn an_unseen_url_gets_what_requests_of_its_pattern_read() {
        let mut learner = Learner::new(1 << 20);
        for url in 1..=6 {
            let own = format!("own{url}");
            learner.learn([url; 16], [9; 16], report(&["common", &own]));
        }
        // Half of what is sent is probably read, so there is room for one that is not likely. Others are possible.
        assert_eq!(learner.foresee([7; 16], [9; 16]), keys(&["common", "own6"]));
        let mut possible = learner.possible([7; 16], [9; 16]);
        possible.sort();
        assert_eq!(possible, keys(&["own1", "own2", "own3", "own4", "own5"]));
        assert!(learner.foresee([7; 16], [8; 16]).is_empty());
    }

    #[test]
    fn urls_that_nobody_requests_again_are_forgotten_first() {
        let mut learner = Learner::new(8000);
        learner.learn([1; 16], [9; 16], report(&["a"]));
        for url in 2..=200 {
            assert_eq!(learner.foresee([1; 16], [9; 16]), keys(&["a"]));
            learner.learn([url; 16], [9; 16], report(&["b"]));
        }
        assert!(learner.urls.weight() <= 4000);
    }

    #[test]
    fn reports_are_bounded() {
        let mut learner = Learner::new(1 << 20);
        let many: Vec<String> = (0..5000).map(|number| number.to_string()).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        // Lists that begin small and grow.
        for many in [&many[..1], &many] {
            for pattern in 0..=255 {
                learner.learn([pattern; 16], [pattern; 16], report(many));
            }
        }
        for url in 0..=255 {
            let names: Vec<String> = (0..99).map(|n| format!("\u{5}posts{url}0{n}")).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            learner.learn([url; 16], [url; 16], unforeseen(&names));
        }
        let bytes = learner.urls.weight() + learner.patterns.weight() + learner.followers.weight();
        assert!(bytes <= 1 << 20);
        assert!(!learner.followers.is_empty());
        let one = "\u{5}posts255098".as_bytes();
        assert!(learner.follow(&[one; 99]).len() <= MAX_TEXTS + 2 * WINDOW);
    }

    #[test]
    fn a_key_that_was_not_foreseen_brings_those_that_follow_it() {
        let mut learner = Learner::new(1 << 20);
        let (first, second) = ("\u{5}posts7", "\u{5}posts8");
        let mine = ["\u{9}post_meta7", "\u{5}terms3"];
        let sorted = |mut keys: Vec<Arc<[u8]>>| {
            keys.sort();
            keys
        };
        let all = sorted(keys(&mine));
        learner.learn([5; 16], [9; 16], unforeseen(&["\u{9}post_meta6"]));
        learner.learn([1; 16], [9; 16], unforeseen(&[first, mine[0], mine[1]]));
        assert_eq!(sorted(learner.follow(&[first.as_bytes()])), all);
        // On another page it comes before another post.
        for url in 2..=4 {
            let other = format!("\u{5}posts{url}0");
            learner.learn(
                [url; 16],
                [9; 16],
                unforeseen(&[first, mine[0], mine[1], &other]),
            );
        }
        assert_eq!(sorted(learner.follow(&[first.as_bytes()])), all);
        // A post that nobody has read has the groups that have shown several numbers.
        let all = keys(&["\u{9}post_meta8"]);
        assert_eq!(sorted(learner.follow(&[second.as_bytes()])), all);
        // What is asked for is not sent twice.
        let asked = [first.as_bytes(), mine[0].as_bytes()];
        assert!(!learner.follow(&asked).contains(&mine[0].as_bytes().into()));
    }
}
