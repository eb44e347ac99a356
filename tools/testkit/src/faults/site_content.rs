//! The upstream's pages with their current versions, and the versions that clients may receive.
//!
//! A page's body is a function of its number and its version, so every response can be compared byte for byte with the
//! expected body. The version increases before a purge is sent; the minimum version increases when the purge is acknowledged.
//! A response must not be older than the minimum version at the time of the request.

use std::{
    ops::Range,
    sync::atomic::{AtomicU64, Ordering},
};

use super::{random::mix, report::Verdict};
use crate::client::Response;

/// The pages of the site.
#[derive(Debug)]
pub(super) struct SiteContent {
    seed: u64,
    pages: Vec<Page>,
}

#[derive(Debug)]
struct Page {
    length: usize,
    /// The version that the upstream generates now.
    version: AtomicU64,
    /// The newest version whose purge was acknowledged.
    minimum: AtomicU64,
}

/// The lengths of the pages in bytes: usually short, some long, and fixed lengths for the last pages.
#[derive(Debug, Clone)]
pub(super) struct Lengths {
    pub(super) usual: Range<usize>,
    /// Every n-th page is long.
    pub(super) long_every: usize,
    pub(super) long: Range<usize>,
    /// The lengths of the last pages.
    pub(super) last: Vec<usize>,
}

/// The pages that a purge covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// The page of this number.
    Url(usize),
    /// The pages whose number modulo [`TAGS`] is this one.
    Tag(usize),
    /// The pages in the directory with this number.
    Prefix(usize),
    /// The pages whose number ends with these two digits.
    Pattern(usize),
    /// All pages.
    Site,
}

impl Scope {
    pub(super) fn contains(self, page: usize) -> bool {
        match self {
            Self::Url(number) => page == number,
            Self::Tag(tag) => page % TAGS == tag,
            Self::Prefix(folder) => page % FOLDERS == folder,
            Self::Pattern(end) => page % ENDS == end,
            Self::Site => true,
        }
    }
}

impl SiteContent {
    pub(super) fn new(count: usize, seed: u64, lengths: &Lengths) -> Self {
        let length = |page: usize| {
            let from_end = count - page;
            if let Some(index) = lengths.last.len().checked_sub(from_end) {
                return lengths.last.get(index).copied().unwrap_or(MIN_LENGTH);
            }
            let range = if page % lengths.long_every == 1 {
                &lengths.long
            } else {
                &lengths.usual
            };
            let random = usize::try_from(mix(seed ^ to_u64(page)) >> 8).unwrap_or(0);
            range.start + random % range.len().max(1)
        };
        let pages = (0..count).map(|page| Page {
            length: length(page).max(MIN_LENGTH),
            version: AtomicU64::new(1),
            minimum: AtomicU64::new(1),
        });
        Self {
            seed,
            pages: pages.collect(),
        }
    }

    pub(super) fn page_count(&self) -> usize {
        self.pages.len()
    }

    /// The length of a page's body in bytes.
    pub(super) fn length(&self, page: usize) -> usize {
        self.pages.get(page).map_or(0, |page| page.length)
    }

    pub(super) fn version(&self, page: usize) -> u64 {
        self.pages
            .get(page)
            .map_or(0, |page| page.version.load(Ordering::SeqCst))
    }

    /// The oldest version that a request sent from now on may receive.
    pub(super) fn minimum_version(&self, page: usize) -> u64 {
        self.pages
            .get(page)
            .map_or(0, |page| page.minimum.load(Ordering::SeqCst))
    }

    /// Changes all pages that a purge will cover; returns them with their new versions.
    pub(super) fn change(&self, scope: Scope) -> Vec<(usize, u64)> {
        let pages = self.pages.iter().enumerate();
        pages
            .filter(|(number, _)| scope.contains(*number))
            .map(|(number, page)| (number, page.version.fetch_add(1, Ordering::SeqCst) + 1))
            .collect()
    }

    /// Raises the minimum versions after the purge of a change was acknowledged.
    pub(super) fn acknowledge(&self, changed: &[(usize, u64)]) {
        for (number, version) in changed {
            if let Some(page) = self.pages.get(*number) {
                page.minimum.fetch_max(*version, Ordering::SeqCst);
            }
        }
    }

    /// The body of this version of a page.
    pub(super) fn generate(&self, page: usize, version: u64) -> Vec<u8> {
        let length = self.length(page);
        let mut body = format!("{} {version} {length}\n", path(page)).into_bytes();
        body.reserve(length + 8);
        let mut state = mix(self.seed ^ mix(to_u64(page)) ^ version) | 1;
        while body.len() < length {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            body.extend_from_slice(&state.to_le_bytes());
        }
        body.truncate(length.max(MIN_LENGTH));
        body
    }

    /// Compares a response with the page's content. `minimum` is the minimum version when the request was sent.
    pub(super) fn verify(&self, page: usize, minimum: u64, response: &Response) -> Verdict {
        if response.status != 200 {
            return Verdict::Failed;
        }
        match self.version_of(page, response) {
            None => Verdict::Torn,
            Some(version) if version < minimum => Verdict::Stale,
            Some(_) => Verdict::Correct,
        }
    }

    /// The version of a response, if it is complete and consistent.
    pub(super) fn version_of(&self, page: usize, response: &Response) -> Option<u64> {
        let line = response.body.split(|byte| *byte == b'\n').next()?;
        let line = std::str::from_utf8(line).ok()?;
        let version: u64 = line.split(' ').nth(1)?.parse().ok()?;
        let head_version: u64 = response.field(VERSION_FIELD)?.parse().ok()?;
        let is_consistent = version <= self.version(page)
            && version == head_version
            && self.generate(page, version) == response.body;
        is_consistent.then_some(version)
    }
}

/// The path of a page.
pub(super) fn path(page: usize) -> String {
    format!("/f{}/p{page:04}/", page % FOLDERS)
}

/// The page at a path.
pub(super) fn number(path: &str) -> Option<usize> {
    let (_, number) = path.strip_suffix('/')?.rsplit_once("/p")?;
    let page = number.parse().ok()?;
    (self::path(page) == path).then_some(page)
}

fn to_u64(page: usize) -> u64 {
    u64::try_from(page).unwrap_or(u64::MAX)
}

/// The response field with the version of the body.
pub(super) const VERSION_FIELD: &str = "X-Version";
pub(super) const TAGS: usize = 16;
pub(super) const FOLDERS: usize = 10;
pub(super) const ENDS: usize = 100;
/// Enough for the first line.
const MIN_LENGTH: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> SiteContent {
        let lengths = Lengths {
            usual: 100..5_000,
            long_every: 10,
            long: 20_000..30_000,
            last: vec![70_000, 1],
        };
        SiteContent::new(40, 5, &lengths)
    }

    fn response(body: Vec<u8>, version: u64) -> Response {
        Response {
            version: "HTTP/1.1".to_owned(),
            status: 200,
            fields: vec![(VERSION_FIELD.to_owned(), version.to_string().into_bytes())],
            body,
            interim: Vec::new(),
            raw: Vec::new(),
        }
    }

    #[test]
    fn a_damaged_body_is_torn_and_an_old_version_is_stale() {
        let content = sample();
        let changed = content.change(Scope::Tag(7));
        assert_eq!(changed, [(7, 2), (23, 2), (39, 2)]);
        let verify =
            |body, version| content.verify(7, content.minimum_version(7), &response(body, version));
        assert_eq!(
            verify(content.generate(7, 1), 1),
            Verdict::Correct,
            "not acknowledged"
        );
        content.acknowledge(&changed);
        assert_eq!(verify(content.generate(7, 1), 1), Verdict::Stale);
        assert_eq!(verify(content.generate(7, 2), 2), Verdict::Correct);
        assert_eq!(
            verify(content.generate(7, 2), 1),
            Verdict::Torn,
            "another head"
        );
        assert_eq!(
            verify(content.generate(7, 3), 3),
            Verdict::Torn,
            "no such version"
        );
        assert_eq!(
            verify(content.generate(8, 2), 2),
            Verdict::Torn,
            "another page"
        );
        let complete = content.generate(7, 2);
        for at in 0..complete.len() {
            let mut flipped = complete.clone();
            flipped[at] ^= 1;
            assert_ne!(verify(flipped, 2), Verdict::Correct, "byte {at}");
            assert_eq!(
                verify(complete[..at].to_vec(), 2),
                Verdict::Torn,
                "truncated at {at}"
            );
        }
        let mut failed = response(complete, 2);
        failed.status = 502;
        assert_eq!(content.verify(7, 0, &failed), Verdict::Failed);
    }

    #[test]
    fn pages_have_their_paths_and_lengths() {
        let content = sample();
        for page in 0..content.page_count() {
            assert_eq!(number(&path(page)), Some(page));
            assert!(content.generate(page, 1).len() >= MIN_LENGTH);
        }
        assert_eq!(content.generate(38, 1).len(), 70_000);
        assert_eq!(content.generate(39, 1).len(), MIN_LENGTH);
        for other in ["/", "/f1/p0002/", "/f1/p1/", "/f1/p0001", "/f1/p0001/x/"] {
            assert_eq!(number(other), None, "{other}");
        }
    }

    #[test]
    fn scopes_contain_their_pages() {
        let pages = |scope: Scope| (0..40).filter(|page| scope.contains(*page)).count();
        assert_eq!(pages(Scope::Url(3)), 1);
        assert_eq!(pages(Scope::Tag(3)), 3);
        assert_eq!(pages(Scope::Prefix(3)), 4);
        assert_eq!(pages(Scope::Pattern(3)), 1);
        assert_eq!(pages(Scope::Site), 40);
    }
}
