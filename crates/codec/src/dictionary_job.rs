//! Makes the `dcz` form of a stored page, and names the dictionary in its head.
//!
//! A page has at most one such form. It is stored only if it is at most half as long as the other forms, and if the forms of the site
//! together use at most a tenth of the memory of their pages ([`DifferenceRoom`](galley_cache::dictionaries::DifferenceRoom)). As any other
//! form it belongs to the entry: purges, refreshes and patches end it with the page.

use std::sync::{Arc, Weak};

use galley_cache::body::StoredBody;
use galley_cache::entry::{EncodedEntry, Entry};
use galley_cache::memory::Memory;
use galley_policy::dictionary::{self, PageTemplate};
use galley_policy::encoding::Coding;
use galley_policy::time::Tick;
use http::HeaderMap;

use crate::dictionaries::{Dictionaries, Dictionary};
use crate::encode;
use crate::forms::forms_with;
use crate::taking_part::may_take_part;
use crate::unpack;

/// A page that is compared with the dictionaries of its site.
pub(crate) struct DictionaryJob {
    /// The cache that stores the page.
    pub(crate) memory: Arc<Memory>,
    /// Weak: a page that has been evicted must not use memory.
    pub(crate) entry: Weak<Entry>,
    pub(crate) dictionaries: Arc<Dictionaries>,
    /// Whether the page is the same for everyone, so that it may take part.
    pub(crate) is_for_everyone: bool,
    pub(crate) now: Tick,
}

impl DictionaryJob {
    /// Lets a later hit try again.
    pub(crate) fn release(&self) {
        if let Some(entry) = self.entry.upgrade() {
            release(&entry);
        }
    }

    /// Does the work. Returns the bytes before and after, if the page was encoded.
    pub(crate) fn work(self) -> Option<(u64, u64)> {
        let entry = self.entry.upgrade()?;
        let dictionary = (self.dictionaries.are_on() && self.is_for_everyone)
            .then(|| self.dictionary_of(&entry))
            .flatten();
        let coded = entry.coded().iter().find(|form| form.coding == Coding::Dcz);
        let mut fields = entry.fields.clone();
        let hash = dictionary.as_ref().map(|one| &one.hash);
        let has_changed = dictionary::name_dictionary(&mut fields, hash)
            | self.name_next_pages(&mut fields, &entry);
        let is_held = coded.is_some_and(|form| {
            dictionary::hash_of_body(form.body.bytes()) == hash.map(|hash| &hash[..])
        });
        if !has_changed && (is_held || (coded.is_none() && dictionary.is_none())) {
            return None;
        }
        let mut forms = forms_with(&fields, &entry);
        let step = entry.compression_step();
        let share = dictionary.as_ref();
        let share = share.map(|_| entry.share_in(self.dictionaries.room()));
        let new = entry.with_coded(&fields, forms.clone(), step);
        let mut new = new.with_difference_share(share.clone());
        let mut made = None;
        if let Some((dictionary, share)) = dictionary.as_ref().zip(share) {
            share.add(new.tenth());
            let body = if is_held {
                coded.map(|form| form.body.clone())
            } else {
                self.encode(&entry, dictionary)
            };
            if let Some(body) = body {
                made = Some((entry.length(), body.bytes().len() as u64));
                let dcz_fields = dictionary::dcz_fields(&fields, &dictionary.hash);
                let form = EncodedEntry::new(Coding::Dcz, &dcz_fields, body);
                if is_worth_it(&form, &new) && share.take(new.tenth(), &form) {
                    forms.push(form);
                    new = new.with_coded(&fields, forms, step);
                }
            }
        }
        new.claim_dictionaries(entry.dictionaries());
        if self.memory.put_if_same(&entry, Arc::new(new)).is_err()
            && let Some(newer) = self.memory.peek(entry.key.bytes())
        {
            // It may be a copy of the former entry, in another form.
            release(&newer);
        }
        made
    }

    /// The dictionary of a page; notes the page, which may become one.
    fn dictionary_of(&self, page: &Entry) -> Option<Arc<Dictionary>> {
        if !may_take_part(page) {
            return None;
        }
        let template = PageTemplate::of(&page.scopes.path_query);
        self.dictionaries
            .note(page, &template, &self.memory, self.now);
        self.dictionaries.of(page.scopes.host, &template)
    }

    /// Names the pages in the head that visitors open from this one. Returns whether the head changed.
    fn name_next_pages(&self, fields: &mut HeaderMap, page: &Entry) -> bool {
        let next_pages = self.dictionaries.next_pages();
        let has_changed = next_pages
            .filter(|_| self.is_for_everyone && may_take_part(page))
            .and_then(|next_pages| {
                self.with_plain(page, |body| {
                    next_pages.name_in(fields, page, body, &self.memory)
                })
            });
        has_changed.unwrap_or(false)
    }

    /// What is made of the plain body; `None`: it is damaged, or there is no memory for it.
    fn with_plain<T>(&self, page: &Entry, read: impl FnOnce(&[u8]) -> T) -> Option<T> {
        if let Some(body) = page.body() {
            return Some(read(body));
        }
        let unpacked = unpack::unpack(page, self.memory.budget()).ok()?;
        unpacked.body().map(|body| read(body))
    }

    fn encode(&self, page: &Entry, dictionary: &Dictionary) -> Option<StoredBody> {
        self.with_plain(page, |body| self.difference(body, dictionary))?
    }

    fn difference(&self, body: &[u8], dictionary: &Dictionary) -> Option<StoredBody> {
        let budget = self.memory.budget();
        let both = body.len().saturating_add(dictionary.bytes().len());
        let reserved = budget.try_reserve(encode::working_memory(both, Coding::Dcz, 0))?;
        let bytes = encode::by_dictionary(body, dictionary.bytes(), &dictionary.hash)?;
        drop(reserved);
        let room = budget.try_reserve(bytes.len() as u64)?;
        Some(StoredBody::reserved(bytes, room))
    }
}

fn release(entry: &Entry) {
    entry.claim_dictionaries(u32::MAX);
}

/// Whether a form saves at least half of each other form of a page.
pub(crate) fn is_worth_it(form: &EncodedEntry, page: &Entry) -> bool {
    let length = form.body.bytes().len();
    let mut others = page.coded().iter();
    others.all(|other| length <= other.body.bytes().len() / 2)
}
