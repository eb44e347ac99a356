//! What the actors share, and the laws that hold whatever they do.
//!
//! Pages show things; each thing has a version, which editors raise. A page shows its own thing, which purges by site, host,
//! URL, prefix and pattern are about, and those behind its tags. All of it is in memory and steps aside nowhere, so that a
//! look and what follows from it are one step.

use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use galley_policy::purge::{Purge, Scope, Strength};
use http::{HeaderMap, HeaderValue};

use super::Without;
use crate::body::StoredBody;
use crate::entry::{Entry, EntryKind, EntryParts};
use crate::fill::Fill;
use crate::log::{Generation, PurgeLog};
use crate::memory::Memory;
use crate::purge_table::PurgeTable;
use crate::testing::{parts, scopes};

/// Host, and path with query.
pub(super) const PAGES: [(&str, &str); 3] = [
    ("a.test", "/"),
    ("a.test", "/shop/a"),
    ("b.test", "/shop/b?x=1"),
];
/// The things behind tags come after the pages' own.
pub(super) const TAGS: [&str; 2] = ["t", "u"];
pub(super) const T: usize = PAGES.len();
pub(super) const U: usize = T + 1;
const THINGS: usize = PAGES.len() + TAGS.len();
/// The page that has more tags than are kept.
pub(super) const TAGGED_ALL: usize = 2;

/// Of each thing that is shown, the version.
pub(super) type Content = [Option<u64>; THINGS];
/// Of each thing, the least version that may be shown.
pub(super) type Least = [u64; THINGS];

pub(super) struct World {
    pub(super) without: Option<Without>,
    pub(super) memory: Memory,
    pub(super) table: PurgeTable,
    pub(super) log: Option<PurgeLog>,
    pub(super) flights: Mutex<[Option<Arc<Flight>>; PAGES.len()]>,
    history: Mutex<History>,
}

/// A page being generated, as a fetch thread keeps it.
pub(super) struct Flight {
    pub(super) fill: Arc<Fill>,
    /// `None` until its request is sent.
    pub(super) born: Mutex<Option<u64>>,
}

/// What happened so far.
pub(super) struct History {
    pub(super) versions: Least,
    /// The tags that each page has now.
    pub(super) tags: [Vec<usize>; PAGES.len()],
    compositions: Vec<Composition>,
    purges: Vec<(u64, Purge)>,
    /// Acknowledged hard purges are for what is below these.
    pub(super) least: Least,
    /// The same, of those that a restart has to obey too.
    pub(super) durable: Least,
    /// Entries that were taken in and never removed.
    residents: Vec<Arc<Entry>>,
    pub(super) shelf: Vec<Shelved>,
    pub(super) served: usize,
    pub(super) broken: Vec<String>,
}

#[derive(Clone, Debug)]
struct Composition {
    page: usize,
    content: Content,
    /// The counter when the request that brought it had not been sent.
    before: u64,
    tags: Vec<&'static str>,
}

/// An entry as it is on a disk.
#[derive(Clone)]
pub(super) struct Shelved {
    pub(super) generation: Generation,
    pub(super) parts: EntryParts,
}

impl World {
    pub(super) fn new(without: Option<Without>, table: PurgeTable, log: Option<PurgeLog>) -> Self {
        Self {
            without,
            memory: Memory::new(1 << 22, 1 << 16),
            table,
            log,
            flights: Mutex::default(),
            history: Mutex::new(History {
                versions: [0; THINGS],
                tags: [vec![T], vec![U], vec![T, U]],
                compositions: Vec::new(),
                purges: Vec::new(),
                least: [0; THINGS],
                durable: [0; THINGS],
                residents: Vec::new(),
                shelf: Vec::new(),
                served: 0,
                broken: Vec::new(),
            }),
        }
    }

    /// Whether a line of the protocol is taken out.
    pub(super) fn is_without(&self, line: Without) -> bool {
        self.without == Some(line)
    }

    pub(super) fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap()
    }

    /// A request begins: what may be shown to it.
    pub(super) fn least(&self) -> Least {
        self.history().least
    }

    /// A purge is final: what was begun after its acknowledgement shows nothing older.
    pub(super) fn serve(&self, least: &Least, composition: usize, how: &str) {
        self.history().serve(least, composition, how);
    }

    /// An entry is purged only by a hard purge that touches it and came after its request was about to be sent.
    pub(super) fn is_dead(&self, entry: &Entry) {
        let mut history = self.history();
        let composition = history.compositions[composition(entry)].clone();
        let is_touched = history.purges.iter().any(|(number, purge)| {
            *number > composition.before
                && purge.strength == Strength::Hard
                && composition.is_touched(&purge.scope)
        });
        if !is_touched {
            let purges = format!("{:?}", history.purges);
            history.breaks(format!("dead without a purge: {composition:?}, {purges}"));
        }
    }

    /// An entry was taken in: nothing that was born later had to go for it.
    pub(super) fn is_put(&self, entry: &Arc<Entry>) {
        let mut history = self.history();
        let same = |other: &&Arc<Entry>| other.key == entry.key;
        let newest = history
            .residents
            .iter()
            .filter(same)
            .map(|other| other.born)
            .max();
        if newest.is_some_and(|newest| newest > entry.born) {
            history.breaks(format!(
                "{entry:?} took the place of one that was born at {newest:?}"
            ));
        }
        history.residents.retain(|other| other.key != entry.key);
        history.residents.push(Arc::clone(entry));
    }

    /// An entry is about to be removed.
    pub(super) fn is_removed(&self, entry: &Entry) {
        self.history()
            .residents
            .retain(|other| !std::ptr::eq(&raw const **other, entry));
    }

    /// When all is over: what was taken in and not removed is there.
    pub(super) fn nothing_is_lost(&self) {
        let mut history = self.history();
        let lost = history.residents.iter().find(|entry| {
            let found = self.memory.peek(entry.key.bytes());
            found.is_none_or(|found| !Arc::ptr_eq(&found, entry))
        });
        if let Some(lost) = lost.cloned() {
            history.breaks(format!("{lost:?} was lost"));
        }
    }

    pub(super) fn ordered(&self, number: u64, purge: &Purge) {
        self.history().purges.push((number, purge.clone()));
    }
}

impl History {
    pub(super) fn serve(&mut self, least: &Least, composition: usize, how: &str) {
        self.served += 1;
        let composition = self.compositions[composition].clone();
        let is_older = |(shown, least): (&Option<u64>, &u64)| shown.is_some_and(|v| v < *least);
        if composition.content.iter().zip(least).any(is_older) {
            self.breaks(format!(
                "{how} gave {composition:?} where {least:?} is the least"
            ));
        }
    }

    pub(super) fn breaks(&mut self, what: String) {
        self.broken.push(what);
    }

    /// Raises the versions of what a purge is about.
    pub(super) fn change(&mut self, scope: &Scope) -> Vec<(usize, u64)> {
        let mut changed = Vec::new();
        for thing in 0..THINGS {
            let is_meant = match (scope, PAGES.get(thing)) {
                (Scope::Site, _) => true,
                (Scope::Tag(tag), _) => thing >= T && TAGS[thing - T] == tag,
                (_, Some(_)) => reaches(scope, thing),
                (_, None) => false,
            };
            if is_meant {
                self.versions[thing] += 1;
                changed.push((thing, self.versions[thing]));
            }
        }
        changed
    }

    /// A page begins to be generated; what it shows is not known yet.
    pub(super) fn compose(&mut self, page: usize, before: u64, tags: Vec<&'static str>) -> usize {
        self.compositions.push(Composition {
            page,
            content: [None; THINGS],
            before,
            tags,
        });
        self.compositions.len() - 1
    }

    pub(super) fn show(&mut self, composition: usize, thing: usize) {
        self.compositions[composition].content[thing] = Some(self.versions[thing]);
    }

    pub(super) fn content(&self, composition: usize) -> Content {
        self.compositions[composition].content
    }

    /// What was shown before is still shown, by a head that is newer than its body.
    pub(super) fn show_still(&mut self, composition: usize, before: &Content) {
        for (shown, before) in self.compositions[composition]
            .content
            .iter_mut()
            .zip(before)
        {
            *shown = before.or(*shown);
        }
    }

    pub(super) fn tags_of(&self, composition: usize) -> Vec<&'static str> {
        self.compositions[composition].tags.clone()
    }

    /// Puts an entry on the disk; an older one never replaces a newer one.
    pub(super) fn shelve(&mut self, generation: Generation, parts: EntryParts) {
        let same = |other: &&Shelved| other.parts.key == parts.key;
        let resident = self.shelf.iter().find(same);
        if resident.is_some_and(|other| other.parts.born > parts.born) {
            return;
        }
        self.shelf.retain(|other| other.parts.key != parts.key);
        self.shelf.push(Shelved { generation, parts });
    }
}

impl Composition {
    fn is_touched(&self, scope: &Scope) -> bool {
        let has = |tag: &str| self.tags.contains(&tag);
        has("*")
            || match scope {
                Scope::Tag(tag) => has(tag),
                _ => reaches(scope, self.page),
            }
    }
}

/// Whether a purge by anything but a tag is about a page, written from the words.
fn reaches(scope: &Scope, page: usize) -> bool {
    let (host, path_query) = PAGES[page];
    let (path, query) = path_query.split_once('?').unwrap_or((path_query, ""));
    match scope {
        Scope::Site => true,
        Scope::Host(named) => named == host,
        Scope::Url {
            host: on,
            path: at,
            query: with,
        } => {
            on.as_deref().is_none_or(|on| on == host)
                && at == path.as_bytes()
                && with.as_deref().unwrap_or_default() == query.as_bytes()
        }
        Scope::Prefix(prefix) => {
            let prefix = std::str::from_utf8(prefix).unwrap().trim_end_matches('/');
            path == prefix || path.starts_with(&format!("{prefix}/"))
        }
        Scope::Pattern(pattern) => pattern.matches(path_query.as_ref()),
        Scope::Tag(_) => false,
    }
}

/// The tags that a page is stored with, by name.
pub(super) fn tag_names(
    page: usize,
    things: &[usize],
    without: Option<Without>,
) -> Vec<&'static str> {
    if page == TAGGED_ALL && without != Some(Without::TooManyTagsMeanAll) {
        return vec!["*"];
    }
    let most = if page == TAGGED_ALL { 1 } else { things.len() };
    things
        .iter()
        .take(most)
        .map(|thing| TAGS[thing - T])
        .collect()
}

pub(super) fn page_parts(
    page: usize,
    composition: usize,
    kind: EntryKind,
    tags: &[&'static str],
    born: u64,
    body: StoredBody,
) -> EntryParts {
    let (host, path_query) = PAGES[page];
    EntryParts {
        kind,
        fields: fields(composition),
        body,
        scopes: scopes(host, path_query, tags),
        ..parts(path_query, born)
    }
}

/// A head that says in which run its page was generated.
pub(super) fn fields(composition: usize) -> HeaderMap {
    let mut fields = HeaderMap::new();
    fields.insert("composition", HeaderValue::from(composition));
    fields
}

pub(super) fn composition(entry: &Entry) -> usize {
    named(&entry.fields)
}

pub(super) fn named(fields: &HeaderMap) -> usize {
    fields["composition"].to_str().unwrap().parse().unwrap()
}

pub(super) fn body_of(composition: usize) -> Bytes {
    composition.to_le_bytes().to_vec().into()
}
