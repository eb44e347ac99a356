//! The query parameters of a site's pages: which occur on a path, in how many combinations, and which change nothing.
//!
//! A page is learned when it has been generated and stored, so hits and refusals cost nothing. A path is *faceted* when its
//! parameters came in many combinations, as the filters of a shop do; each parameter with several values is a facet. Facets
//! decide two things. A request with two of them is a request for one of very many pages, which few people open twice: beyond the
//! small rates of a client, of its network and of the site ([`Facets::take`]) it waits as if its client had proved nothing. And if
//! pages that differ in one parameter only were the same, the owner is told that the parameter can be ignored. Nothing is ever
//! ignored by itself.
//!
//! Memory is constant: `PATHS` paths with `PARAMETERS` parameters each, of which the most frequent stay (Misra and Gries,
//! 1982), and counts of combinations by bits (linear counting, Whang et al., 1990). Values and clients are not stored.

use std::cmp::Reverse;
use std::hash::{BuildHasher, Hash, RandomState};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use galley_access::ClientState;
use galley_policy::time::Tick;
use galley_sys::Lock;

/// The facets of one site.
#[derive(Debug, Default)]
pub struct Facets {
    paths: Lock<Vec<Counted<FacetPath>>>,
    /// The seed of the hashes, so that nobody can choose values that look like one.
    seed: RandomState,
    /// When the pages with several facets so far are paid for at the site's rate, in milliseconds.
    paid: AtomicU64,
}

/// What was learned about a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LearnedPath {
    /// The path.
    pub path: String,
    /// How many different queries were seen, about; at most 3,000.
    pub combinations: u32,
    /// The parameters, in the order of their first occurrence.
    pub parameters: Vec<LearnedParameter>,
}

/// What was learned about a parameter of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LearnedParameter {
    /// The name.
    pub name: String,
    /// How many different values were seen, about.
    pub values: u32,
    /// How often two pages that differ in this parameter only were the same.
    pub same: u32,
    /// How often they were not.
    pub different: u32,
}

/// An element of a list of the most frequent ones.
#[derive(Debug)]
struct Counted<T> {
    name: Box<[u8]>,
    weight: u32,
    value: T,
}

#[derive(Debug, Default)]
struct FacetPath {
    combinations: Distinct,
    parameters: Vec<Counted<FacetParameter>>,
}

#[derive(Debug, Default)]
struct FacetParameter {
    values: Distinct,
    samples: [SampledPage; SAMPLES],
    next: usize,
    same: u32,
    different: u32,
}

/// A page: hashes of its query without the parameter, of the parameter's value ([`ABSENT`] without it), and of its content.
#[derive(Clone, Copy, Debug, Default)]
struct SampledPage {
    rest: u64,
    value: u64,
    content: u64,
    at: Tick,
}

impl Facets {
    /// Learns from a page of `path` with the normalized `query`. `content`: equal if and only if the pages are.
    pub(super) fn learn(&self, path: &[u8], query: Option<&[u8]>, content: &[u8], now: Tick) {
        if pairs(query.unwrap_or_default()).nth(MAX_PAIRS).is_some() {
            // No menu has so many. They would take the places of the real ones.
            return;
        }
        let mut paths = self.paths.lock();
        let is_known = paths.iter().any(|known| *known.name == *path);
        if path.len() > MAX_PATH || (query.is_none() && !is_known) {
            return;
        }
        let Some(found) = place(&mut paths, PATHS, path) else {
            return;
        };
        let query = query.unwrap_or_default();
        if !query.is_empty() {
            found.combinations.add(self.hash(query));
        }
        for (name, value) in pairs(query) {
            if name.len() <= MAX_NAME
                && let Some(parameter) = place(&mut found.parameters, PARAMETERS, name)
            {
                parameter.values.add(self.hash(value));
            }
        }
        let content = self.hash(content);
        for known in &mut found.parameters {
            let hash_of = |pair: (&[u8], &[u8])| self.hash(pair) | 1;
            let is_own = |pair: &(&[u8], &[u8])| pair.0 == &*known.name;
            // The order does not matter, because a parameter that is absent leaves no gap.
            let sum = |sum: u64, hash: u64| sum.wrapping_add(hash);
            let sum_of_name = pairs(query).filter(is_own).map(hash_of).fold(ABSENT, sum);
            let others = pairs(query).filter(|pair| !is_own(pair));
            known.value.compare(SampledPage {
                rest: others.map(hash_of).fold(0, sum),
                value: sum_of_name,
                content,
                at: now,
            });
        }
    }

    /// Whether a query combines two or more facets of the path.
    pub fn are_combined(&self, path: &[u8], query: &[u8]) -> bool {
        // Without a lock for nearly all requests.
        if !query.contains(&b'&') {
            return false;
        }
        let paths = self.paths.lock();
        let sampled_path = paths.iter().find(|known| *known.name == *path);
        let Some(sampled_path) =
            sampled_path.filter(|path| path.value.combinations.count() >= MANY)
        else {
            return false;
        };
        let is_facet = |known: &&Counted<FacetParameter>| {
            known.value.values.count() >= SEVERAL
                && pairs(query).any(|(name, _)| name == &*known.name)
        };
        sampled_path
            .value
            .parameters
            .iter()
            .filter(is_facet)
            .count()
            >= 2
    }

    /// Takes one of the pages with several facets that the site `mark` gives to proven visitors; false if the client, its network or
    /// the site has none left now. The rate of a network is half of the site's, so one network never takes the share of all others.
    pub fn take(&self, clients: &ClientState, mark: u32, client: IpAddr, now: Tick) -> bool {
        // The site's last: what a client may not have is not taken from others. And nothing is taken from a client for nothing.
        self.paid.load(Ordering::Relaxed).saturating_sub(now.0) <= BURST_MS
            && clients.take_combined(mark, client, now)
            && self.take_of_site(now)
    }

    /// Not in the table of buckets, where other owners could replace it.
    fn take_of_site(&self, now: Tick) -> bool {
        let next = |paid: u64| {
            let paid = paid.max(now.0);
            (paid - now.0 <= BURST_MS).then_some(paid + INTERVAL_MS)
        };
        let paid = &self.paid;
        paid.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next)
            .is_ok()
    }

    /// What was learned about each path, that with the most combinations first.
    pub fn learned(&self) -> Vec<LearnedPath> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let of_parameter = |known: &Counted<FacetParameter>| LearnedParameter {
            name: text(&known.name),
            values: known.value.values.count(),
            same: known.value.same,
            different: known.value.different,
        };
        let paths = self.paths.lock();
        let of_path = |known: &Counted<FacetPath>| LearnedPath {
            path: text(&known.name),
            combinations: known.value.combinations.count(),
            parameters: known.value.parameters.iter().map(of_parameter).collect(),
        };
        let mut learned: Vec<LearnedPath> = paths.iter().map(of_path).collect();
        drop(paths);
        learned.sort_by_key(|path| Reverse(path.combinations));
        learned
    }

    fn hash(&self, value: impl Hash) -> u64 {
        self.seed.hash_one(value)
    }
}

/// The parameters that changed no page of any path, with the number of comparisons: what the owner may ignore. Parameters that
/// WordPress itself reads are never among them: they may change pages that nobody has compared.
pub fn ignorable(paths: &[LearnedPath]) -> Vec<(&str, u32)> {
    let mut sums: Vec<(&str, u32, u32)> = Vec::new();
    for parameter in paths.iter().flat_map(|path| &path.parameters) {
        let name = &*parameter.name;
        match sums.iter_mut().find(|(known, ..)| *known == name) {
            Some((_, same, different)) => {
                *same = same.saturating_add(parameter.same);
                *different = different.saturating_add(parameter.different);
            }
            None => sums.push((name, parameter.same, parameter.different)),
        }
    }
    // The name goes into the owner's configuration, where other characters have a meaning.
    let is_plain = |name: &str| {
        name.bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
    };
    let is_ignorable = |(name, same, different): &(&str, u32, u32)| {
        *different == 0 && *same >= COMPARISONS && is_plain(name) && !OF_WORDPRESS.contains(name)
    };
    let ignorable = sums.into_iter().filter(is_ignorable);
    ignorable.map(|(name, same, _)| (name, same)).collect()
}

impl FacetParameter {
    fn compare(&mut self, page: SampledPage) {
        let is_other = |known: &&SampledPage| {
            known.content != 0
                && known.rest == page.rest
                && known.value != page.value
                // An edit in between would look like an effect of the parameter.
                && page.at.0.saturating_sub(known.at.0) < COMPARABLE_MS
        };
        if let Some(other) = self.samples.iter().find(is_other) {
            let count = if other.content == page.content {
                &mut self.same
            } else {
                &mut self.different
            };
            *count = count.saturating_add(1);
        }
        let is_same =
            |known: &&mut SampledPage| known.rest == page.rest && known.value == page.value;
        if let Some(known) = self.samples.iter_mut().find(is_same) {
            *known = page;
        } else if let Some(oldest) = self.samples.get_mut(self.next) {
            *oldest = page;
            self.next = (self.next + 1) % SAMPLES;
        }
    }
}

/// The element of this name, which is added if there is room. If there is none, all lose weight, and those without weight their
/// place.
fn place<'l, T: Default>(
    list: &'l mut Vec<Counted<T>>,
    most: usize,
    name: &[u8],
) -> Option<&'l mut T> {
    let position = list.iter().position(|known| *known.name == *name);
    let at = position.unwrap_or(list.len());
    if at == most {
        for known in list.iter_mut() {
            known.weight -= 1;
        }
        list.retain(|known| known.weight > 0);
        return None;
    }
    if position.is_none() {
        list.push(Counted {
            name: name.into(),
            weight: 0,
            value: T::default(),
        });
    }
    let weighted = list.get_mut(at)?;
    weighted.weight = (weighted.weight + 1).min(MAX_WEIGHT);
    Some(&mut weighted.value)
}

/// Names and values of a query.
fn pairs(query: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let parts = query.split(|&byte| byte == b'&');
    parts.filter(|part| !part.is_empty()).map(|part| {
        let end = part.iter().position(|&byte| byte == b'=');
        part.split_at(end.unwrap_or(part.len()))
    })
}

/// The number of different hashes that were added, in 64 bytes.
#[derive(Debug, Default)]
struct Distinct([u64; 8]);

impl Distinct {
    fn add(&mut self, hash: u64) {
        let word = usize::try_from(hash >> 61).unwrap_or_default();
        if let Some(word) = self.0.get_mut(word) {
            *word |= 1 << (hash & 63);
        }
    }

    fn count(&self) -> u32 {
        let bits = f64::from(u64::BITS * 8);
        let zeros: u32 = self.0.iter().map(|word| word.count_zeros()).sum();
        let count = (bits * (bits / f64::from(zeros.max(1))).ln()).round();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between 0 and 512 ln 512"
        )]
        (count as u32)
    }
}

const PATHS: usize = 32;
const PARAMETERS: usize = 8;
const SAMPLES: usize = 4;

/// Longer ones are not learned.
const MAX_PATH: usize = 128;
const MAX_NAME: usize = 48;

/// A path or parameter that is no longer requested gives up its place to so many others.
const MAX_WEIGHT: u32 = 1_000;

/// So many combinations are no menu of links that people follow.
const MANY: u32 = 32;

/// A parameter with fewer values is a constant part of links.
const SEVERAL: u32 = 3;

/// So many equal pairs of pages are no accident of an empty category.
const COMPARISONS: u32 = 8;

/// The value of a parameter that is not in a query.
const ABSENT: u64 = 0;

const COMPARABLE_MS: u64 = 10 * 60 * 1_000;

/// A query with more parameters teaches nothing.
const MAX_PAIRS: usize = 16;

/// One page with several facets a second, and 30 at once: more than the people of a shop request, a small part of what PHP
/// generates.
const INTERVAL_MS: u64 = 1_000;
const BURST_MS: u64 = 29 * INTERVAL_MS;

/// The public parameters of WordPress and WooCommerce that do not have their own name on each site.
const OF_WORDPRESS: [&str; 25] = [
    "p",
    "page_id",
    "page",
    "paged",
    "cpage",
    "s",
    "cat",
    "tag",
    "author",
    "author_name",
    "name",
    "pagename",
    "year",
    "monthnum",
    "day",
    "m",
    "w",
    "order",
    "orderby",
    "post_type",
    "feed",
    "lang",
    "attachment_id",
    "product-page",
    "replytocom",
];

#[cfg(test)]
mod tests;
