//! Cluster nodes without the web server, each with a purge table.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use galley_cluster::{
    BornPoint, Cluster, ClusterPublisher, ClusterSettings, FetchToken, NotePoint, PageName,
    PageSearch, PageSettings, PageToShare, PagesStatus, PurgePoints, PurgeReach, PurgeSink,
    RemotePurge, RunningCluster, SharedPages, SharedWait,
};
use galley_policy::purge::{Purge, Scope, Strength};
use galley_policy::time::Tick;
use galley_testkit::{Redis, Scratch, wait_for};

/// The purge table of a site: scopes by sequence number, and the known points of the purge stream.
#[derive(Default)]
pub struct PurgeTable {
    pub scopes: Vec<Scope>,
    pub points: PurgePoints,
    pub has_earlier_purges: bool,
    pub has_earlier_pages: bool,
}

impl PurgeTable {
    pub fn add(&mut self, scope: Scope) {
        self.scopes.push(scope);
    }

    pub fn current(&self) -> u64 {
        u64::try_from(self.scopes.len()).unwrap()
    }

    /// Whether a page fetched at a point is newer than all purges of its tag on this node.
    pub fn accepts(&self, tag: &str, points: &[BornPoint]) -> bool {
        let [BornPoint { point, .. }] = points else {
            return false;
        };
        let Some(born) = self.points.number_at(point) else {
            return false;
        };
        let newer = &self.scopes[usize::try_from(born).unwrap()..];
        newer
            .iter()
            .all(|scope| matches!(scope, Scope::Tag(other) if other != tag))
    }
}

#[derive(Clone, Default)]
pub struct TableSink(pub Arc<Mutex<PurgeTable>>);

impl PurgeSink for TableSink {
    fn apply(&self, purges: &[RemotePurge]) {
        let mut table = self.0.lock().unwrap();
        for purge in purges {
            table.add(purge.purge.scope.clone());
        }
    }

    fn apply_to_all(&self, _: Strength) {
        self.0.lock().unwrap().add(Scope::Site);
    }

    fn has_earlier_pages(&self) -> bool {
        self.0.lock().unwrap().has_earlier_pages
    }

    fn has_earlier_purges(&self) -> bool {
        self.0.lock().unwrap().has_earlier_purges
    }

    fn numbers(&self) -> NotePoint {
        let table = Arc::clone(&self.0);
        let number = table.lock().unwrap().current();
        Box::new(move |points| table.lock().unwrap().points.note(points, number))
    }
}

pub struct Node {
    pub sink: TableSink,
    pub publisher: ClusterPublisher,
    pub pages: SharedPages,
    _running: RunningCluster,
}

impl Node {
    pub fn start(redis: &Redis, name: &str, key_file: &Path) -> Self {
        Self::start_with(redis, name, key_file, None, TableSink::default())
    }

    pub fn start_with(
        redis: &Redis,
        name: &str,
        key_file: &Path,
        folder: Option<&Path>,
        sink: TableSink,
    ) -> Self {
        let settings = ClusterSettings {
            engine: redis.url(),
            password_file: None,
            name: "test".to_owned(),
            node: name.to_owned(),
            serve_through_partitions: false,
            folder: folder.map(Path::to_owned),
            key_file: Some(key_file.to_owned()),
            pages: Some(PageSettings {
                most_bytes: 1 << 20,
                lifetime: Duration::from_secs(3600),
            }),
            page_thread_start: || {},
        };
        let cluster = Cluster::new(settings).unwrap();
        let publisher = cluster.publisher();
        let started = Instant::now();
        let tick_at = move |at: Instant| {
            let since = at.saturating_duration_since(started);
            Tick(u64::try_from(since.as_millis()).unwrap())
        };
        let running = cluster.start(Arc::new(sink.clone()), tick_at, None);
        let node = Self {
            pages: publisher.pages().unwrap().clone(),
            sink,
            publisher,
            _running: running.unwrap(),
        };
        wait_for("a point", TIMEOUT, || node.current_point().is_some());
        node
    }

    /// The point of a page requested now.
    pub fn current_point(&self) -> Option<BornPoint> {
        let table = self.sink.0.lock().unwrap();
        table.points.of_born(table.current())
    }

    pub fn point(&self) -> BornPoint {
        self.current_point().unwrap()
    }

    /// Looks a page up as the server does: accepts it only if no purge is newer, and gives up after a late reply.
    pub async fn find_once(&self, page: PageName<'_>) -> PageSearch<Vec<u8>> {
        let find = self.pages.find(page, SharedWait::Waits, |found| {
            let table = self.sink.0.lock().unwrap();
            let is_newer = table.accepts(TAG, found.points);
            is_newer.then(|| found.record.to_vec())
        });
        find.await
    }

    /// Looks a page up, and retries after late replies, because a busy machine can exceed the deadline of 5 ms.
    pub async fn find(&self, page: PageName<'_>) -> PageSearch<Vec<u8>> {
        let started = Instant::now();
        loop {
            let before = self.late_replies();
            let search = self.find_once(page).await;
            let is_conclusive = self.late_replies() == before && !self.status().is_paused;
            if is_conclusive || matches!(search, PageSearch::Found(_)) {
                return search;
            }
            drop(search);
            assert!(started.elapsed() < TIMEOUT, "{:?}", self.status());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// The number of lookups without a timely reply.
    pub fn late_replies(&self) -> u64 {
        let status = self.status();
        status.timeouts + status.errors
    }

    pub async fn find_record(&self, page: PageName<'_>) -> Option<Vec<u8>> {
        match self.find(page).await {
            PageSearch::Found(record) => Some(record),
            PageSearch::Fetch(_) => None,
        }
    }

    /// Takes the fetch token of a page. A node gets it only after it is connected.
    pub async fn token(&self, page: PageName<'_>) -> FetchToken {
        for _ in 0..1000 {
            if let PageSearch::Fetch(Some(token)) = self.find(page).await {
                return token;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("no token")
    }

    /// Stores a page and waits until it is in the engine.
    pub async fn store(
        &self,
        page: PageName<'_>,
        point: BornPoint,
        body: &[u8],
        token: Option<FetchToken>,
    ) {
        let started = Instant::now();
        // While lookups are paused, nothing is stored; a successful lookup ends the pause.
        while self.status().is_paused {
            assert!(started.elapsed() < TIMEOUT, "{:?}", self.status());
            self.pages.peek(page, |_| Some(())).await;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let before = self.status().stored;
        let record = body.to_vec();
        let page = PageToShare {
            name: page,
            points: vec![point],
            bytes: u64::try_from(body.len()).unwrap(),
            fresh: Duration::from_secs(60),
            record: Box::new(move || Some(record)),
        };
        assert!(self.pages.store(page, token));
        while self.status().stored == before {
            assert!(started.elapsed() < TIMEOUT, "{:?}", self.status());
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Shares a page unless it is already stored.
    pub async fn share(&self, page: PageName<'_>, body: &[u8]) {
        let token = loop {
            match self.find(page).await {
                PageSearch::Found(_) => return,
                PageSearch::Fetch(Some(token)) => break token,
                PageSearch::Fetch(None) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        };
        let point = self.point();
        self.store(page, point, body, Some(token)).await;
    }

    /// Retries a lookup until the page is found: a node that is not connected yet knows no point and accepts no page.
    pub async fn find_eventually(&self, page: PageName<'_>) -> Vec<u8> {
        for _ in 0..1000 {
            if let Some(record) = self.find_record(page).await {
                return record;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("no page")
    }

    pub async fn purge(&self, tag: &str) -> PurgeReach {
        let purge = Purge {
            scope: Scope::Tag(tag.to_owned()),
            strength: Strength::Hard,
        };
        let begin = self.publisher.begin();
        self.sink.0.lock().unwrap().add(purge.scope.clone());
        let pending = self.publisher.publish("a.test", &purge, begin);
        pending.reach().await
    }

    /// Purges until a purge is final: a node that has just started does not yet treat missing keys as absent nodes.
    pub async fn purge_until_final(&self, tag: &str) {
        while self.purge(tag).await != PurgeReach::Cluster {}
    }

    pub fn status(&self) -> PagesStatus {
        self.publisher.status().pages.unwrap()
    }
}

/// Two nodes with the same key.
pub struct Pair {
    pub redis: Redis,
    pub scratch: Scratch,
    pub one: Node,
    pub other: Node,
}

impl Pair {
    pub fn start() -> Self {
        let scratch = Scratch::new().unwrap();
        let redis = Redis::start(&scratch.join("redis")).unwrap();
        let file = key_file(&scratch, "key", 'a');
        Self {
            one: Node::start(&redis, "one", &file),
            other: Node::start(&redis, "other", &file),
            redis,
            scratch,
        }
    }

    /// Waits until both nodes have noticed a gap in the stream and know a point again.
    pub fn wait_for_gaps(&self) {
        wait_for("the loss to be noticed", TIMEOUT, || {
            [&self.one, &self.other]
                .iter()
                .all(|node| node.publisher.status().gaps > 0 && node.current_point().is_some())
        });
    }

    /// The keys of all pages in the engine.
    pub fn keys(&self) -> Vec<String> {
        let keys = self.redis.run(&["KEYS", "galley:test:page:*"]).unwrap();
        keys.lines().map(str::to_owned).collect()
    }
}

pub fn key_file(scratch: &Scratch, name: &str, letter: char) -> PathBuf {
    let file = scratch.join(name);
    std::fs::write(&file, letter.to_string().repeat(64)).unwrap();
    file
}

pub fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(work)
}

pub const TAG: &str = "p1";
pub const PAGE: PageName<'_> = PageName {
    site: "a.test",
    key: b"/page",
};
pub const OTHER: PageName<'_> = PageName {
    site: "a.test",
    key: b"/other",
};
pub const OTHER_SITE: PageName<'_> = PageName {
    site: "b.test",
    key: b"/page",
};
pub const TIMEOUT: Duration = Duration::from_secs(60);
