//! The compression dictionaries of a site, and the choice of them (RFC 9842; see [`galley_policy::dictionary`]).
//!
//! The pages of one host and one template share a dictionary: the plain body of the page with the most hits among those that were
//! visited lately. It is frozen for [`dictionary::LIFETIME`], and dropped at once when a purge touches its page. The requests of clients
//! compare it with the purges before each use ([`Dictionaries::find`] does not); [`Dictionaries::renew`], about once a second, drops and
//! chooses. Each change is a new state: pages that were compared with another state are compared again at their next hit
//! ([`crate::compress::Compressing::offer_dictionary`]).
//!
//! Nothing outlives the configuration of the site: another configuration may close the page to some clients.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use galley_cache::budget::MemoryBudget;
use galley_cache::dictionaries::DifferenceRoom;
use galley_cache::entry::{CompressionStep, Entry, EntryKind, EntryParts};
use galley_cache::key::Key;
use galley_cache::memory::Memory;
use galley_policy::compress::vary_on_coding;
use galley_policy::dictionary::{self, DictionaryHash, PageTemplate};
use galley_policy::storable::Lifetime;
use galley_policy::time::Tick;
use galley_sys::Lock;
use http::StatusCode;
use sha2::{Digest, Sha256};

use crate::forms::forms_with;
use crate::next_pages::NextPages;
use crate::unpack;

/// A dictionary.
pub struct Dictionary {
    /// The SHA-256 of its bytes.
    pub hash: DictionaryHash,
    /// The response with it, in all codings of its page. Purges of the page and of its fragments reach it.
    pub entry: Arc<Entry>,
    template: PageTemplate,
}

impl Dictionary {
    /// Whether the time for which it may be used has not passed.
    pub fn is_fresh(&self, now: Tick) -> bool {
        now.since(self.entry.stored_at) < dictionary::LIFETIME
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        self.entry.body().map_or(&[], |body| body)
    }

    /// The host of its pages ([`galley_policy::key::host_id`]).
    pub fn host(&self) -> u64 {
        self.entry.scopes.host
    }

    fn is_for(&self, host: u64, template: &PageTemplate) -> bool {
        self.host() == host && self.template == *template
    }
}

/// The dictionaries of a site.
pub struct Dictionaries {
    /// Written under the lock of `templates`. 0: the site has no dictionaries.
    state: AtomicU32,
    /// Written under the lock of `templates`; read by hits.
    current: ArcSwap<Vec<Arc<Dictionary>>>,
    templates: Lock<Vec<TemplatePages>>,
    /// The memory for the forms that are made with them.
    room: Arc<DifferenceRoom>,
    /// Whether a page was noted.
    is_used: AtomicBool,
    /// Whether the site has dictionaries.
    is_on: bool,
    /// The pages that visitors open from each page, if pages name them. The choice of them is a part of the state.
    next_pages: Option<NextPages>,
    /// When pages are compared again, and how often they were. Written by [`Self::renew`] alone.
    choices: Lock<(Tick, u32)>,
}

/// Pages of a template that were visited.
struct TemplatePages {
    host: u64,
    template: PageTemplate,
    pages: Vec<Key>,
    /// No dictionary is chosen before.
    not_before: Tick,
}

impl Dictionaries {
    /// Those of a site; none yet. `is_on`: the option `dictionaries`. `next_pages`: those that pages name, with the option `next_pages`.
    pub fn new(is_on: bool, next_pages: Option<NextPages>) -> Self {
        let has_state = is_on || next_pages.is_some();
        Self {
            state: AtomicU32::new(if has_state { next_state() } else { OFF }),
            current: ArcSwap::default(),
            templates: Lock::default(),
            room: Arc::default(),
            is_used: AtomicBool::new(next_pages.is_some()),
            is_on,
            next_pages,
            choices: Lock::default(),
        }
    }

    /// Whether the site has dictionaries.
    pub fn are_on(&self) -> bool {
        self.is_on
    }

    /// The pages that visitors open from each page, if pages name them.
    pub fn next_pages(&self) -> Option<&NextPages> {
        self.next_pages.as_ref()
    }

    /// The memory for the forms that are made with the dictionaries.
    pub(crate) fn room(&self) -> &Arc<DifferenceRoom> {
        &self.room
    }

    /// The number of the present state; 0 if the site has neither dictionaries nor next pages. Another state has another number.
    pub fn state(&self) -> u32 {
        self.state.load(Ordering::Acquire)
    }

    /// The dictionary with this hash, which may be purged or too old. Takes no lock.
    pub fn find(&self, hash: &[u8]) -> Option<Arc<Dictionary>> {
        let current = self.current.load();
        current.iter().find(|one| one.hash == hash).cloned()
    }

    /// The dictionary of the pages of a template.
    pub fn of(&self, host: u64, template: &PageTemplate) -> Option<Arc<Dictionary>> {
        let current = self.current.load();
        let mut dictionaries = current.iter();
        dictionaries.find(|one| one.is_for(host, template)).cloned()
    }

    /// Notes a page that was visited and may become the dictionary of its template. A page with fewer hits than the noted ones is not
    /// noted, if there are many.
    pub(crate) fn note(&self, page: &Entry, template: &PageTemplate, memory: &Memory, now: Tick) {
        if !dictionary::may_be_dictionary(&page.scopes.path_query, page.length()) {
            return;
        }
        let host = page.scopes.host;
        let mut templates = self.templates.lock();
        let is_known = |one: &TemplatePages| one.host == host && one.template == *template;
        let at = templates.iter().position(is_known).unwrap_or_else(|| {
            if templates.len() >= MAX_TEMPLATES {
                // The one that was noted first and has no dictionary, so that no address that is requested once keeps its place.
                let is_idle = |one: &TemplatePages| self.of(one.host, &one.template).is_none();
                let idle = templates.iter().position(is_idle).unwrap_or(0);
                templates.remove(idle);
            }
            templates.push(TemplatePages {
                host,
                template: template.clone(),
                pages: Vec::new(),
                not_before: now.plus(CHOICE),
            });
            templates.len() - 1
        });
        if let Some(known) = templates.get_mut(at) {
            known.note(page, memory);
        }
        self.is_used.store(true, Ordering::Relaxed);
    }

    /// Whether any page was noted, so that [`Self::renew`] may have something to do.
    pub fn are_used(&self) -> bool {
        self.is_used.load(Ordering::Relaxed)
    }

    /// Drops dictionaries that are too old or that a purge has touched, and chooses new ones from the pages in `memory`. `is_valid`: whether
    /// no purge touches an entry. Takes some milliseconds for each new dictionary.
    pub fn renew(&self, memory: &Memory, now: Tick, is_valid: &dyn Fn(&Entry) -> bool) {
        let mut templates = self.templates.lock();
        let before = self.current.load_full();
        let mut current: Vec<Arc<Dictionary>> = before.iter().map(Arc::clone).collect();
        current.retain(|one| one.is_fresh(now) && is_valid(&one.entry));
        let mut has_changed = current.len() != before.len() || self.compares_again(now);
        for known in &mut *templates {
            if current
                .iter()
                .any(|one| one.is_for(known.host, &known.template))
            {
                continue;
            }
            if now.0 < known.not_before.0 {
                continue;
            }
            known.not_before = now.plus(CHOICE);
            if let Some(chosen) = known.choose(memory, now, is_valid) {
                current.push(Arc::new(chosen));
                has_changed = true;
            }
        }
        if has_changed {
            self.current.store(Arc::new(current));
            // After the dictionaries, so that who sees the new state sees them.
            self.state.store(next_state(), Ordering::Release);
        }
    }

    /// Whether pages are compared again, because they choose again which pages they name, or because there is room for a form that was
    /// refused: soon after the start, then every ten minutes.
    fn compares_again(&self, now: Tick) -> bool {
        let mut choices = self.choices.lock();
        let (due, count) = *choices;
        if now.0 < due.0 {
            return false;
        }
        let pause = CHOICE.saturating_mul(1 << count.min(8)).min(NEXT_CHOICE);
        *choices = (now.plus(pause), count.wrapping_add(1));
        let has_room = self.room.has_room_again();
        let Some(next_pages) = &self.next_pages else {
            return has_room;
        };
        if count % CHOICES_OF_DAY == CHOICES_OF_DAY - 1 {
            next_pages.age();
        }
        true
    }
}

impl TemplatePages {
    fn note(&mut self, page: &Entry, memory: &Memory) {
        if self.pages.contains(&page.key) {
            return;
        }
        if self.pages.len() >= MAX_PAGES {
            let hits = |key: &Key| memory.peek(key.bytes()).map_or(0, |page| page.hits());
            let least = self
                .pages
                .iter()
                .map(hits)
                .enumerate()
                .min_by_key(|(_, hits)| *hits);
            match least {
                Some((at, hits)) if hits < page.hits() => self.pages.swap_remove(at),
                _ => return,
            };
        }
        self.pages.push(page.key.clone());
    }

    /// The dictionary made of the page with the most hits. `None`: fewer than two pages are known, or the page does not fit.
    fn choose(
        &self,
        memory: &Memory,
        now: Tick,
        is_valid: &dyn Fn(&Entry) -> bool,
    ) -> Option<Dictionary> {
        let pages = self.pages.iter().filter_map(|key| memory.peek(key.bytes()));
        let pages: Vec<Arc<Entry>> = pages.filter(|page| is_valid(page)).collect();
        // A client loads the dictionary in addition to the pages.
        if pages.len() < MIN_PAGES {
            return None;
        }
        let page = pages.iter().max_by_key(|page| page.hits())?;
        freeze(page, &self.template, now, memory.budget())
    }
}

/// The dictionary with the bytes of a page. The bodies are shared with the page. `None`: there is no memory.
fn freeze(
    page: &Arc<Entry>,
    template: &PageTemplate,
    now: Tick,
    budget: &MemoryBudget,
) -> Option<Dictionary> {
    let unpacked = page.is_packed().then(|| unpack::unpack(page, budget));
    let body = match &unpacked {
        None => page.stored_body().cloned(),
        Some(unpacked) => unpacked.as_ref().ok()?.stored_body().cloned(),
    }?;
    let hash: DictionaryHash = Sha256::digest(body.bytes()).into();
    let mut fields = dictionary::own_fields(template, &hash);
    vary_on_coding(&mut fields);
    let plain = Entry::new(EntryParts {
        key: page.key.clone(),
        kind: EntryKind::Page,
        status: StatusCode::OK,
        fields: fields.clone(),
        body,
        stored_at: now,
        lifetime: Lifetime {
            fresh: dictionary::LIFETIME,
            stale_while_revalidate: Duration::ZERO,
            stale_if_error: Duration::ZERO,
            initial_age: Duration::ZERO,
        },
        scopes: page.scopes.clone(),
        tags: Vec::new(),
        born: page.born,
    });
    let plain = plain.with_fragments(page.fragments().to_vec());
    let entry = plain.with_coded(&fields, forms_with(&fields, page), CompressionStep::Dense);
    entry.reserve(budget).ok()?;
    Some(Dictionary {
        hash,
        entry: Arc::new(entry),
        template: template.clone(),
    })
}

/// A number that no other state of any site has had, until 2^32 changes later.
fn next_state() -> u32 {
    static LAST: AtomicU32 = AtomicU32::new(OFF);
    loop {
        let state = LAST.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        if state != OFF {
            return state;
        }
    }
}

/// The state of a site without dictionaries, and of pages that were never compared with any.
const OFF: u32 = 0;

/// How long the pages of a template gather hits before one of them is chosen, and the least time between two choices: each choice lets the
/// pages that are visited be encoded again.
const CHOICE: Duration = Duration::from_secs(3);

/// The longest time between two choices of the pages that pages name, and two tries of forms that were refused. Each lets the pages that are
/// visited be read once.
const NEXT_CHOICE: Duration = Duration::from_secs(600);

/// The choices after which counts are halved.
const CHOICES_OF_DAY: u32 = 144;

/// The maximum number of templates of a site, and with it of dictionaries in memory.
const MAX_TEMPLATES: usize = 8;

/// The maximum number of noted pages of a template.
const MAX_PAGES: usize = 8;

/// The minimum number of pages of a template that has a dictionary.
const MIN_PAGES: usize = 2;

#[cfg(test)]
mod tests;
