//! Pages that nodes share: what one has fetched, the others get from the engine.
//!
//! ```text
//! galley:<name>:page:<MAC of the page's name>   see `page_value`; expires with the page
//! galley:<name>:fetch:<MAC of the page's name>  a random text: a node fetches the page; expires after `TOKEN_LIFETIME`
//! ```
//!
//! Nothing here decides whether a page may be used: the caller compares it with the purges that this node knows, after it was read.
//! One thread talks to the engine (`page_thread`), so a fetch thread never does: it waits for a reply until its deadline. An engine
//! that is away, slow or full only means that pages are fetched.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::{sleep, timeout};

use crate::breaker::EngineBreaker;
use crate::cluster_key::{ClusterKey, PageName};
use crate::engine::random_word;
use crate::page_command::{
    FetchToken, FoundPage, LookCommand, LookReply, PageCommand, RecordWriter, StoreCommand,
};
use crate::page_counters::count;
use crate::point::BornPoint;
use crate::shared::Shared;
use crate::status::PagesStatus;

/// Which pages are shared, and how many bytes of them.
#[derive(Clone, Debug)]
pub struct PageSettings {
    /// Bytes of a page at most.
    pub most_bytes: u64,
    /// How long a page stays at most.
    pub lifetime: Duration,
}

/// The shared pages. Clones are the same.
#[derive(Clone)]
pub struct SharedPages {
    key: Arc<ClusterKey>,
    commands: mpsc::Sender<PageCommand>,
    most_bytes: u64,
    lifetime: Duration,
    shared: Arc<Shared>,
    breaker: Arc<Mutex<EngineBreaker>>,
    storing: Arc<Semaphore>,
}

/// The result of a search.
#[derive(Debug)]
pub enum PageSearch<T> {
    /// What `accept` made of a page.
    Found(T),
    /// The page has to be fetched. With a token no other node does so.
    Fetch(Option<FetchToken>),
}

/// Whether a node waits for a page that another one fetches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedPatience {
    /// Half a second at most.
    Waits,
    /// It fetches the page, too.
    None,
}

/// A page to be shared.
pub struct PageToShare<'p> {
    /// Its name.
    pub name: PageName<'p>,
    /// What its parts were generated after: for each number that one of them was born with.
    pub points: Vec<BornPoint>,
    /// Bytes of its body.
    pub bytes: u64,
    /// How long it is fresh.
    pub fresh: Duration,
    /// Writes its record; called on another thread.
    pub record: RecordWriter,
}

impl SharedPages {
    /// With the source of its thread's commands.
    pub(crate) fn new(
        settings: &PageSettings,
        key: Arc<ClusterKey>,
        shared: Arc<Shared>,
    ) -> (Self, mpsc::Receiver<PageCommand>) {
        let (commands, receiver) = mpsc::channel(MOST_COMMANDS);
        let pages = Self {
            key,
            commands,
            most_bytes: settings.most_bytes,
            lifetime: settings.lifetime,
            shared,
            breaker: Arc::default(),
            storing: Arc::new(Semaphore::new(MOST_STORING)),
        };
        (pages, receiver)
    }

    pub(crate) fn key(&self) -> Arc<ClusterKey> {
        Arc::clone(&self.key)
    }

    pub(crate) fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }

    pub(crate) fn sender(&self) -> mpsc::WeakSender<PageCommand> {
        self.commands.downgrade()
    }

    /// Looks for a page that `accept` takes. Where another node fetches it, this waits for that page as `patience` says. Cancel-safe.
    pub async fn find<T>(
        &self,
        page: PageName<'_>,
        patience: SharedPatience,
        mut accept: impl FnMut(FoundPage<'_>) -> Option<T>,
    ) -> PageSearch<T> {
        let until = Instant::now() + LONGEST_WAIT;
        let mut pause = FIRST_PAUSE;
        let mut look = self.look_for(page, random_word());
        let mut is_fetched_elsewhere = false;
        let token = loop {
            match self.ask(look.clone()).await {
                Some(LookReply::Found(found)) => {
                    if let Some(taken) = accept(found.page()) {
                        count(&self.shared.pages.hits);
                        return PageSearch::Found(taken);
                    }
                    count(&self.shared.pages.refused);
                    look.refused = found.mac();
                }
                Some(LookReply::Foreign(mac)) => {
                    count(&self.shared.pages.foreign);
                    look.refused = mac;
                }
                Some(LookReply::Token(token)) => break Some(token),
                Some(LookReply::Busy) if patience == SharedPatience::None => break None,
                Some(LookReply::Busy) => is_fetched_elsewhere = true,
                // One late reply does not make two nodes fetch.
                None if is_fetched_elsewhere && self.breaker().is_closed() => {}
                None => break None,
            }
            if Instant::now() >= until {
                break None;
            }
            if is_fetched_elsewhere {
                sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        };
        count(&self.shared.pages.misses);
        PageSearch::Fetch(token)
    }

    /// Looks for a page once, and takes no token. Cancel-safe.
    pub async fn peek<T>(
        &self,
        page: PageName<'_>,
        accept: impl FnOnce(FoundPage<'_>) -> Option<T>,
    ) -> Option<T> {
        match self.ask(self.look_for(page, String::new())).await? {
            LookReply::Found(found) => accept(found.page()),
            LookReply::Foreign(_) | LookReply::Token(_) | LookReply::Busy => None,
        }
    }

    fn look_for(&self, page: PageName<'_>, word: String) -> LookCommand {
        LookCommand {
            name: self.key.name_of(page),
            site: page.site.into(),
            key: page.key.into(),
            word,
            refused: Vec::new(),
            most_bytes: self.most_bytes.saturating_add(OVERHEAD),
        }
    }

    /// `None`: there is no reply in time.
    async fn ask(&self, look: LookCommand) -> Option<LookReply> {
        if !self.breaker().admits(Instant::now()) {
            return None;
        }
        let (reply, receiver) = oneshot::channel();
        let command = PageCommand::Look(look, reply);
        // If there is no room for the command it is dropped here, and its reply with it.
        let replied = if self.commands.try_send(command).is_ok() {
            let replied = timeout(DEADLINE, receiver).await;
            replied.map_err(|_late| &self.shared.pages.timeouts)
        } else {
            Err(&self.shared.pages.errors)
        };
        let mut breaker = self.breaker();
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

    /// Stores a page, and gives the token back behind it. Nobody waits for that; false: it is not stored.
    pub fn store(&self, page: PageToShare<'_>, token: Option<FetchToken>) -> bool {
        let is_queued = self.queue(page, token);
        if !is_queued {
            count(&self.shared.pages.not_stored);
        }
        is_queued
    }

    fn queue(&self, page: PageToShare<'_>, token: Option<FetchToken>) -> bool {
        let lifetime = page.fresh.min(self.lifetime);
        if page.bytes > self.most_bytes || lifetime < LEAST_LIFETIME || !self.breaker().is_closed()
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
        self.shared.pages.status(!self.breaker().is_closed())
    }

    fn breaker(&self) -> MutexGuard<'_, EngineBreaker> {
        self.breaker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How long a visitor waits for one reply: a fraction of PHP's time.
const DEADLINE: Duration = Duration::from_millis(5);

/// How long a node waits for a page that another one fetches.
const LONGEST_WAIT: Duration = Duration::from_millis(500);

/// Between two looks.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(40);

/// A page that expires sooner is not worth it.
const LEAST_LIFETIME: Duration = Duration::from_secs(1);

/// Of a value beside the page's body: head, tags, checksums, point, MAC.
const OVERHEAD: u64 = 256 * 1024;

/// Commands that wait for the thread.
const MOST_COMMANDS: usize = 1024;

/// Pages that are being stored at a time.
const MOST_STORING: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread that has stopped: commands are accepted until there is no room.
    #[tokio::test(start_paused = true)]
    async fn nobody_waits_for_a_thread_that_does_not_reply() {
        let key = Arc::new(ClusterKey::derive(&[b'k'; 32], "test").unwrap());
        let settings = PageSettings {
            most_bytes: 1000,
            lifetime: Duration::from_secs(60),
        };
        let (pages, _commands) = SharedPages::new(&settings, key, Arc::default());
        let searches = (0..MOST_COMMANDS + 10).map(|_| {
            let pages = pages.clone();
            tokio::spawn(async move {
                let page = PageName {
                    site: "a.test",
                    key: b"/",
                };
                pages.find(page, SharedPatience::Waits, |_| Some(())).await
            })
        });
        let searches: Vec<_> = searches.collect();
        let began = tokio::time::Instant::now();
        for search in searches {
            let found = timeout(LONGEST_WAIT, search).await.unwrap().unwrap();
            assert!(matches!(found, PageSearch::Fetch(None)));
        }
        assert!(began.elapsed() <= 2 * DEADLINE, "{:?}", began.elapsed());
        let status = pages.status();
        // After three failures the engine is not asked any more.
        assert_eq!((status.errors, status.timeouts), (3, MOST_COMMANDS as u64));
        assert_eq!(status.misses, MOST_COMMANDS as u64 + 10);
    }
}
