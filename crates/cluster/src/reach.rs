//! The reach of a purge, and the wait for it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

/// The reach of a purge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PurgeReach {
    /// No node can send the old pages any more.
    Cluster,
    /// The purge is in effect on this node. The other nodes apply it later; the text tells why they have not.
    Local(Arc<str>),
}

/// The future reach of a purge.
#[derive(Debug)]
pub struct PendingReach(Pending);

#[derive(Debug)]
enum Pending {
    Waits(oneshot::Receiver<PurgeReach>),
    /// The reach is known.
    Is(PurgeReach),
}

impl PendingReach {
    pub(crate) fn new(receiver: oneshot::Receiver<PurgeReach>) -> Self {
        Self(Pending::Waits(receiver))
    }

    /// The reach of a purge that another process of this node publishes.
    pub fn handed_over() -> Self {
        let why = "another process of this node takes over, and tells the other nodes";
        Self(Pending::Is(PurgeReach::Local(why.into())))
    }

    /// Waits at most `MAX_WAIT`, whatever the engine does. Cancel-safe.
    pub async fn reach(self) -> PurgeReach {
        let receiver = match self.0 {
            Pending::Waits(receiver) => receiver,
            Pending::Is(reach) => return reach,
        };
        let local = |why: &str| PurgeReach::Local(why.into());
        match tokio::time::timeout(MAX_WAIT, receiver).await {
            Ok(Ok(reach)) => reach,
            Ok(Err(_)) => {
                local("the server ends, or too many purges wait for the cluster's engine")
            }
            Err(_) => local("the other nodes have not confirmed it in time"),
        }
    }
}

/// The maximum time that a publisher waits for the members.
pub(crate) const MAX_WAIT: Duration = Duration::from_secs(5);
