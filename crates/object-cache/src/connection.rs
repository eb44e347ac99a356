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
use tokio::sync::Notify;
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
    pub(crate) unknown: Counts<u32>,
    /// Connections that have, by site.
    pub(crate) started: Counts<String>,
    /// Bytes of large messages and answers on their way, by site.
    pub(crate) moving: Counts<String>,
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
    let mut counted = ConnectionCount {
        unknown: LimitedCount::new(&shared.unknown, stream.peer_cred()?.uid(), 1, MAX_UNKNOWN),
        started: None,
    };
    for attempt in 0_usize.. {
        counted.note(session, shared)?;
        let (patience, most, transfer) = match counted.started {
            Some(_) => (MAX_IDLE, MAX_MESSAGE, MAX_TRANSFER),
            None => (MAX_START_TIME, MAX_START, MAX_START_TIME),
        };
        if counted.started.is_none() && attempt > START_ATTEMPTS {
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
        if counted.started.is_none() {
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
        counted.note(session, shared)?;
        reply(stream, session.site().unwrap_or_default(), shared, answer).await?;
    }
    Ok(TalkEnd::Unknown)
}

/// As what a connection counts.
struct ConnectionCount<'a> {
    unknown: Option<LimitedCount<'a, u32>>,
    started: Option<LimitedCount<'a, String>>,
}

impl<'a> ConnectionCount<'a> {
    /// Fails if there are too many connections of the kind.
    fn note(&mut self, session: &PhpSession, shared: &'a Shared) -> io::Result<()> {
        if let (None, Some(site)) = (&self.started, session.site()) {
            self.started = LimitedCount::new(&shared.started, site.to_owned(), 1, MAX_OF_SITE);
            self.unknown = None;
        }
        if self.started.is_none() && self.unknown.is_none() {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        Ok(())
    }
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

    /// Counts the bytes of a message or an answer. Small ones are free, so that large ones never keep anybody from small values.
    fn moves(
        &self,
        site: Option<&str>,
        bytes: usize,
    ) -> io::Result<Option<LimitedCount<'_, String>>> {
        if bytes <= SMALL {
            return Ok(None);
        }
        let all: usize = self.moving.borrow().values().sum();
        let site = site.unwrap_or_default().to_owned();
        let counted = LimitedCount::new(&self.moving, site, bytes, MAX_MOVING_OF_SITE);
        let counted = counted.filter(|_| all + bytes <= MAX_MOVING);
        counted
            .map(Some)
            .ok_or_else(|| io::ErrorKind::OutOfMemory.into())
    }
}

/// Sums that have a limit, by what they are for.
pub(crate) type Counts<K> = RefCell<HashMap<K, usize>>;

/// A part of a sum that has a limit.
struct LimitedCount<'a, K: Eq + Hash> {
    counts: &'a Counts<K>,
    key: K,
    count: usize,
}

impl<'a, K: Eq + Hash + Clone> LimitedCount<'a, K> {
    fn new(counts: &'a Counts<K>, key: K, count: usize, most: usize) -> Option<Self> {
        let mut sums = counts.borrow_mut();
        let sum = sums.get(&key).copied().unwrap_or_default() + count;
        if sum > most {
            return None;
        }
        sums.insert(key.clone(), sum);
        drop(sums);
        Some(Self { counts, key, count })
    }
}

impl<K: Eq + Hash> Drop for LimitedCount<'_, K> {
    fn drop(&mut self) {
        let mut sums = self.counts.borrow_mut();
        if let Some(sum) = sums.get_mut(&self.key) {
            *sum -= self.count;
            if *sum == 0 {
                sums.remove(&self.key);
            }
        }
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
const MAX_MOVING: usize = 128 << 20;

/// The time in which a process has to show its token.
const MAX_START_TIME: Duration = Duration::from_secs(1);

/// The time for one message, or one answer. PHP gives up far earlier.
const MAX_TRANSFER: Duration = Duration::from_secs(5);

/// Programs of the command line may work for hours between two messages.
const MAX_IDLE: Duration = Duration::from_secs(24 * 3600);
