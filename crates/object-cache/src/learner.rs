//! Which keys a request will read: by its URL, else by the pattern of its URL.
//!
//! PHP names both as hashes. At its end it reports the keys that it read, unless it read what was foreseen. A URL has the keys of its last
//! reports: a page may show other products each time. A pattern has a score for each key, which rises when a request reads the key and falls when it does not; keys that every second
//! request reads are foreseen. Both are bounded, and what is foreseen wrongly costs bytes only: nobody sees a value because of it.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

/// The hash of a URL with its login state, or of its pattern.
pub type RequestClass = [u8; 16];

/// A key, and how often it is read.
type Rated = (Arc<[u8]>, u8);

/// What the requests of a site read.
#[derive(Debug)]
pub struct Learner {
    /// With each key, the number of reports in a row without it.
    urls: HashMap<RequestClass, Learned>,
    /// URLs in the order in which they may be forgotten.
    queue: VecDeque<RequestClass>,
    /// With each key, its score.
    patterns: HashMap<RequestClass, Learned>,
    bytes: usize,
    limit: usize,
}

#[derive(Debug, Default)]
struct Learned {
    keys: Vec<Rated>,
    /// Whether a request has used this since it was learned or last spared.
    is_used: bool,
}

impl Learner {
    /// `limit`: the memory for URLs, in bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            urls: HashMap::new(),
            queue: VecDeque::new(),
            patterns: HashMap::new(),
            bytes: 0,
            limit,
        }
    }

    /// The keys that a request will probably read, in the order in which such requests read them.
    pub fn foresee(&mut self, url: RequestClass, pattern: RequestClass) -> Vec<Arc<[u8]>> {
        if let Some(learned) = self.urls.get_mut(&url) {
            learned.is_used = true;
            let keys = learned.keys.iter();
            return keys.map(|(key, _)| Arc::clone(key)).collect();
        }
        let Some(learned) = self.patterns.get_mut(&pattern) else {
            return Vec::new();
        };
        learned.is_used = true;
        let keys = learned.keys.iter();
        keys.filter(|(_, score)| *score >= LIKELY)
            .map(|(key, _)| Arc::clone(key))
            .collect()
    }

    /// Learns the keys that a request has read.
    pub fn learn(&mut self, url: RequestClass, pattern: RequestClass, mut keys: Vec<Arc<[u8]>>) {
        keys.truncate(MAX_KEYS);
        self.learn_pattern(pattern, &keys);
        let before = self.forget(url);
        let keys = joined(keys, before);
        self.bytes += cost(&keys);
        let learned = Learned {
            keys,
            is_used: false,
        };
        self.urls.insert(url, learned);
        self.queue.push_back(url);
        while self.bytes > self.limit || self.queue.len() > MAX_QUEUE {
            let Some(oldest) = self.queue.pop_front() else {
                break;
            };
            // URLs that nobody requests again, such as those of a crawler, go first.
            let learned = self.urls.get_mut(&oldest);
            if learned.is_some_and(|learned| std::mem::take(&mut learned.is_used)) {
                self.queue.push_back(oldest);
            } else {
                self.forget(oldest);
            }
        }
    }

    fn forget(&mut self, url: RequestClass) -> Vec<Rated> {
        let Some(learned) = self.urls.remove(&url) else {
            return Vec::new();
        };
        self.bytes -= cost(&learned.keys);
        self.queue.retain(|other| *other != url);
        learned.keys
    }

    fn learn_pattern(&mut self, pattern: RequestClass, keys: &[Arc<[u8]>]) {
        if self.patterns.len() >= MAX_PATTERNS && !self.patterns.contains_key(&pattern) {
            // The first whole table of patterns that are not in use makes room at once.
            self.patterns
                .retain(|_, learned| std::mem::take(&mut learned.is_used));
            if self.patterns.len() >= MAX_PATTERNS {
                self.patterns.clear();
            }
        }
        let is_new = !self.patterns.contains_key(&pattern);
        let learned = self.patterns.entry(pattern).or_default();
        let mut unseen: HashSet<&Arc<[u8]>> = keys.iter().collect();
        learned.keys.retain_mut(|(key, score)| {
            *score = if unseen.remove(key) {
                *score + (u8::MAX - *score) / 4
            } else {
                *score - *score / 4
            };
            *score >= UNLIKELY
        });
        let score = if is_new { LIKELY } else { FIRST_SCORE };
        for key in keys {
            if learned.keys.len() >= MAX_KEYS {
                break;
            }
            if unseen.remove(key) {
                learned.keys.push((Arc::clone(key), score));
            }
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

/// The memory of keys: most are those of values, which the store counts.
fn cost(keys: &[Rated]) -> usize {
    let bytes: usize = keys.iter().map(|(key, _)| 32 + key.len() / 4).sum();
    bytes + 128
}

/// Reports in a row without a key after which a URL loses it.
const MAX_MISSED: u8 = 4;

/// The lowest score of a key that is foreseen.
const LIKELY: u8 = 128;

/// Two requests in a row that read a key make it likely.
const FIRST_SCORE: u8 = 72;

const UNLIKELY: u8 = 16;

/// Keys of a URL or a pattern. A page of a large shop reads about 600.
pub(crate) const MAX_KEYS: usize = 2048;

/// Patterns of a site: with at most 2,048 keys of usually 40 bytes.
const MAX_PATTERNS: usize = 64;

/// URLs of a site.
const MAX_QUEUE: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(names: &[&str]) -> Vec<Arc<[u8]>> {
        names.iter().map(|name| name.as_bytes().into()).collect()
    }

    #[test]
    fn a_url_has_the_keys_of_its_last_reports() {
        let mut learner = Learner::new(1 << 20);
        learner.learn([1; 16], [9; 16], keys(&["a", "b"]));
        learner.learn([1; 16], [9; 16], keys(&["b", "c"]));
        assert_eq!(learner.foresee([1; 16], [9; 16]), keys(&["b", "c", "a"]));
        for _ in 0..4 {
            learner.learn([1; 16], [9; 16], keys(&["b", "c"]));
        }
        assert_eq!(learner.foresee([1; 16], [9; 16]), keys(&["b", "c"]));
    }

    #[test]
    fn at_most_half_of_what_a_url_gets_is_from_earlier_reports() {
        let mut learner = Learner::new(1 << 20);
        learner.learn([1; 16], [9; 16], keys(&["a", "b", "c", "d"]));
        learner.learn([1; 16], [9; 16], keys(&["e"]));
        assert_eq!(learner.foresee([1; 16], [9; 16]).len(), 2);
    }

    #[test]
    fn an_unseen_url_gets_what_most_requests_of_its_pattern_read() {
        let mut learner = Learner::new(1 << 20);
        for url in 1..=6 {
            let own = format!("own{url}");
            learner.learn([url; 16], [9; 16], keys(&["common", &own]));
        }
        assert_eq!(learner.foresee([7; 16], [9; 16]), keys(&["common"]));
        assert!(learner.foresee([7; 16], [8; 16]).is_empty());
    }

    #[test]
    fn urls_that_nobody_requests_again_are_forgotten_first() {
        let mut learner = Learner::new(4000);
        learner.learn([1; 16], [9; 16], keys(&["a"]));
        for url in 2..=200 {
            assert_eq!(learner.foresee([1; 16], [9; 16]), keys(&["a"]));
            learner.learn([url; 16], [9; 16], keys(&["b"]));
        }
        assert!(learner.bytes <= 4000);
        assert_eq!(learner.urls.len(), learner.queue.len());
    }

    #[test]
    fn reports_are_bounded() {
        let mut learner = Learner::new(1 << 20);
        let many: Vec<String> = (0..5000).map(|number| number.to_string()).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        for pattern in 0..=255 {
            learner.learn([pattern; 16], [pattern; 16], keys(&many));
        }
        assert!(learner.patterns.len() <= MAX_PATTERNS);
        assert!(learner.bytes <= 1 << 20);
        assert_eq!(learner.foresee([255; 16], [255; 16]).len(), MAX_KEYS);
    }
}
