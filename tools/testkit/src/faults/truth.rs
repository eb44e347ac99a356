//! What the upstream generates now, and what visitors may therefore get.
//!
//! A page's body is a function of its number and its version, so that any response can be compared to its last byte with a
//! freshly generated one. The version rises before a purge is sent; the floor follows when the purge has been acknowledged.
//! An answer to a request that began at a floor may be of that version or a newer one, never older.

use std::{
    ops::Range,
    sync::atomic::{AtomicU64, Ordering},
};

use super::{dice::mixed, tally::Verdict};
use crate::client::Response;

/// The pages of the site.
#[derive(Debug)]
pub(super) struct Truth {
    seed: u64,
    pages: Vec<Page>,
}

#[derive(Debug)]
struct Page {
    length: usize,
    /// Of what would be generated now.
    version: AtomicU64,
    /// The newest version that an acknowledged purge was about.
    floor: AtomicU64,
}

/// How long the pages are: mostly short, some long, and single ones of a length of their own.
#[derive(Debug, Clone)]
pub(super) struct Lengths {
    pub(super) usual: Range<usize>,
    /// One page in so many is long.
    pub(super) long_every: usize,
    pub(super) long: Range<usize>,
    /// The last pages have these.
    pub(super) last: Vec<usize>,
}

/// What a purge is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// The page of this number.
    Url(usize),
    /// The pages whose number leaves this rest when divided by [`TAGS`].
    Tag(usize),
    /// The pages in the folder of this number.
    Prefix(usize),
    /// The pages whose number ends with these two digits.
    Pattern(usize),
    /// All.
    Site,
}

impl Scope {
    pub(super) fn touches(self, page: usize) -> bool {
        match self {
            Self::Url(number) => page == number,
            Self::Tag(tag) => page % TAGS == tag,
            Self::Prefix(folder) => page % FOLDERS == folder,
            Self::Pattern(end) => page % ENDS == end,
            Self::Site => true,
        }
    }
}

impl Truth {
    pub(super) fn new(count: usize, seed: u64, lengths: &Lengths) -> Self {
        let length = |page: usize| {
            let from_end = count - page;
            if let Some(own) = lengths.last.len().checked_sub(from_end) {
                return lengths.last.get(own).copied().unwrap_or(SHORTEST);
            }
            let range = if page % lengths.long_every == 1 {
                &lengths.long
            } else {
                &lengths.usual
            };
            let chance = usize::try_from(mixed(seed ^ of(page)) >> 8).unwrap_or(0);
            range.start + chance % range.len().max(1)
        };
        let pages = (0..count).map(|page| Page {
            length: length(page).max(SHORTEST),
            version: AtomicU64::new(1),
            floor: AtomicU64::new(1),
        });
        Self {
            seed,
            pages: pages.collect(),
        }
    }

    pub(super) fn count(&self) -> usize {
        self.pages.len()
    }

    /// Of a page's body, in bytes.
    pub(super) fn length(&self, page: usize) -> usize {
        self.pages.get(page).map_or(0, |page| page.length)
    }

    pub(super) fn version(&self, page: usize) -> u64 {
        self.pages
            .get(page)
            .map_or(0, |page| page.version.load(Ordering::SeqCst))
    }

    /// To be read before a request begins.
    pub(super) fn floor(&self, page: usize) -> u64 {
        self.pages
            .get(page)
            .map_or(0, |page| page.floor.load(Ordering::SeqCst))
    }

    /// New content for all that a purge will be about: the pages with their new versions.
    pub(super) fn change(&self, scope: Scope) -> Vec<(usize, u64)> {
        let touched = self.pages.iter().enumerate();
        touched
            .filter(|(number, _)| scope.touches(*number))
            .map(|(number, page)| (number, page.version.fetch_add(1, Ordering::SeqCst) + 1))
            .collect()
    }

    /// The purge that followed the change has been acknowledged.
    pub(super) fn acknowledge(&self, changed: &[(usize, u64)]) {
        for (number, version) in changed {
            if let Some(page) = self.pages.get(*number) {
                page.floor.fetch_max(*version, Ordering::SeqCst);
            }
        }
    }

    /// What the upstream generates for this version of a page.
    pub(super) fn compose(&self, page: usize, version: u64) -> Vec<u8> {
        let length = self.length(page);
        let mut body = format!("{} {version} {length}\n", path(page)).into_bytes();
        body.reserve(length + 8);
        let mut state = mixed(self.seed ^ mixed(of(page)) ^ version) | 1;
        while body.len() < length {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            body.extend_from_slice(&state.to_le_bytes());
        }
        body.truncate(length.max(SHORTEST));
        body
    }

    /// Compares a response with a freshly generated one. `floor` is that of the moment in which the request began.
    pub(super) fn judge(&self, page: usize, floor: u64, answer: &Response) -> Verdict {
        if answer.status != 200 {
            return Verdict::Failed;
        }
        match self.version_in(page, answer) {
            None => Verdict::Torn,
            Some(version) if version < floor => Verdict::Stale,
            Some(_) => Verdict::Right,
        }
    }

    /// The version of a whole and unmixed answer.
    pub(super) fn version_in(&self, page: usize, answer: &Response) -> Option<u64> {
        let line = answer.body.split(|byte| *byte == b'\n').next()?;
        let line = std::str::from_utf8(line).ok()?;
        let version: u64 = line.split(' ').nth(1)?.parse().ok()?;
        let said: u64 = answer.field(VERSION_FIELD)?.parse().ok()?;
        let is_whole = version <= self.version(page)
            && version == said
            && self.compose(page, version) == answer.body;
        is_whole.then_some(version)
    }
}

/// Where a page is.
pub(super) fn path(page: usize) -> String {
    format!("/f{}/p{page:04}/", page % FOLDERS)
}

/// The page at a path.
pub(super) fn number(path: &str) -> Option<usize> {
    let (_, number) = path.strip_suffix('/')?.rsplit_once("/p")?;
    let page = number.parse().ok()?;
    (self::path(page) == path).then_some(page)
}

fn of(page: usize) -> u64 {
    u64::try_from(page).unwrap_or(u64::MAX)
}

/// In the head of an answer: the version of the body that belongs to it.
pub(super) const VERSION_FIELD: &str = "X-Version";
pub(super) const TAGS: usize = 16;
pub(super) const FOLDERS: usize = 10;
pub(super) const ENDS: usize = 100;
/// A first line always fits.
const SHORTEST: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    fn truth() -> Truth {
        let lengths = Lengths {
            usual: 100..5_000,
            long_every: 10,
            long: 20_000..30_000,
            last: vec![70_000, 1],
        };
        Truth::new(40, 5, &lengths)
    }

    fn answer(body: Vec<u8>, version: u64) -> Response {
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
    fn every_damage_is_torn_and_every_old_version_is_stale() {
        let truth = truth();
        let changed = truth.change(Scope::Tag(7));
        assert_eq!(changed, [(7, 2), (23, 2), (39, 2)]);
        let judge = |body, version| truth.judge(7, truth.floor(7), &answer(body, version));
        assert_eq!(
            judge(truth.compose(7, 1), 1),
            Verdict::Right,
            "not acknowledged"
        );
        truth.acknowledge(&changed);
        assert_eq!(judge(truth.compose(7, 1), 1), Verdict::Stale);
        assert_eq!(judge(truth.compose(7, 2), 2), Verdict::Right);
        assert_eq!(judge(truth.compose(7, 2), 1), Verdict::Torn, "another head");
        assert_eq!(judge(truth.compose(7, 3), 3), Verdict::Torn, "from nowhere");
        assert_eq!(judge(truth.compose(8, 2), 2), Verdict::Torn, "another page");
        let whole = truth.compose(7, 2);
        for at in 0..whole.len() {
            let mut flipped = whole.clone();
            flipped[at] ^= 1;
            assert_ne!(judge(flipped, 2), Verdict::Right, "byte {at}");
            assert_eq!(judge(whole[..at].to_vec(), 2), Verdict::Torn, "cut at {at}");
        }
        let mut failed = answer(whole, 2);
        failed.status = 502;
        assert_eq!(truth.judge(7, 0, &failed), Verdict::Failed);
    }

    #[test]
    fn pages_have_their_paths_and_lengths() {
        let truth = truth();
        for page in 0..truth.count() {
            assert_eq!(number(&path(page)), Some(page));
            assert!(truth.compose(page, 1).len() >= SHORTEST);
        }
        assert_eq!(truth.compose(38, 1).len(), 70_000);
        assert_eq!(truth.compose(39, 1).len(), SHORTEST);
        for other in ["/", "/f1/p0002/", "/f1/p1/", "/f1/p0001", "/f1/p0001/x/"] {
            assert_eq!(number(other), None, "{other}");
        }
    }

    #[test]
    fn scopes_touch_what_they_name() {
        let touched = |scope: Scope| (0..40).filter(|page| scope.touches(*page)).count();
        assert_eq!(touched(Scope::Url(3)), 1);
        assert_eq!(touched(Scope::Tag(3)), 3);
        assert_eq!(touched(Scope::Prefix(3)), 4);
        assert_eq!(touched(Scope::Pattern(3)), 1);
        assert_eq!(touched(Scope::Site), 40);
    }
}
