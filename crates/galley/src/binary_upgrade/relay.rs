//! Exchanges purges while both processes serve requests: a purge is in effect in both before it is acknowledged.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use galley_cache::log::PurgeRecord;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::channel::UpgradeChannel;
use super::packet::{Packet, UpgradeMessage};
use galley_purging::{RelayedPurge, RelayedPurges, SitePurges};

/// Takes messages of the other process with their descriptors.
pub type MessageSink<'s> = dyn FnMut(UpgradeMessage, Vec<OwnedFd>) + Send + 's;

/// Sends the purges in `ours` to the other process, and applies those that it sends, until it ends. Returns the purges that it did
/// not confirm; dropping them notifies their publishers. `find`: the purges of a site by its name, if this process has the site.
pub async fn exchange_purges(
    channel: &UpgradeChannel,
    ours: &mut RelayedPurges,
    find: &impl Fn(&str) -> Option<Arc<SitePurges>>,
    messages: &mut MessageSink<'_>,
) -> Vec<RelayedPurge> {
    let mut waiting = WaitingPurges::default();
    let mut acknowledged = JoinSet::new();
    let mut descriptors = Vec::new();
    loop {
        let result = tokio::select! {
            Some(purge) = ours.recv() => waiting.send(channel, purge).await,
            packet = channel.receive_packet(&mut descriptors) => match packet {
                Ok(Some(Packet::Purge(number, record))) => {
                    apply(&mut acknowledged, find, number, &record);
                    Ok(())
                }
                Ok(Some(Packet::Done(number))) => {
                    waiting.done(number);
                    Ok(())
                }
                Ok(Some(Packet::Message(message))) => {
                    messages(message, std::mem::take(&mut descriptors));
                    Ok(())
                }
                Ok(None) => break,
                Err(error) => Err(error),
            },
            Some(Ok(number)) = acknowledged.join_next() => {
                channel.send_packet(&Packet::Done(number), &[]).await
            }
        };
        if let Err(error) = result {
            tracing::debug!(%error, "cannot reach the other process of the upgrade");
            break;
        }
    }
    waiting.unconfirmed()
}

/// Publishes a purge of the other process; `acknowledged` returns its number when it is on disk.
fn apply(
    acknowledged: &mut JoinSet<u64>,
    find: &impl Fn(&str) -> Option<Arc<SitePurges>>,
    number: u64,
    record: &PurgeRecord,
) {
    let receipt = find(&record.site).map(|purges| purges.publish_relayed(&record.purge));
    acknowledged.spawn(async move {
        if let Some(receipt) = receipt {
            receipt.acknowledged().await;
        }
        number
    });
}

/// The unconfirmed purges that were sent to the other process, by number.
#[derive(Default)]
struct WaitingPurges {
    next: u64,
    sent: HashMap<u64, SentPurge>,
}

struct SentPurge {
    record: PurgeRecord,
    done: oneshot::Sender<()>,
}

impl WaitingPurges {
    async fn send(&mut self, channel: &UpgradeChannel, purge: RelayedPurge) -> io::Result<()> {
        let number = self.next;
        self.next += 1;
        let packet = Packet::Purge(number, purge.record.clone());
        let sent = SentPurge {
            record: purge.record,
            done: purge.done,
        };
        self.sent.insert(number, sent);
        channel.send_packet(&packet, &[]).await
    }

    fn done(&mut self, number: u64) {
        if let Some(sent) = self.sent.remove(&number) {
            // The publisher may have stopped waiting.
            let _ = sent.done.send(());
        }
    }

    /// The unconfirmed purges, in the order in which they were published.
    fn unconfirmed(self) -> Vec<RelayedPurge> {
        let mut unconfirmed: Vec<(u64, SentPurge)> = self.sent.into_iter().collect();
        unconfirmed.sort_unstable_by_key(|(number, _)| *number);
        let purges = unconfirmed.into_iter().map(|(_, sent)| RelayedPurge {
            record: sent.record,
            done: sent.done,
        });
        purges.collect()
    }
}
