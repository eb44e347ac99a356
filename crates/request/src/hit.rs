//! The fast path of a hit: from `RequestInfo` to the response, without waiting and without allocating.
//!
//! It never decides differently from the slow path: both use the same `decide`, and everything except a plain hit of a
//! fresh page in memory takes the slow path (`tests/e2e/fast_path.rs` compares their responses byte for byte).

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use galley_cache::body::StoredBody;
use galley_cache::entry::{EncodedEntry, Entry, FieldLines};
use galley_cache::memory::MemoryLookup;
use galley_files as files;
use galley_policy::conditional::{self, ConditionalResult};
use galley_policy::decide::{self, Decision};
use galley_policy::key;
use galley_policy::outcome::Outcome;
use galley_policy::purge::is_below_purge;
use galley_policy::redirect;
use galley_policy::request_info::{Cacheability, Method, RequestInfo};
use galley_policy::time::Tick;
use http::{HeaderMap, StatusCode};

use super::exchange::EarlierLookup;
use super::site::{Services, Site};
use super::{access, dictionary, page, visit};
use galley_fetch::revalidate;
use galley_sys::OwnPages;

/// A fresh page or a file in memory, in the coding that the client prefers.
pub struct Hit {
    /// Accounts for the bytes as long as the hit exists.
    entry: Arc<Entry>,
    coded: Option<usize>,
    form: SentForm,
    kind: HitKind,
}

/// Properties of a hit that are not part of the stored entry.
#[derive(Clone, Copy)]
enum HitKind {
    Page {
        age_s: u64,
    },
    /// A page that is sent as the difference to a dictionary.
    PageByDictionary {
        age_s: u64,
    },
    File {
        is_immutable: bool,
    },
}

/// The part of a page or a file that is sent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SentForm {
    Full,
    /// The head, in response to HEAD.
    Head,
    /// 304: the client's copy is still valid.
    NotModified,
}

/// The cache keys of a request. Their memory is reused.
#[derive(Default)]
pub struct Keys {
    /// The key of the page; empty if nothing may be stored for the request.
    pub page: Vec<u8>,
    /// The key of the file.
    file: Vec<u8>,
}

/// The hit of a request, if the fast path may send it. The key of the page is written to `keys`; it is empty if it was not
/// written.
///
/// Errors: the lookup result, for the slow path.
pub fn hit(
    services: &Services,
    site: &Site,
    info: &RequestInfo,
    client: IpAddr,
    now: Tick,
    keys: &mut Keys,
) -> Result<Hit, EarlierLookup> {
    keys.page.clear();
    if !is_plain(site, info) {
        return Err(EarlierLookup::None);
    }
    if info.cacheability() == Cacheability::Cacheable {
        site.write_key(info, &mut keys.page);
    }
    look(services, site, info, client, now, keys)
}

/// Whether the fast path may answer a request, by its head and its site alone.
fn is_plain(site: &Site, info: &RequestInfo) -> bool {
    matches!(info.method(), Method::Get | Method::Head)
        && info.range().is_none()
        && !(site.core.policy.requests.is_gateway && info.has_cdn_loop())
        // May be a purge.
        && !(site.core.policy.flags.purge_get && is_below_purge(info.path()))
        && !redirect::may_apply(info, &site.core.policy)
        && !site.core.policy.is_dashboard(info.decoded_path())
}

fn look(
    services: &Services,
    site: &Site,
    info: &RequestInfo,
    client: IpAddr,
    now: Tick,
    keys: &mut Keys,
) -> Result<Hit, EarlierLookup> {
    if !access::is_open(site, info, client) {
        return Err(EarlierLookup::None);
    }
    let Keys {
        page: page_key,
        file: file_key,
    } = keys;
    // As on the slow path, files come after stored entries, and need no session check.
    let mut earlier = EarlierLookup::None;
    if info.cacheability() == Cacheability::Cacheable {
        if !services.lease.holds(now) {
            return Err(EarlierLookup::None);
        }
        match services.memory.try_get(page_key) {
            MemoryLookup::Found(entry) => {
                return page(site, info, now, entry).map_err(EarlierLookup::Found);
            }
            // A writer holds the shard: nothing was looked up.
            MemoryLookup::Busy => return Err(EarlierLookup::None),
            MemoryLookup::Absent if site.may_be_on_disk(page_key) => {
                return Err(EarlierLookup::NotInMemory);
            }
            MemoryLookup::Absent if may_have_equivalent(services, site, info, file_key) => {
                return Err(EarlierLookup::Nothing);
            }
            MemoryLookup::Absent => earlier = EarlierLookup::Nothing,
        }
    }
    file(site, info, client, now, file_key).ok_or(earlier)
}

/// Whether an equivalent address may have a stored response (`No-Vary-Search`), which the slow path looks up. `room` is overwritten.
fn may_have_equivalent(
    services: &Services,
    site: &Site,
    info: &RequestInfo,
    buffer: &mut Vec<u8>,
) -> bool {
    if !site.core.policy.urls.no_vary_search {
        return false;
    }
    key::write_path_key(info, buffer);
    buffer.extend_from_slice(&site.mark.to_be_bytes());
    !matches!(services.memory.try_get(buffer), MemoryLookup::Absent)
}

fn page(site: &Site, info: &RequestInfo, now: Tick, entry: Arc<Entry>) -> Result<Hit, Arc<Entry>> {
    let age = entry.age(now);
    let validity = site.purges.validity(&entry);
    let is_hit = entry.status == StatusCode::OK
        && revalidate::stored(&entry, validity, age).is_some_and(|stored| {
            decide::decide(info, &site.core.policy, Some(&stored)) == Decision::Hit
        });
    if !is_hit {
        return Err(entry);
    }
    site.core.compressing.offer(&entry);
    dictionary::offer(site, info, &entry, now);
    let by_dictionary = dictionary::form(site, info, &entry, now);
    let coded = by_dictionary.or_else(|| page::coded(info, &entry));
    let fields = validators(&entry, coded);
    let is_known =
        page::condition(info, &site.core.policy, 200, fields) == ConditionalResult::NotModified;
    let form = SentForm::of(info, is_known);
    if form == SentForm::Full && coded.is_none() && entry.is_packed() {
        return Err(entry);
    }
    let age_s = age.as_secs();
    let kind = match by_dictionary {
        None => HitKind::Page { age_s },
        Some(_) => HitKind::PageByDictionary { age_s },
    };
    Ok(Hit {
        entry,
        coded,
        form,
        kind,
    })
}

fn file(
    site: &Site,
    info: &RequestInfo,
    client: IpAddr,
    now: Tick,
    key: &mut Vec<u8>,
) -> Option<Hit> {
    let entry = site
        .folder
        .as_ref()?
        .file_in_memory(info, site.names_program(info), now, key)?;
    // The slow path records the visit of a client that is not known.
    if let Some(visits) = &site.visits
        && visits.unless_known(client, now).is_some()
        && visit::is_part_of_pages(info)
    {
        return None;
    }
    let coded = page::form(info, &entry);
    let is_known = match file_condition(info, &entry, coded) {
        ConditionalResult::Proceed => false,
        ConditionalResult::NotModified => true,
        ConditionalResult::Failed => return None,
    };
    Some(Hit {
        coded,
        form: SentForm::of(info, is_known),
        kind: HitKind::File {
            is_immutable: files::is_immutable(info),
        },
        entry,
    })
}

fn file_condition(info: &RequestInfo, entry: &Entry, coded: Option<usize>) -> ConditionalResult {
    let asks =
        info.is_conditional() || info.if_match().is_some() || info.if_unmodified_since().is_some();
    // Saves parsing the file's date.
    if !asks {
        return ConditionalResult::Proceed;
    }
    conditional::evaluate(info, &files::validators(validators(entry, coded)))
}

/// The fields with the validators of the response.
fn validators(entry: &Entry, coded: Option<usize>) -> &HeaderMap {
    coded
        .and_then(|at| entry.coded().get(at))
        .map_or(&entry.fields, |coded| &coded.validators)
}

impl SentForm {
    fn of(info: &RequestInfo, is_known: bool) -> Self {
        match (is_known, info.method()) {
            (true, _) => Self::NotModified,
            (false, Method::Head) => Self::Head,
            (false, _) => Self::Full,
        }
    }
}

impl Hit {
    /// The lookup result, for the slow path if the fast path cannot send the hit.
    pub fn into_earlier(self) -> EarlierLookup {
        match self.kind {
            HitKind::Page { .. } | HitKind::PageByDictionary { .. } => {
                EarlierLookup::Found(self.entry)
            }
            // Files are looked up only if no page was found.
            HitKind::File { .. } => EarlierLookup::Nothing,
        }
    }

    /// The status of the response.
    pub fn status(&self) -> StatusCode {
        match self.form {
            SentForm::Full | SentForm::Head => StatusCode::OK,
            SentForm::NotModified => StatusCode::NOT_MODIFIED,
        }
    }

    /// The outcome for the log.
    pub fn outcome(&self) -> Outcome {
        match self.kind {
            HitKind::Page { .. } if self.entry.assembly().is_some() => Outcome::HitOfIncludes,
            HitKind::Page { .. } => Outcome::Hit,
            HitKind::PageByDictionary { .. } => Outcome::HitByDictionary,
            HitKind::File { .. } => Outcome::File,
        }
    }

    /// The value of `Age` in seconds; `None` for files.
    pub fn age(&self) -> Option<u64> {
        match self.kind {
            HitKind::Page { age_s } | HitKind::PageByDictionary { age_s } => Some(age_s),
            HitKind::File { .. } => None,
        }
    }

    /// Whether the file never changes at this address, which a field after the stored ones states.
    pub fn is_immutable(&self) -> bool {
        matches!(self.kind, HitKind::File { is_immutable: true })
    }

    /// The stored field lines of the response.
    pub fn lines(&self) -> &[u8] {
        let lines = self.all_lines();
        match self.form {
            SentForm::Full | SentForm::Head => lines.all(),
            SentForm::NotModified => lines.of_not_modified(),
        }
    }

    /// The stored fields.
    pub fn fields(&self) -> &HeaderMap {
        &self.entry.fields
    }

    /// The bits of all names in the stored fields and lines: [`galley_policy::headers::mask_of`].
    pub fn mask(&self) -> u64 {
        self.all_lines().mask()
    }

    /// Whether the stored lines contain `Date`.
    pub fn is_dated(&self) -> bool {
        self.all_lines().is_dated()
    }

    /// `Content-Length`; `None` for a 304.
    pub fn length(&self) -> Option<u64> {
        match self.form {
            SentForm::Full | SentForm::Head => Some(
                self.chosen()
                    .map_or(self.entry.length(), |coded| coded.body.bytes().len() as u64),
            ),
            SentForm::NotModified => None,
        }
    }

    /// The body after the head.
    pub fn body(&self) -> &[u8] {
        match self.form {
            SentForm::Full => self.bytes(),
            SentForm::Head | SentForm::NotModified => &[],
        }
    }

    /// The whole body after the head, if the kernel can send it without copying it.
    pub fn pages(&self) -> Option<&OwnPages> {
        match self.form {
            SentForm::Full => self.stored_body()?.pages(),
            SentForm::Head | SentForm::NotModified => None,
        }
    }

    /// As [`Hit::body`], sharing the stored bytes. The hit has to be kept while they are used, because it accounts for them.
    pub fn shared_body(&self) -> Bytes {
        match self.form {
            SentForm::Full => self.stored().cloned().unwrap_or_default(),
            SentForm::Head | SentForm::NotModified => Bytes::new(),
        }
    }

    fn chosen(&self) -> Option<&EncodedEntry> {
        self.coded.and_then(|at| self.entry.coded().get(at))
    }

    fn all_lines(&self) -> &FieldLines {
        self.chosen()
            .map_or_else(|| self.entry.lines(), EncodedEntry::lines)
    }

    fn bytes(&self) -> &[u8] {
        self.stored().map_or(&[], |body| body)
    }

    fn stored(&self) -> Option<&Bytes> {
        self.stored_body().map(StoredBody::bytes)
    }

    fn stored_body(&self) -> Option<&StoredBody> {
        let coded = self.chosen().map(|coded| &coded.body);
        coded.or_else(|| self.entry.stored_body())
    }
}
