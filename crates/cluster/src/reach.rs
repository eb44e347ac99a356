//! How far a purge got, and the wait for it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

/// How far a purge got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PurgeReach {
    /// No node can answer with the old pages any more.
    Cluster,
    /// It holds on this node. The others get it when they can; why they have not.
    Local(Arc<str>),
}

/// What tells how far a purge got.
#[derive(Debug)]
pub struct PendingReach(Pending);

#[derive(Debug)]
enum Pending {
    Waits(oneshot::Receiver<PurgeReach>),
    /// It is known.
    Is(PurgeReach),
}

impl PendingReach {
    pub(crate) fn new(receiver: oneshot::Receiver<PurgeReach>) -> Self {
        Self(Pending::Waits(receiver))
    }

    /// Of a purge that another process of this node publishes.
    pub fn handed_over() -> Self {
        let why = "another process of this node takes over, and tells the other nodes";
        Self(Pending::Is(PurgeReach::Local(why.into())))
    }

    /// Waits for `LONGEST_WAIT` at most, whatever the engine does. Cancel-safe.
    pub async fn reach(self) -> PurgeReach {
        let receiver = match self.0 {
            Pending::Waits(receiver) => receiver,
            Pending::Is(reach) => return reach,
        };
        let local = |why: &str| PurgeReach::Local(why.into());
        match tokio::time::timeout(LONGEST_WAIT, receiver).await {
            Ok(Ok(reach)) => reach,
            Ok(Err(_)) => {
                local("the server ends, or too many purges wait for the cluster's engine")
            }
            Err(_) => local("the other nodes have not confirmed it in time"),
        }
    }
}

/// How long a publisher is kept waiting for the members.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_secs(5);
