//! Folders that purge a site when they are emptied.
//!
//! nginx-helper purges everything by removing the contents of nginx's cache folder with PHP's own functions, without a
//! request. Galley keeps one file in such a folder and watches the folder. When a file is removed there, Galley purges the
//! site hard. The file is created again *before* the purge: if PHP removes the folder's contents again in between, that
//! removal causes another purge. If the file is missing at the start, it was removed while Galley was not running.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, ErrorKind};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, lchown};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use galley_config::Config;
use galley_policy::purge::{Purge, Scope, Strength};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;
use tokio::io::unix::AsyncFd;
use tokio::task::JoinSet;

use super::ServerStartError;
use galley_purging::{FolderOwner, PurgeSource};
use galley_request::Site;

/// Starts watching all folders that the configuration names; the watchers end when the result is dropped.
pub(super) fn start(
    config: &Config,
    sites: &Arc<Vec<Arc<Site>>>,
) -> Result<JoinSet<()>, ServerStartError> {
    let mut watchers = JoinSet::new();
    for (index, site) in config.sites.iter().enumerate() {
        let Some(path) = &site.purge_directory else {
            continue;
        };
        let folder = CanaryFolder::open(path, site.root.as_deref()).map_err(|cause| {
            ServerStartError::PurgeFolder {
                site: site.name.clone(),
                path: path.clone(),
                cause,
            }
        })?;
        watchers.spawn(watch(folder, Arc::downgrade(sites), index));
    }
    Ok(watchers)
}

/// Purges the site whenever a file is removed from its folder.
async fn watch(folder: CanaryFolder, sites: Weak<Vec<Arc<Site>>>, index: usize) {
    let mut was_removed = folder.put_back().unwrap_or(true);
    loop {
        if was_removed {
            let site = sites
                .upgrade()
                .and_then(|sites| sites.get(index).map(Arc::clone));
            let Some(site) = site else { return };
            purge(&site, &folder.path).await;
        }
        match folder.next_event().await {
            Ok(CanaryEvent::Removed) => {}
            Ok(CanaryEvent::Gone) => folder.find_again().await,
            Err(error) => {
                tracing::error!(path = %folder.path.display(), %error, "cannot watch the purge folder any longer");
                return;
            }
        }
        if let Err(error) = folder.put_back() {
            tracing::warn!(path = %folder.path.display(), %error, "cannot write to the purge folder: Galley will not notice when it is emptied");
        }
        was_removed = true;
    }
}

async fn purge(site: &Site, path: &Path) {
    let order = Purge {
        scope: Scope::Site,
        strength: Strength::Hard,
    };
    let receipt = site.core.purges.publish(&order, PurgeSource::Folder);
    tracing::info!(site = site.core.name, path = %path.display(), "purged, because the purge folder was emptied");
    receipt.acknowledged().await.log(&site.core.name);
}

/// A watched folder.
struct CanaryFolder {
    path: PathBuf,
    /// The user for whom the folder must be writable, if Galley may change the folder's owner.
    owner: Option<FolderOwner>,
    events: AsyncFd<OwnedFd>,
}

/// An event in a watched folder.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CanaryEvent {
    /// A file was removed from the folder.
    Removed,
    /// The folder itself was removed or moved.
    Gone,
}

impl CanaryFolder {
    fn open(path: &Path, root: Option<&Path>) -> io::Result<Self> {
        let owner = FolderOwner::of_root(root)?;
        let events = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        #[expect(
            deprecated,
            reason = "its successor is unsafe; the descriptor is owned, and closed by nobody else"
        )]
        let events = AsyncFd::new(events)?;
        let folder = Self {
            path: path.to_owned(),
            owner,
            events,
        };
        folder.watch()?;
        Ok(folder)
    }

    /// Creates the folder if it does not exist, and watches it.
    fn watch(&self) -> io::Result<()> {
        match DirBuilder::new().mode(FOLDER_MODE).create(&self.path) {
            Ok(()) => {
                if let Some(owner) = self.owner {
                    lchown(&self.path, Some(owner.user), Some(owner.group))?;
                }
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        let removals = WatchFlags::DELETE | WatchFlags::MOVED_FROM;
        let own_events = WatchFlags::DELETE_SELF | WatchFlags::MOVE_SELF | WatchFlags::ONLYDIR;
        inotify::add_watch(self.events.get_ref(), &self.path, removals | own_events)?;
        Ok(())
    }

    /// Creates the file if it is missing. Returns whether it was missing.
    fn put_back(&self) -> io::Result<bool> {
        // A user with write access may have put a link in place of the file, so an existing file is not touched.
        let made = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(FILE_MODE)
            .open(self.path.join(NAME));
        match made {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Waits for a removal. Cancel-safe: unread events are read by the next call.
    async fn next_event(&self) -> io::Result<CanaryEvent> {
        loop {
            let mut ready = self.events.readable().await?;
            if let Ok(event) = ready.try_io(|events| read(events.get_ref())) {
                return event;
            }
        }
    }

    /// Tries to create and watch the folder again until it succeeds.
    async fn find_again(&self) {
        while let Err(error) = self.watch() {
            tracing::warn!(path = %self.path.display(), %error, "the purge folder does not exist any longer");
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// Reads all pending events as one; returns `WouldBlock` if there are none.
fn read(events: &OwnedFd) -> io::Result<CanaryEvent> {
    let mut buffer = [MaybeUninit::uninit(); BUFFER];
    let mut reader = Reader::new(events, &mut buffer);
    let mut outcome = None;
    loop {
        match reader.next() {
            Ok(event) => {
                let is_gone = ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF | ReadFlags::IGNORED;
                if event.events().intersects(is_gone) {
                    outcome = Some(CanaryEvent::Gone);
                }
                outcome = outcome.or(Some(CanaryEvent::Removed));
            }
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return outcome.ok_or(ErrorKind::WouldBlock.into()),
            Err(error) => return Err(error.into()),
        }
    }
}

/// The file whose removal is detected. The name is chosen for people who see the folder.
const NAME: &str = "remove-to-purge-all";

/// Accessible to its owner and group, which may be those of PHP.
const FOLDER_MODE: u32 = 0o770;
const FILE_MODE: u32 = 0o640;

/// The pause between two attempts to find the folder again.
const PAUSE: Duration = Duration::from_secs(1);

/// The size of the event buffer in bytes. One event takes at most 272 bytes.
const BUFFER: usize = 4096;

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn folder(dir: &tempfile::TempDir) -> CanaryFolder {
        let folder = CanaryFolder::open(&dir.path().join("watched"), None).unwrap();
        assert!(folder.put_back().unwrap());
        assert!(!folder.put_back().unwrap(), "it is there");
        folder
    }

    #[tokio::test]
    async fn any_removal_is_detected() {
        let dir = tempfile::tempdir().unwrap();
        let folder = folder(&dir);
        let file = folder.path.join(NAME);
        fs::remove_file(&file).unwrap();
        assert!(folder.next_event().await.unwrap() == CanaryEvent::Removed);
        folder.put_back().unwrap();
        fs::rename(&file, dir.path().join("elsewhere")).unwrap();
        assert!(folder.next_event().await.unwrap() == CanaryEvent::Removed);
        fs::write(folder.path.join("another"), "").unwrap();
        fs::remove_file(folder.path.join("another")).unwrap();
        assert!(folder.next_event().await.unwrap() == CanaryEvent::Removed);
    }

    #[tokio::test]
    async fn a_removed_folder_is_created_again() {
        let dir = tempfile::tempdir().unwrap();
        let folder = folder(&dir);
        fs::remove_dir_all(&folder.path).unwrap();
        assert!(folder.next_event().await.unwrap() == CanaryEvent::Gone);
        folder.find_again().await;
        assert!(folder.put_back().unwrap());
        fs::remove_file(folder.path.join(NAME)).unwrap();
        assert!(folder.next_event().await.is_ok());
    }

    #[tokio::test]
    async fn a_link_in_its_place_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let folder = CanaryFolder::open(&dir.path().join("watched"), None).unwrap();
        let target = dir.path().join("target");
        std::os::unix::fs::symlink(&target, folder.path.join(NAME)).unwrap();
        assert!(!folder.put_back().unwrap());
        assert!(!target.exists());
    }
}
