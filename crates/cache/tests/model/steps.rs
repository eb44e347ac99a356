//! Generates steps: requests, purges, damage and restarts.

use galley_policy::purge::{Purge, PurgePattern, Scope, Strength};
use proptest::prelude::*;
use proptest::sample::{Index, select};

/// One of [`PAGES`].
pub type Page = usize;

/// Host, path with query, and tags.
pub const PAGES: [(&str, &str, &[&str]); 6] = [
    ("a.test", "/", &["home", "t"]),
    ("a.test", "/shop", &["t"]),
    ("a.test", "/shop/a?x=1", &["u", "t"]),
    ("a.test", "/shopping", &[]),
    ("b.test", "/shop/a?x=1", &["u"]),
    ("b.test", "/all", &["*"]),
];

#[derive(Clone, Debug)]
pub enum Step {
    /// Send a request for a page to the upstream. The response has this length.
    Send(Page, usize),
    /// Store the response to one of the requests in progress.
    Store(Index, Target),
    Get(Page),
    Purge(Purge),
    /// Advance the time by these seconds.
    Later(u64),
    /// Evict an entry from memory.
    Evict(Page),
    /// Remove an entry from the disk.
    Remove(Page),
    /// Find and remove all purged entries.
    Sweep,
    /// Change the rules of the configuration that affect keys and scopes.
    ChangeRules,
    Damage(Damage, Index, Index),
    /// The log was lost and started again while the process runs.
    BeginGeneration(u8),
    Restart(ProcessEnd, LogState, bool),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    Memory,
    Disk,
    Both,
}

#[derive(Clone, Copy, Debug)]
pub enum Damage {
    Flip,
    Truncate,
    Lengthen,
    Remove,
    /// Exchange two files.
    Swap,
    /// Copy one file over another.
    Copy,
}

/// How a process ends.
#[derive(Clone, Copy, Debug)]
pub enum ProcessEnd {
    Closed,
    Killed,
}

/// State of the log at the next start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogState {
    Intact,
    Missing,
    Flipped,
}

pub fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(), 1..160)
}

fn step() -> impl Strategy<Value = Step> {
    let page = || 0..PAGES.len();
    let length = prop_oneof![3 => 0..9_000_usize, 1 => 21_000..140_000_usize];
    let target = select(vec![Target::Memory, Target::Disk, Target::Both]);
    let end = select(vec![ProcessEnd::Closed, ProcessEnd::Killed]);
    let log = prop_oneof![12 => Just(LogState::Intact), 1 => Just(LogState::Missing), 1 => Just(LogState::Flipped)];
    let damage = select(vec![
        Damage::Flip,
        Damage::Truncate,
        Damage::Lengthen,
        Damage::Remove,
        Damage::Swap,
        Damage::Copy,
    ]);
    prop_oneof![
        8 => (page(), length).prop_map(|(page, length)| Step::Send(page, length)),
        10 => (any::<Index>(), target).prop_map(|(at, target)| Step::Store(at, target)),
        12 => page().prop_map(Step::Get),
        6 => purge().prop_map(Step::Purge),
        1 => (0..400_000_u64).prop_map(Step::Later),
        2 => page().prop_map(Step::Evict),
        1 => page().prop_map(Step::Remove),
        1 => Just(Step::Sweep),
        1 => Just(Step::ChangeRules),
        4 => (damage, any::<Index>(), any::<Index>()).prop_map(|(how, a, b)| Step::Damage(how, a, b)),
        1 => any::<u8>().prop_map(Step::BeginGeneration),
        3 => (end, log, prop::bool::weighted(0.6)).prop_map(|(end, log, scans)| Step::Restart(end, log, scans)),
    ]
}

fn purge() -> impl Strategy<Value = Purge> {
    let url = (0..PAGES.len(), any::<bool>()).prop_map(|(page, on_host)| {
        let (host, path_query, _) = PAGES[page];
        let (path, query) = split(path_query);
        Scope::Url {
            host: on_host.then(|| host.to_owned()),
            path: path.into(),
            query: query.map(|query| query.as_bytes().to_vec()),
        }
    });
    let text = |words: &[&str]| {
        select(
            words
                .iter()
                .map(|&word| word.to_owned())
                .collect::<Vec<_>>(),
        )
    };
    let scope = prop_oneof![
        1 => Just(Scope::Site),
        1 => text(&["a.test", "b.test", "c.test"]).prop_map(Scope::Host),
        3 => url,
        2 => text(&["/shop", "/shop/", "/nowhere"]).prop_map(|path| Scope::Prefix(path.into())),
        4 => text(&["t", "u", "home", "other"]).prop_map(Scope::Tag),
        2 => text(&["^/shop", "x=1$", "^/$"]).prop_map(|text| Scope::Pattern(PurgePattern::parse(&text).unwrap())),
    ];
    let strength = prop_oneof![2 => Just(Strength::Hard), 1 => Just(Strength::Soft)];
    (scope, strength).prop_map(|(scope, strength)| Purge { scope, strength })
}

/// Path and query.
pub fn split(path_query: &str) -> (&str, Option<&str>) {
    match path_query.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (path_query, None),
    }
}

/// Whether a scope covers a page, implemented from the documentation.
pub fn covers(scope: &Scope, page: Page) -> bool {
    let (host, path_query, tags) = PAGES[page];
    let (path, query) = split(path_query);
    if tags.contains(&"*") {
        return true;
    }
    match scope {
        Scope::Site => true,
        Scope::Host(name) => name == host,
        Scope::Tag(tag) => tags.contains(&tag.as_str()),
        Scope::Url {
            host: on,
            path: at,
            query: with,
        } => {
            on.as_deref().is_none_or(|on| on == host)
                && at == path.as_bytes()
                && with.as_deref() == query.map(str::as_bytes)
        }
        Scope::Prefix(prefix) => {
            let prefix = std::str::from_utf8(prefix).unwrap().trim_end_matches('/');
            path == prefix || path.starts_with(&format!("{prefix}/"))
        }
        Scope::Pattern(pattern) => pattern.compile().matches(path_query.as_ref()),
    }
}
