//! The thread that owns the markers of a site: it creates them, and purges the pages of removed ones.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use galley_policy::purge::{Purge, Scope, Strength, nginx_key_url, url_scope};
use galley_policy::site::Policy;
use tokio::io::unix::AsyncFd;
use tokio::sync::{mpsc, oneshot};

use super::folder::{MAX_REMOVALS, MarkerFolder, RemovedFiles, events, marker_name};
use super::owner::FolderOwner;
use crate::{PurgeSource, Receipt, SitePurges};

/// The markers that a fetch needs.
pub(super) struct PutRequest {
    /// The keys of the markers.
    pub(super) keys: Vec<String>,
    /// Receives whether all of them exist.
    pub(super) done: oneshot::Sender<bool>,
}

struct MarkerThread {
    path: PathBuf,
    owner: Option<FolderOwner>,
    folder: MarkerFolder,
    policy: Policy,
    purges: Arc<SitePurges>,
    /// Names of markers, the oldest first, including some that were removed.
    order: VecDeque<String>,
    /// The maximum number of markers.
    max_markers: usize,
}

/// Opens the folder and purges the pages whose markers were removed while Galley was stopped, then starts the thread.
pub(super) fn start(
    path: &Path,
    owner: Option<FolderOwner>,
    policy: &Policy,
    purges: &Arc<SitePurges>,
    requests: mpsc::Receiver<PutRequest>,
) -> io::Result<()> {
    let events = events()?;
    let (folder, is_new) = MarkerFolder::open(path, owner, events.as_fd())?;
    let mut thread = MarkerThread {
        path: path.to_owned(),
        owner,
        folder,
        policy: policy.clone(),
        purges: Arc::clone(purges),
        order: VecDeque::new(),
        max_markers: MAX_MARKERS,
    };
    // Before any request is served.
    let receipts = thread.catch_up(is_new)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(1)
        .build()?;
    std::thread::Builder::new()
        .name("page-markers".to_owned())
        .spawn(move || {
            runtime.block_on(async move {
                for receipt in receipts {
                    thread.acknowledge(receipt);
                }
                if let Err(error) = thread.run(events, requests).await {
                    let path = thread.path.display();
                    tracing::error!(%path, %error, "cannot watch the folder of page markers any longer");
                }
            });
        })?;
    Ok(())
}

impl MarkerThread {
    async fn run(
        &mut self,
        events: OwnedFd,
        mut requests: mpsc::Receiver<PutRequest>,
    ) -> io::Result<()> {
        #[expect(
            deprecated,
            reason = "its successor is unsafe; the descriptor is owned, and closed by nobody else"
        )]
        let events = AsyncFd::new(events)?;
        loop {
            tokio::select! {
                biased;
                ready = events.readable() => {
                    let mut ready = ready?;
                    if let Ok(removals) = ready.try_io(|events| self.folder.read(events.as_fd())) {
                        self.purge(removals?, &events).await;
                    }
                }
                request = requests.recv() => match request {
                    Some(request) => self.put(request, &events),
                    None => return Ok(()),
                },
            }
        }
    }

    fn put(&mut self, request: PutRequest, events: &AsyncFd<OwnedFd>) {
        let mut all_exist = true;
        for key in &request.keys {
            match self.folder.put(key, events.get_ref().as_fd()) {
                Ok(true) => self.order.push_back(marker_name(key)),
                Ok(false) => {}
                Err(error) => {
                    all_exist = false;
                    tracing::debug!(path = %self.path.display(), %error, "cannot put a page marker");
                }
            }
        }
        self.enforce_limit();
        // The fetch may have ended.
        let _ = request.done.send(all_exist);
    }

    /// Removes the oldest markers above the limit and purges their pages, because plugins could not purge them any more.
    fn enforce_limit(&mut self) {
        while self.order.len() > self.max_markers {
            let oldest = self.order.pop_front();
            if let Some(key) = oldest.and_then(|name| self.folder.remove_marker(&name)) {
                self.purge_key(&key);
            }
        }
    }

    async fn purge(&mut self, removals: RemovedFiles, events: &AsyncFd<OwnedFd>) {
        if removals.is_everything || removals.is_root_gone {
            self.purge_all();
            // A plugin may still be removing files, and reports a failure if the folder is not empty afterwards.
            tokio::time::sleep(PURGE_PAUSE).await;
            self.reopen(events).await;
            let mut removed = Vec::new();
            if let Ok(order) = self.folder.scan(&mut removed) {
                self.order = order.into();
            }
            return;
        }
        for name in removals.names {
            if let Some(key) = self.folder.removed(&name) {
                self.purge_key(&key);
            }
        }
    }

    /// Retries until the folder can be created and watched again.
    async fn reopen(&mut self, events: &AsyncFd<OwnedFd>) {
        loop {
            let events = events.get_ref().as_fd();
            match MarkerFolder::open(&self.path, self.owner, events) {
                Ok((folder, _)) => {
                    self.folder = folder;
                    return;
                }
                Err(error) => {
                    let path = self.path.display();
                    tracing::warn!(%path, %error, "the folder of page markers does not exist any longer");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    fn catch_up(&mut self, is_new: bool) -> io::Result<Vec<Receipt>> {
        let mut lost = Vec::new();
        let scanned = self.folder.scan(&mut lost);
        let is_full = matches!(&scanned, Err(error) if error.kind() == ErrorKind::QuotaExceeded);
        if is_full {
            let path = self.path.display();
            tracing::warn!(%path, "the folder of page markers contains more files than Galley has put there: remove it");
        } else {
            self.order = scanned?.into();
        }
        if is_new || is_full || lost.len() > MAX_REMOVALS {
            return Ok(vec![self.publish(Scope::Site)]);
        }
        let scopes = lost.iter().filter_map(|key| self.scope(key));
        let scopes: Vec<Scope> = scopes.collect();
        Ok(scopes
            .into_iter()
            .map(|scope| self.publish(scope))
            .collect())
    }

    fn purge_all(&self) {
        let site = self.purges.site();
        tracing::info!(site, path = %self.path.display(), "purged, because page markers were removed");
        self.acknowledge(self.publish(Scope::Site));
    }

    fn purge_key(&self, key: &str) {
        if let Some(scope) = self.scope(key) {
            self.acknowledge(self.publish(scope));
        }
    }

    /// The scope of the page with a key.
    fn scope(&self, key: &str) -> Option<Scope> {
        match url_scope(&nginx_key_url(key)?, &self.policy) {
            Err(why) if why.is_limit() => Some(Scope::Site),
            scope => scope.ok(),
        }
    }

    fn publish(&self, scope: Scope) -> Receipt {
        let purge = Purge {
            scope,
            strength: Strength::Hard,
        };
        self.purges.publish(&purge, PurgeSource::Folder)
    }

    /// Logs the result of a purge when it is known.
    fn acknowledge(&self, receipt: Receipt) {
        let site = self.purges.site().to_owned();
        tokio::spawn(async move { receipt.acknowledged().await.log(&site) });
    }
}

/// The maximum number of markers of a site: 400 MB of small files in the worst file system.
const MAX_MARKERS: usize = 100_000;

/// Longer than the removal of some thousand files, and short enough for fetches that wait for their markers.
const PURGE_PAUSE: Duration = Duration::from_millis(100);

/// The pause between two attempts to open the folder.
const PAUSE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
