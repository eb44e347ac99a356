//! The actors. They do what the callers of this crate do; each line of the protocol is marked with the test that omits it.

use std::sync::{Arc, Mutex};

use galley_policy::outcome::NotStored;
use galley_policy::purge::{Purge, PurgePattern, Scope, Strength};
use shuttle::future::block_on;
use shuttle::rand::Rng as _;

use super::Without;
use super::world::{
    Least, PAGES, T, TestFetch, U, World, body_of, composition, fields, named, page_parts,
    tag_names,
};
use crate::body::StoredBody;
use crate::entry::{Entry, EntryKind};
use crate::fill::{self, FillError, FillHead, FillReader, FillSharing, FillWriter};
use crate::includes::IncludedResponses;
use crate::log::{Durability, RestartEffect};
use crate::memory::PutRefused;
use crate::purge_table::{FillPurgeState, PurgeSubject, Validity};
use crate::sync::point;
use crate::testing::{lifetime, scopes};

pub(super) const SITE: &str = "a.test";

pub(super) fn draw(below: usize) -> usize {
    shuttle::rand::thread_rng().gen_range(0..below)
}

pub(super) fn one_in(n: usize) -> bool {
    draw(n) == 0
}

fn key(page: usize) -> &'static [u8] {
    PAGES[page].1.as_bytes()
}

fn validity(world: &World, entry: &Entry) -> Validity {
    match world.table.validity(entry) {
        Validity::Unknown => world.table.validity_waiting(entry),
        validity => validity,
    }
}

/// A request for a page, from its head to its last byte. `core` is its thread's cache.
pub(super) fn visit(world: &World, page: usize, core: &mut Option<(Arc<Entry>, Validity)>) {
    let look = || {
        let entry = world.memory.get(key(page))?;
        let validity = validity(world, &entry);
        Some((entry, validity))
    };
    let (least, found) = if world.is_without(Without::CounterAfterTheHead) {
        let found = look();
        point();
        (world.least(), found)
    } else {
        let least = world.least();
        point();
        (least, look())
    };
    let remembered = core
        .take()
        .filter(|_| world.is_without(Without::CounterNeverCached));
    let found = match (remembered, found) {
        (Some((known, validity)), Some((entry, _))) if Arc::ptr_eq(&known, &entry) => {
            Some((entry, validity))
        }
        (_, found) => found,
    };
    let Some((entry, validity)) = found else {
        return fetch(world, page, &least, None);
    };
    let is_exempt =
        entry.kind == EntryKind::HitForPass && world.is_without(Without::MarkersAreEntries);
    match validity {
        _ if is_exempt => world.serve(&least, composition(&entry), "a marker"),
        Validity::Valid => {
            world.serve(&least, composition(&entry), "memory");
            *core = Some((entry, validity));
        }
        Validity::SoftPurged => {
            world.serve(&least, composition(&entry), "stale");
            refresh(world, page);
        }
        Validity::Outdated | Validity::Purged | Validity::Unknown => {
            world.check_purged(&entry);
            world.note_removed(&entry);
            world.memory.remove_if_same(&entry);
            fetch(world, page, &least, Some(&entry));
        }
    }
}

/// Gets a page from the upstream, with a separate request or by joining a fill.
fn fetch(world: &World, page: usize, least: &Least, held: Option<&Arc<Entry>>) {
    loop {
        let usable = world.memory.get(key(page));
        let usable = usable.filter(|entry| world.table.validity_waiting(entry) == Validity::Valid);
        if let Some(entry) = usable {
            return world.serve(least, composition(&entry), "memory, at the second look");
        }
        let in_progress_fetch = world.in_progress.lock().unwrap()[page].clone();
        match in_progress_fetch.map_or(Joining::Lead, |in_progress_fetch| {
            try_join(world, page, &in_progress_fetch)
        }) {
            Joining::Joined(reader) => return read(world, least, reader, "a joined fill"),
            Joining::LookAgain => point(),
            Joining::Lead => {
                let reader = lead(world, page);
                let is_failed = reader.is_none();
                if let Some(reader) = reader {
                    read(world, least, reader, "its own fill");
                }
                let falls_back = is_failed && world.is_without(Without::NoPurgedEntryOnErrors);
                if let Some(held) = held.filter(|_| falls_back) {
                    world.serve(least, composition(held), "an error");
                }
                return;
            }
        }
    }
}

enum Joining {
    Joined(FillReader),
    Lead,
    LookAgain,
}

fn try_join(world: &World, page: usize, in_progress_fetch: &Arc<TestFetch>) -> Joining {
    if in_progress_fetch.fill.has_ended() {
        return Joining::Lead;
    }
    let Some(mut reader) = in_progress_fetch.fill.reader() else {
        return Joining::Lead;
    };
    let touched = touched(world, page, in_progress_fetch, None);
    match touched {
        _ if world.is_without(Without::JoiningChecksForPurges) => return Joining::Joined(reader),
        FillPurgeState::No => return Joining::Joined(reader),
        FillPurgeState::OnlyTags if world.is_without(Without::JoiningWaitsForTags) => {
            return Joining::Joined(reader);
        }
        FillPurgeState::Yes => return lead_unless_replaced(world, page, in_progress_fetch),
        FillPurgeState::OnlyTags => {}
    }
    let Ok(head) = block_on(reader.head()) else {
        return Joining::LookAgain;
    };
    match &head.share {
        FillSharing::Shared { tags, .. }
            if touched_by(world, page, in_progress_fetch, tags) == FillPurgeState::No =>
        {
            Joining::Joined(reader)
        }
        _ => lead_unless_replaced(world, page, in_progress_fetch),
    }
}

fn lead_unless_replaced(world: &World, page: usize, in_progress_fetch: &Arc<TestFetch>) -> Joining {
    match &world.in_progress.lock().unwrap()[page] {
        Some(now) if !Arc::ptr_eq(now, in_progress_fetch) => Joining::LookAgain,
        _ => Joining::Lead,
    }
}

fn touched_by(
    world: &World,
    page: usize,
    in_progress_fetch: &TestFetch,
    tags: &[u64],
) -> FillPurgeState {
    touched(world, page, in_progress_fetch, Some(tags))
}

fn touched(
    world: &World,
    page: usize,
    in_progress_fetch: &TestFetch,
    tags: Option<&[u64]>,
) -> FillPurgeState {
    let Some(born) = *in_progress_fetch.born.lock().unwrap() else {
        return FillPurgeState::No;
    };
    let (host, path_query) = PAGES[page];
    let scopes = scopes(host, path_query, &[]);
    let touch = PurgeSubject {
        tags,
        ..scopes.touch()
    };
    world.table.newer_than(born, touch)
}

fn read(world: &World, least: &Least, mut reader: FillReader, how: &str) {
    let Ok(head) = block_on(reader.head()) else {
        return;
    };
    loop {
        match block_on(reader.next()) {
            Ok(Some(_)) => {}
            Ok(None) => return world.serve(least, named(&head.fields), how),
            Err(_) => return,
        }
    }
}

/// Generates a stale page again, unless it is being generated.
pub(super) fn refresh(world: &World, page: usize) {
    let is_in_progress = world.in_progress.lock().unwrap()[page].is_some();
    if !is_in_progress {
        lead(world, page);
    }
}

/// Generates a page and stores it. Returns a reader of it, unless the upstream failed.
fn lead(world: &World, page: usize) -> Option<FillReader> {
    let (mut writer, fill) = fill::fill(1 << 16, Some(world.memory.keep()));
    let reader = fill.reader();
    let in_progress_fetch = Arc::new(TestFetch {
        fill,
        born: Mutex::new(None),
    });
    let replaced = world.in_progress.lock().unwrap()[page].replace(Arc::clone(&in_progress_fetch));
    // Dropping is a separate step.
    drop(replaced);
    let result = generate(world, page, &in_progress_fetch, &mut writer);
    let mut is_failed = false;
    match result {
        Ok(composition) => {
            let finished = writer.finish();
            point();
            store(
                world,
                (page, EntryKind::Page),
                composition,
                &in_progress_fetch,
                finished,
            );
        }
        Err(failure) => {
            is_failed = true;
            writer.fail(failure);
        }
    }
    let ended =
        world.in_progress.lock().unwrap()[page].take_if(|now| Arc::ptr_eq(now, &in_progress_fetch));
    drop(ended);
    reader.filter(|_| !is_failed)
}

fn generate(
    world: &World,
    page: usize,
    in_progress_fetch: &TestFetch,
    writer: &mut FillWriter,
) -> Result<usize, FillError> {
    let before = send(world, in_progress_fetch)?;
    let things = world.history().tags[page].clone();
    if one_in(5) {
        // The response may not be stored: a marker without tags records that, and the version of the page's own thing.
        let marker = world.history().generate(page, before, Vec::new());
        show(world, page, marker, &[]);
        store(
            world,
            (page, EntryKind::HitForPass),
            marker,
            in_progress_fetch,
            None,
        );
        return Err(FillError::Unstorable(NotStored::Private));
    }
    let tags = tag_names(page, &things, world.without);
    let composition = world.history().generate(page, before, tags.clone());
    let head_first = one_in(2);
    if !head_first {
        show(world, page, composition, &things);
    }
    writer.head(FillHead {
        status: http::StatusCode::OK,
        fields: fields(composition),
        share: FillSharing::Shared {
            lifetime: lifetime(),
            tags: scopes(SITE, "/", &tags).tags.into(),
            inclusions: IncludedResponses::default(),
        },
        length: None,
    });
    point();
    if head_first {
        show(world, page, composition, &things);
    }
    let _ = block_on(writer.push(body_of(composition)));
    Ok(composition)
}

/// Sends the request, at most twice. Returns the counter from before, for the laws, which must not depend on the code under test.
fn send(world: &World, in_progress_fetch: &TestFetch) -> Result<u64, FillError> {
    for attempt in 0..2 {
        let before = world.table.current();
        let born = world.table.current();
        if attempt == 0 || !world.is_without(Without::RetriesReloadBorn) {
            *in_progress_fetch.born.lock().unwrap() = Some(born);
        }
        point();
        if !one_in(4) {
            return Ok(before);
        }
    }
    Err(FillError::Connect)
}

/// Reads the things of a page, one after the other.
fn show(world: &World, page: usize, composition: usize, things: &[usize]) {
    for thing in things.iter().copied().chain([page]) {
        world.history().show(composition, thing);
        point();
    }
}

fn store(
    world: &World,
    (page, kind): (usize, EntryKind),
    composition: usize,
    in_progress_fetch: &TestFetch,
    body: Option<StoredBody>,
) {
    let born = in_progress_fetch.born.lock().unwrap().unwrap_or(0);
    let born = if world.is_without(Without::BornBeforeSending) {
        world.table.current()
    } else {
        born
    };
    let tags = world.history().tags_of(composition);
    let body = body.unwrap_or_default();
    let parts = page_parts(page, composition, kind, &tags, born, body);
    let entry = Arc::new(Entry::new(parts.clone()));
    if world.table.validity_waiting(&entry) == Validity::Purged {
        return world.check_purged(&entry);
    }
    put(world, &entry, |entry| world.memory.put(entry));
    if let Some(log) = &world.log {
        let generation = log.generation();
        point();
        world.history().store_on_disk(generation, parts);
    }
}

fn put(world: &World, entry: &Arc<Entry>, put: impl FnOnce(Arc<Entry>) -> Result<(), PutRefused>) {
    if put(Arc::clone(entry)).is_ok() {
        world.check_stored(entry);
    }
}

/// Revalidates a stored page. The upstream's validator depends only on the page's own thing, as that of a post depends on the
/// post and not on the side bar.
pub(super) fn revalidate(world: &World, page: usize) {
    let Some(held) = world
        .memory
        .get(key(page))
        .filter(|held| held.kind == EntryKind::Page)
    else {
        return;
    };
    let revalidates_purged = world.is_without(Without::PurgedIsFetchedWithoutConditions);
    if !revalidates_purged && world.table.validity_waiting(&held) == Validity::Purged {
        return refresh(world, page);
    }
    point();
    let before = world.table.current();
    let born = world.table.current();
    point();
    let (things, old) = {
        let history = world.history();
        (
            history.tags[page].clone(),
            history.content(composition(&held)),
        )
    };
    if old[page] != Some(world.history().versions[page]) {
        return refresh(world, page);
    }
    let new_tags = tag_names(page, &things, world.without);
    let old_tags = world.history().tags_of(composition(&held));
    let mut tags = new_tags.clone();
    tags.extend(old_tags.iter().filter(|tag| !new_tags.contains(tag)));
    if world.is_without(Without::TagsOfTheOld) {
        tags = new_tags;
    } else if world.is_without(Without::TagsOfTheNew) {
        tags = old_tags;
    }
    let fresh = world.history().generate(page, before, tags.clone());
    show(world, page, fresh, &things);
    world.history().show_still(fresh, &old);
    let proves_again = !revalidates_purged && !world.is_without(Without::ComparedAfterThe304);
    if proves_again && world.table.validity_waiting(&held) == Validity::Purged {
        return refresh(world, page);
    }
    let born = if world.is_without(Without::RevalidationIsBornAtItsStart) {
        world.table.current()
    } else {
        born
    };
    let parts = page_parts(
        page,
        fresh,
        EntryKind::Page,
        &tags,
        born,
        held.stored_body().cloned().expect("in memory"),
    );
    let entry = Arc::new(Entry::new(parts));
    if world.is_without(Without::OnlyTheRequestedEntry) {
        let place = world.memory.peek(key(page));
        put(world, &entry, |entry| world.memory.put(entry));
        let is_same = place.is_some_and(|place| Arc::ptr_eq(&place, &held));
        if !is_same
            && world
                .memory
                .peek(key(page))
                .is_some_and(|now| Arc::ptr_eq(&now, &entry))
        {
            world
                .history()
                .breaks("a 304 took another's place".to_owned());
        }
    } else {
        put(world, &entry, |entry| {
            world.memory.put_if_same(&held, entry)
        });
    }
}

/// Changes something, purges it, and receives the acknowledgment.
pub(super) fn edit(world: &World) {
    if one_in(4) {
        // The page's dependencies change when it is generated next. No purge is needed.
        world.history().tags[1] = vec![T];
        point();
    }
    let purge = any_purge();
    let changed = world.history().change(&purge.scope);
    point();
    let durability = publish(world, &purge);
    acknowledge(world, &purge, &changed, durability);
}

fn any_purge() -> Purge {
    let url = |host: Option<&str>| Scope::Url {
        host: host.map(str::to_owned),
        path: b"/shop/b".to_vec(),
        query: Some(b"x=1".to_vec()),
    };
    let scope = match draw(12) {
        0 => Scope::Site,
        1 => Scope::Host("a.test".to_owned()),
        2 => Scope::Prefix(b"/shop/".to_vec()),
        3 => Scope::Pattern(PurgePattern::parse("^/(shop/a)?$").unwrap()),
        4 => url(None),
        5 => url(Some("b.test")),
        6 => Scope::Url {
            host: None,
            path: b"/".to_vec(),
            query: None,
        },
        7..=9 => Scope::Tag("t".to_owned()),
        _ => Scope::Tag("u".to_owned()),
    };
    let strength = if one_in(4) {
        Strength::Soft
    } else {
        Strength::Hard
    };
    Purge { scope, strength }
}

/// The durability of an acknowledged purge.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PurgeDurability {
    /// The purge is in effect after a restart.
    Durable,
    /// The purge is in effect until the process ends.
    UntilExit,
}

fn publish(world: &World, purge: &Purge) -> PurgeDurability {
    let Some(log) = &world.log else {
        let number = world.table.publish(purge);
        world.note_published(number, purge);
        point();
        return PurgeDurability::UntilExit;
    };
    let now = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_800_000_000);
    let published = log.publish(SITE, &world.table, purge, now);
    world.note_published(published.number, purge);
    if world.is_without(Without::DurableBeforeTheResponse) {
        return PurgeDurability::Durable;
    }
    match block_on(published.ticket) {
        Durability::Kept => PurgeDurability::Durable,
        Durability::Lost(loss) if loss.restart == RestartEffect::PurgesAll => {
            PurgeDurability::Durable
        }
        Durability::Lost(_) => PurgeDurability::UntilExit,
    }
}

fn acknowledge(
    world: &World,
    purge: &Purge,
    changed: &[(usize, u64)],
    durability: PurgeDurability,
) {
    if purge.strength == Strength::Soft {
        return;
    }
    let mut history = world.history();
    for &(thing, version) in changed {
        history.least[thing] = history.least[thing].max(version);
        if durability == PurgeDurability::Durable {
            history.durable[thing] = history.durable[thing].max(version);
        }
    }
}

/// A request that changes two things, one before the head of its response and one after it. The head names both.
pub(super) fn post(world: &World) {
    let purges = ["t", "u"].map(|tag| Purge {
        scope: Scope::Tag(tag.to_owned()),
        strength: Strength::Hard,
    });
    let publish_both = || {
        let durability = purges.iter().map(|purge| publish(world, purge));
        durability.fold(PurgeDurability::Durable, |all, one| {
            if one == PurgeDurability::UntilExit {
                one
            } else {
                all
            }
        })
    };
    let early = world.history().change(&purges[0].scope);
    point();
    let mut durability = PurgeDurability::UntilExit;
    if !world.is_without(Without::PurgesWithTheHead) {
        durability = publish_both();
    }
    acknowledge(world, &purges[0], &early, durability);
    point();
    let late = world.history().change(&purges[1].scope);
    debug_assert_eq!(late[0].0, U);
    point();
    if !world.is_without(Without::PurgesAtTheEnd) {
        durability = publish_both();
    }
    acknowledge(world, &purges[1], &late, durability);
}

/// Removes purged entries.
pub(super) fn sweep(world: &World) {
    if world.is_without(Without::SweepingRemovesOnlyPurgedEntries) {
        for entry in world.memory.entries().collect::<Vec<_>>() {
            if world.table.validity_waiting(&entry) == Validity::Purged {
                world.note_removed(&entry);
                point();
                world.memory.remove(entry.key.bytes());
            }
        }
        return;
    }
    world.memory.sweep(|entry| {
        let check_purged = world.table.validity_waiting(entry) == Validity::Purged;
        if check_purged {
            world.check_purged(entry);
            world.note_removed(entry);
            point();
        }
        check_purged
    });
}
