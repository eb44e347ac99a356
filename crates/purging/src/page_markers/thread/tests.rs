//! The limit of markers, and removals whose events the kernel merges or drops.

use super::*;
use galley_sys::clock::Clock;

struct Stage {
    dir: tempfile::TempDir,
    events: OwnedFd,
    thread: MarkerThread,
}

impl Stage {
    fn new(max_markers: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("nginx");
        let events = events().unwrap();
        let (folder, _) = MarkerFolder::open(&path, None, events.as_fd()).unwrap();
        let purges = SitePurges::in_memory("a.test".to_owned(), Clock::start(), None);
        let thread = MarkerThread {
            path,
            owner: None,
            folder,
            policy: Policy::default(),
            purges: Arc::new(purges),
            order: VecDeque::new(),
            max_markers,
        };
        Self {
            dir,
            events,
            thread,
        }
    }

    fn events(&self) -> AsyncFd<OwnedFd> {
        #[expect(deprecated, reason = "as in the thread")]
        AsyncFd::new(self.events.try_clone().unwrap()).unwrap()
    }

    fn put(&mut self, keys: &[&str]) -> bool {
        let (done, mut is_done) = oneshot::channel();
        let keys = keys.iter().map(|key| (*key).to_owned()).collect();
        let events = self.events();
        self.thread.put(PutRequest { keys, done }, &events);
        is_done.try_recv().unwrap()
    }

    fn marker(&self, key: &str) -> PathBuf {
        let name = marker_name(key);
        let path = self.dir.path().join("nginx");
        path.join(&name[31..]).join(&name[29..31]).join(name)
    }

    /// The purges so far, the oldest first.
    fn purged(&self) -> Vec<String> {
        let recent = self.thread.purges.recent().into_iter().rev();
        recent.map(|one| one.scope).collect()
    }
}

fn page(path: &str) -> String {
    let url = nginx_key_url(&format!("httpsGETa.test{path}")).unwrap();
    url_scope(&url, &Policy::default()).unwrap().to_string()
}

#[tokio::test]
async fn above_the_limit_the_oldest_markers_go_and_their_pages_are_purged() {
    let mut stage = Stage::new(2);
    let keys = [
        "httpsGETa.test/1/",
        "httpsGETa.test/2/",
        "httpsGETa.test/3/",
    ];
    for key in keys {
        assert!(stage.put(&[key]), "{key}");
    }
    assert_eq!(stage.purged(), [page("/1/")]);
    assert!(!stage.marker(keys[0]).exists());
    assert!(stage.marker(keys[1]).exists() && stage.marker(keys[2]).exists());
    // An existing marker does not count twice.
    assert!(stage.put(&[keys[1]]));
    assert_eq!(stage.purged().len(), 1);
    // More at once than the limit: the last two stay.
    assert!(stage.put(&[
        "httpsGETa.test/4/",
        "httpsGETa.test/5/",
        "httpsGETa.test/6/"
    ]));
    assert_eq!(
        stage.purged(),
        ["/1/", "/2/", "/3/", "/4/"].map(page),
        "the oldest first"
    );
}

#[tokio::test]
async fn removals_beyond_the_queue_of_the_kernel_purge_the_site() {
    let mut stage = Stage::new(2);
    let key = "httpsGETa.test/1/";
    assert!(stage.put(&[key]));
    // Two other names in one of its folders, alternately, because the kernel merges equal unread events.
    let marker = stage.marker(key);
    let limit = std::fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
    for number in 0..=limit.trim().parse::<usize>().unwrap() {
        let neighbour = marker.with_file_name(if number % 2 == 0 { "even" } else { "odd" });
        std::fs::write(&neighbour, "").unwrap();
        std::fs::remove_file(&neighbour).unwrap();
    }
    // The event of this removal is lost.
    std::fs::remove_file(&marker).unwrap();
    let removals = stage.thread.folder.read(stage.events.as_fd()).unwrap();
    assert!(removals.is_everything, "{removals:?}");
    let events = stage.events();
    stage.thread.purge(removals, &events).await;
    assert_eq!(stage.purged(), [Scope::Site.to_string()]);
    assert!(stage.thread.order.is_empty(), "it was found to be gone");
}

#[tokio::test]
async fn a_folder_full_of_other_files_is_one_purge_and_little_memory() {
    for (count, recorded) in [(500, 500), (1_500, 1), (6_000, 1)] {
        let mut stage = Stage::new(2);
        let keys = stage.dir.path().join("nginx/.galley");
        for number in 0..count {
            let key = format!("httpsGETa.test/{number}/");
            std::fs::write(keys.join(marker_name(&key)), format!("KEY: {key}\n")).unwrap();
        }
        let receipts = stage.thread.catch_up(false).unwrap();
        assert_eq!(receipts.len(), recorded, "{count}");
    }
}
