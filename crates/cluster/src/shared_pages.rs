//! Pages that nodes share: a page that one node has fetched is read from the engine by the others.
//!
//! ```text
//! galley:<name>:page:<MAC of the page's name>   see `page_value`; expires with the page
//! galley:<name>:fetch:<MAC of the page's name>  a random text: a node fetches the page; expires after `TOKEN_LIFETIME`
//! ```
//!
//! This module does not decide whether a page may be used: the caller compares a page with the purges that this node knows after
//! the page was read. One thread connects to the engine (`page_thread`). A fetch thread only waits for its reply until a
//! deadline. If the engine is unreachable, slow or full, pages are fetched from the upstream.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::{sleep, timeout};

use crate::breaker::EngineBreaker;
use crate::cluster_key::{ClusterKey, PageName};
use crate::engine::random_word;
use crate::page_command::{
    FetchToken, FoundPage, LookupCommand, LookupReply, PageCommand, RecordWriter, StoreCommand,
};
use crate::page_counters::count;
use crate::point::BornPoint;
use crate::shared::ClusterState;
use crate::status::PagesStatus;
use galley_sys::Lock;

/// The limits of shared pages.
#[derive(Clone, Debug)]
pub struct PageSettings {
    /// The maximum size of a page in bytes.
    pub most_bytes: u64,
    /// The maximum time that a page is stored.
    pub lifetime: Duration,
}

/// The shared pages. Clones share the state.
#[derive(Clone)]
pub struct SharedPages {
    key: Arc<ClusterKey>,
    commands: mpsc::Sender<PageCommand>,
    most_bytes: u64,
    lifetime: Duration,
    shared: Arc<ClusterState>,
    breaker: Arc<Lock<EngineBreaker>>,
    storing: Arc<Semaphore>,
}

/// The result of a search.
#[derive(Debug)]
pub enum PageSearch<T> {
    /// The result of `accept` for a page.
    Found(T),
    /// The page must be fetched. With a token no other node fetches it.
    Fetch(Option<FetchToken>),
}

/// Whether a node waits for a page that another node is fetching.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedWait {
    /// Waits at most half a second.
    Waits,
    /// Fetches the page without waiting.
    None,
}

/// A page to be shared.
pub struct PageToShare<'p> {
    /// The name of the page.
    pub name: PageName<'p>,
    /// The stream points of its parts: for each `born` of a part, the point after which it was generated.
    pub points: Vec<BornPoint>,
    /// The size of its body in bytes.
    pub bytes: u64,
    /// The time for which it is fresh.
    pub fresh: Duration,
    /// Writes its record. Called on another thread.
    pub record: RecordWriter,
}

impl SharedPages {
    /// Returns the pages, and the receiver of commands for their thread.
    pub(crate) fn new(
        settings: &PageSettings,
        key: Arc<ClusterKey>,
        shared: Arc<ClusterState>,
    ) -> (Self, mpsc::Receiver<PageCommand>) {
        let (commands, receiver) = mpsc::channel(MAX_COMMANDS);
        let pages = Self {
            key,
            commands,
            most_bytes: settings.most_bytes,
            lifetime: settings.lifetime,
            shared,
            breaker: Arc::default(),
            storing: Arc::new(Semaphore::new(MAX_STORING)),
        };
        (pages, receiver)
    }

    pub(crate) fn key(&self) -> Arc<ClusterKey> {
        Arc::clone(&self.key)
    }

    pub(crate) fn shared(&self) -> Arc<ClusterState> {
        Arc::clone(&self.shared)
    }

    /// The maximum size of a value.
    pub(crate) const fn most_value_bytes(&self) -> u64 {
        self.most_bytes.saturating_add(OVERHEAD)
    }

    pub(crate) fn sender(&self) -> mpsc::WeakSender<PageCommand> {
        self.commands.downgrade()
    }

    /// Searches for a page that `accept` accepts. If another node is fetching the page, waits for it according to `wait`.
    /// Cancel-safe.
    pub async fn find<T>(
        &self,
        page: PageName<'_>,
        wait: SharedWait,
        mut accept: impl FnMut(FoundPage<'_>) -> Option<T>,
    ) -> PageSearch<T> {
        let until = Instant::now() + MAX_WAIT;
        let mut pause = FIRST_PAUSE;
        let mut lookup = self.lookup_of(page, random_word());
        let mut is_fetched_elsewhere = false;
        let token = loop {
            match self.send(lookup.clone()).await {
                Some(LookupReply::Found(found)) => {
                    if let Some(taken) = accept(found.page()) {
                        count(&self.shared.pages.hits);
                        return PageSearch::Found(taken);
                    }
                    count(&self.shared.pages.refused);
                    lookup.refused = found.mac();
                }
                Some(LookupReply::Foreign(mac)) => {
                    count(&self.shared.pages.foreign);
                    lookup.refused = mac;
                }
                Some(LookupReply::Token(token)) => break Some(token),
                Some(LookupReply::Busy) if wait == SharedWait::None => break None,
                Some(LookupReply::Busy) => is_fetched_elsewhere = true,
                // After one late reply, this node must not fetch a page that another node is fetching.
                None if is_fetched_elsewhere && self.breaker.lock().is_closed() => {}
                None => break None,
            }
            if Instant::now() >= until {
                break None;
            }
            if is_fetched_elsewhere {
                sleep(pause).await;
                pause = (pause * 2).min(MAX_PAUSE);
            }
        };
        count(&self.shared.pages.misses);
        PageSearch::Fetch(token)
    }

    /// Looks up a page once, without a token. Cancel-safe.
    pub async fn peek<T>(
        &self,
        page: PageName<'_>,
        accept: impl FnOnce(FoundPage<'_>) -> Option<T>,
    ) -> Option<T> {
        match self.send(self.lookup_of(page, String::new())).await? {
            LookupReply::Found(found) => accept(found.page()),
            LookupReply::Foreign(_) | LookupReply::Token(_) | LookupReply::Busy => None,
        }
    }

    fn lookup_of(&self, page: PageName<'_>, word: String) -> LookupCommand {
        LookupCommand {
            name: self.key.name_of(page),
            site: page.site.into(),
            key: page.key.into(),
            word,
            refused: Vec::new(),
            most_bytes: self.most_value_bytes(),
        }
    }

    /// Sends a lookup; `None`: no reply in time.
    async fn send(&self, lookup: LookupCommand) -> Option<LookupReply> {
        if !self.breaker.lock().admits(Instant::now()) {
            return None;
        }
        let (reply, receiver) = oneshot::channel();
        let command = PageCommand::Lookup(lookup, reply);
        // If the queue is full, the command is dropped here, and with it the reply channel.
        let replied = if self.commands.try_send(command).is_ok() {
            let replied = timeout(DEADLINE, receiver).await;
            replied.map_err(|_late| &self.shared.pages.timeouts)
        } else {
            Err(&self.shared.pages.errors)
        };
        let mut breaker = self.breaker.lock();
        let failure = match replied {
            Ok(Ok(reply)) => {
                breaker.succeeded();
                return Some(reply);
            }
            Ok(Err(_dropped)) => &self.shared.pages.errors,
            Err(failure) => failure,
        };
        count(failure);
        breaker.failed(Instant::now());
        None
    }

    /// Stores a page, then releases the token, without waiting. Returns false if the page is not stored.
    pub fn store(&self, page: PageToShare<'_>, token: Option<FetchToken>) -> bool {
        let is_queued = self.queue(page, token);
        if !is_queued {
            count(&self.shared.pages.not_stored);
        }
        is_queued
    }

    fn queue(&self, page: PageToShare<'_>, token: Option<FetchToken>) -> bool {
        let lifetime = page.fresh.min(self.lifetime);
        if page.bytes > self.most_bytes
            || lifetime < MIN_LIFETIME
            || !self.breaker.lock().is_closed()
        {
            return false;
        }
        let Ok(permit) = Arc::clone(&self.storing).try_acquire_owned() else {
            return false;
        };
        let command = StoreCommand {
            name: self.key.name_of(page.name),
            site: page.name.site.into(),
            key: page.name.key.into(),
            points: page.points,
            lifetime,
            record: page.record,
            token,
            permit,
        };
        let queued = self.commands.try_send(PageCommand::Store(command));
        queued.is_ok()
    }

    /// The counters.
    pub(crate) fn status(&self) -> PagesStatus {
        self.shared.pages.status(!self.breaker.lock().is_closed())
    }
}

/// The maximum wait of a visitor for one reply: a fraction of PHP's time.
const DEADLINE: Duration = Duration::from_millis(5);

/// The maximum wait for a page that another node is fetching.
const MAX_WAIT: Duration = Duration::from_millis(500);

/// The pause between two lookups.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const MAX_PAUSE: Duration = Duration::from_millis(40);

/// Pages that expire sooner are not shared.
const MIN_LIFETIME: Duration = Duration::from_secs(1);

/// The maximum size of a value without the page's body: head, tags, checksums, points, MAC.
const OVERHEAD: u64 = 256 * 1024;

/// The maximum number of queued commands.
const MAX_COMMANDS: usize = 1024;

/// The maximum number of pages being stored.
const MAX_STORING: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    /// The thread does not run: commands are accepted until the queue is full.
    #[tokio::test(start_paused = true)]
    async fn a_search_ends_in_time_if_the_thread_does_not_reply() {
        let key = Arc::new(ClusterKey::derive(&[b'k'; 32], "test").unwrap());
        let settings = PageSettings {
            most_bytes: 1000,
            lifetime: Duration::from_secs(60),
        };
        let (pages, _commands) = SharedPages::new(&settings, key, Arc::default());
        let searches = (0..MAX_COMMANDS + 10).map(|_| {
            let pages = pages.clone();
            tokio::spawn(async move {
                let page = PageName {
                    site: "a.test",
                    key: b"/",
                };
                pages.find(page, SharedWait::Waits, |_| Some(())).await
            })
        });
        let searches: Vec<_> = searches.collect();
        let began = tokio::time::Instant::now();
        for search in searches {
            let found = timeout(MAX_WAIT, search).await.unwrap().unwrap();
            assert!(matches!(found, PageSearch::Fetch(None)));
        }
        assert!(began.elapsed() <= 2 * DEADLINE, "{:?}", began.elapsed());
        let status = pages.status();
        // After three failures no further commands are sent to the engine.
        assert_eq!((status.errors, status.timeouts), (3, MAX_COMMANDS as u64));
        assert_eq!(status.misses, MAX_COMMANDS as u64 + 10);
    }
}
