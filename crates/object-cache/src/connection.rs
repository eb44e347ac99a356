//! One connection of PHP: what it may send, for how long, and as what it counts.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::hash::Hash;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::announcement::OtherNodes;
use crate::sites::{NodeState, ObjectSites, PhpAnswer, PhpSession, SessionRefused};
use crate::wire::{MAX_MESSAGE, MAX_START};

/// What all connections share. Only the thread of the object cache has it.
pub(crate) struct Shared {
    pub(crate) sites: RefCell<ObjectSites>,
    pub(crate) nodes: Option<Arc<dyn OtherNodes>>,
    pub(crate) began: Instant,
    /// Whether the state is being handed over, which `freezes` announces.
    pub(crate) is_frozen: Cell<bool>,
    pub(crate) freezes: Notify,
    /// Ends connections that are in the middle of a message when the state is handed over.
    pub(crate) late: Notify,
    /// Connections that are handed over.
    pub(crate) left: RefCell<Vec<(OwnedFd, PhpSession)>>,
    /// Connections that have shown no token, by user.
    pub(crate) unknown: Limits<u32>,
    /// Connections that have, by site.
    pub(crate) started: Limits<String>,
    /// Bytes of large messages and answers on their way, by site.
    pub(crate) moving: Limits<String>,
    /// Those of all sites.
    pub(crate) all_moving: Limits<()>,
}

/// Why a connection is not read any more.
pub(crate) enum TalkEnd {
    /// The process has no token.
    Unknown,
    /// Another process of Galley goes on.
    Frozen,
}

pub(crate) async fn talk(
    stream: &mut UnixStream,
    session: &mut PhpSession,
    shared: &Shared,
) -> io::Result<TalkEnd> {
    let user = stream.peer_cred()?.uid();
    let mut place = shared.place(session, user)?;
    for attempt in 0_usize.. {
        let has_started = session.has_started();
        let (patience, most, transfer) = if has_started {
            (MAX_IDLE, MAX_MESSAGE, MAX_TRANSFER)
        } else {
            (MAX_START_TIME, MAX_START, MAX_START_TIME)
        };
        if !has_started && attempt > START_ATTEMPTS {
            break;
        }
        let freezes = shared.freezes.notified();
        let frozen = async {
            if !shared.is_frozen.get() {
                freezes.await;
            }
        };
        let mut head = [0; 4];
        let read = tokio::select! {
            // What has been sent comes first: a process that is answered here may have begun after it.
            biased;
            read = timeout(patience, first_bytes(stream, &mut head)) => read??,
            () = frozen => return Ok(TalkEnd::Frozen),
        };
        let rest = head.split_at_mut(read).1;
        timeout(transfer, stream.read_exact(rest)).await??;
        let length = usize::try_from(u32::from_le_bytes(head)).unwrap_or(usize::MAX);
        if length > most {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let receiving = shared.moves(session.site(), length)?;
        let mut message = vec![0; length];
        timeout(transfer, stream.read_exact(&mut message)).await??;
        drop(receiving);
        if !has_started {
            // What other processes have sent until now comes first: they do not wait for all of it.
            tokio::task::yield_now().await;
        }
        let answer = {
            let mut sites = shared.sites.borrow_mut();
            sites.set_nodes(shared.node_state());
            let answer = session.receive(&mut sites, &message, shared.now());
            answer.map_err(|SessionRefused| io::Error::from(io::ErrorKind::InvalidData))?
        };
        drop(message);
        if session.has_started() != has_started {
            drop(std::mem::replace(&mut place, shared.place(session, user)?));
        }
        reply(stream, session.site().unwrap_or_default(), shared, answer).await?;
    }
    Ok(TalkEnd::Unknown)
}

/// Waits for the first bytes of a message, at least one. Cancel-safe.
async fn first_bytes(stream: &UnixStream, head: &mut [u8; 4]) -> io::Result<usize> {
    loop {
        stream.readable().await?;
        match stream.try_read(head) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            read => return read,
        }
    }
}

/// Sends an answer when all nodes have applied what it acknowledges.
async fn reply(
    stream: &mut UnixStream,
    site: &str,
    shared: &Shared,
    answer: PhpAnswer,
) -> io::Result<()> {
    if let (Some(announcement), Some(nodes)) = (answer.announcement, &shared.nodes)
        && !nodes.announce(site, announcement).await
    {
        // Not acknowledged: the process raises the fence.
        return Err(io::ErrorKind::TimedOut.into());
    }
    if !answer.bytes.is_empty() {
        // A process that does not read occupies it until the time is over.
        let _sending = shared.moves(Some(site), answer.bytes.len())?;
        timeout(MAX_TRANSFER, stream.write_all(&answer.bytes)).await??;
    }
    Ok(())
}

impl Shared {
    /// Milliseconds since the start.
    pub(crate) fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// What is known of the other nodes now.
    fn node_state(&self) -> NodeState {
        match &self.nodes {
            None => NodeState::None,
            Some(nodes) if nodes.is_current() => NodeState::Current,
            Some(_) => NodeState::Behind,
        }
    }

    /// What a connection counts as. Fails if there are too many of the kind.
    fn place(&self, session: &PhpSession, user: u32) -> io::Result<OwnedSemaphorePermit> {
        let place = match session.site() {
            Some(site) => self.started.take(site.to_owned(), 1),
            None => self.unknown.take(user, 1),
        };
        place.ok_or_else(|| io::ErrorKind::ResourceBusy.into())
    }

    /// Counts the bytes of a message or an answer. Small ones are free, so that large ones never keep anybody from small values.
    fn moves(
        &self,
        site: Option<&str>,
        bytes: usize,
    ) -> io::Result<Option<[OwnedSemaphorePermit; 2]>> {
        if bytes <= SMALL {
            return Ok(None);
        }
        let of_site = self.moving.take(site.unwrap_or_default().to_owned(), bytes);
        let of_all = self.all_moving.take((), bytes);
        let counted = of_site.zip(of_all).map(<[_; 2]>::from);
        counted
            .map(Some)
            .ok_or_else(|| io::ErrorKind::OutOfMemory.into())
    }
}

/// What each of several may have at once.
pub(crate) struct Limits<K> {
    most: usize,
    /// Only those that have something.
    free: RefCell<HashMap<K, Arc<Semaphore>>>,
}

impl<K: Eq + Hash> Limits<K> {
    pub(crate) fn new(most: usize) -> Self {
        Self {
            most,
            free: RefCell::default(),
        }
    }

    fn take(&self, key: K, count: usize) -> Option<OwnedSemaphorePermit> {
        let count = u32::try_from(count).ok()?;
        let mut free = self.free.borrow_mut();
        free.retain(|_, one| one.available_permits() < self.most);
        let free = free.entry(key);
        let free = free.or_insert_with(|| Arc::new(Semaphore::new(self.most)));
        Arc::clone(free).try_acquire_many_owned(count).ok()
    }
}

/// Connections of one user that have shown no token. PHP shows it at once.
pub(crate) const MAX_UNKNOWN: usize = 256;

/// Connections of one site: more than PHP-FPM usually has workers.
pub(crate) const MAX_OF_SITE: usize = 512;

/// A process that is behind starts twice; a user without a token gets no more attempts either.
const START_ATTEMPTS: usize = 2;

/// With the limit of connections, all small messages together have at most 32 MiB for each site.
const SMALL: usize = 64 << 10;

/// Large messages and answers of a site on their way, in bytes: the longest message and the longest answer.
pub(crate) const MAX_MOVING_OF_SITE: usize = 24 << 20;

/// Those of all sites.
pub(crate) const MAX_MOVING: usize = 128 << 20;

/// The time in which a process has to show its token.
const MAX_START_TIME: Duration = Duration::from_secs(1);

/// The time for one message, or one answer. PHP gives up far earlier.
const MAX_TRANSFER: Duration = Duration::from_secs(5);

/// Programs of the command line may work for hours between two messages.
const MAX_IDLE: Duration = Duration::from_secs(24 * 3600);
