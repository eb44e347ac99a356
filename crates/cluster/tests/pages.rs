//! Pages that nodes share over a real `redis-server`, without a server.

#![expect(clippy::unwrap_used, reason = "tests, their helpers too")]

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use galley_cluster::{
    BornPoint, Cluster, ClusterPublisher, ClusterSettings, FetchToken, NotePoint, PageName,
    PageSearch, PageSettings, PageToShare, PagesStatus, PurgePoints, PurgeReach, PurgeSink,
    RemotePurge, RunningCluster, SharedPages, SharedPatience,
};
use galley_policy::purge::{Purge, Scope, Strength};
use galley_policy::time::Tick;
use galley_testkit::{Redis, Scratch, Signal, wait_for};

/// A purge table of one site: the scopes by number, and what is known of points.
#[derive(Default)]
struct Table {
    scopes: Vec<Scope>,
    points: PurgePoints,
    has_earlier_purges: bool,
}

impl Table {
    fn add(&mut self, scope: Scope) {
        self.scopes.push(scope);
    }

    fn current(&self) -> u64 {
        u64::try_from(self.scopes.len()).unwrap()
    }

    /// Whether a page with a tag that was fetched at a point is newer than all purges of this node.
    fn accepts(&self, tag: &str, points: &[BornPoint]) -> bool {
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
struct Sink(Arc<Mutex<Table>>);

impl PurgeSink for Sink {
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
        false
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

struct Node {
    sink: Sink,
    publisher: ClusterPublisher,
    pages: SharedPages,
    _running: RunningCluster,
}

impl Node {
    fn start(redis: &Redis, name: &str, key_file: &Path) -> Self {
        Self::start_with(redis, name, key_file, None, Sink::default())
    }

    fn start_with(
        redis: &Redis,
        name: &str,
        key_file: &Path,
        folder: Option<&Path>,
        sink: Sink,
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
        let began = Instant::now();
        let tick_at = move |at: Instant| {
            let since = at.saturating_duration_since(began);
            Tick(u64::try_from(since.as_millis()).unwrap())
        };
        let running = cluster.start(Arc::new(sink.clone()), tick_at, None);
        let node = Self {
            pages: publisher.pages().unwrap().clone(),
            sink,
            publisher,
            _running: running.unwrap(),
        };
        wait_for("a point", PATIENCE, || node.now().is_some());
        node
    }

    /// What is known of a page that is requested now.
    fn now(&self) -> Option<BornPoint> {
        let table = self.sink.0.lock().unwrap();
        table.points.of_born(table.current())
    }

    fn point(&self) -> BornPoint {
        self.now().unwrap()
    }

    /// What the server does with what it finds: takes it only if no purge came after it. A look that gets no reply in time ends it.
    async fn find_once(&self, page: PageName<'_>) -> PageSearch<Vec<u8>> {
        let find = self.pages.find(page, SharedPatience::Waits, |found| {
            let table = self.sink.0.lock().unwrap();
            let is_newer = table.accepts(TAG, found.points);
            is_newer.then(|| found.record.to_vec())
        });
        find.await
    }

    /// The same, again where a reply was late: a machine that does something else for 5 ms is not what a test is about.
    async fn find(&self, page: PageName<'_>) -> PageSearch<Vec<u8>> {
        let began = Instant::now();
        loop {
            let before = self.late();
            let search = self.find_once(page).await;
            let is_decided = self.late() == before && !self.status().is_paused;
            if is_decided || matches!(search, PageSearch::Found(_)) {
                return search;
            }
            drop(search);
            assert!(began.elapsed() < PATIENCE, "{:?}", self.status());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Looks without a reply in time.
    fn late(&self) -> u64 {
        let status = self.status();
        status.timeouts + status.errors
    }

    async fn found(&self, page: PageName<'_>) -> Option<Vec<u8>> {
        match self.find(page).await {
            PageSearch::Found(record) => Some(record),
            PageSearch::Fetch(_) => None,
        }
    }

    /// The token is free, once the node is connected.
    async fn token(&self, page: PageName<'_>) -> FetchToken {
        for _ in 0..1000 {
            if let PageSearch::Fetch(Some(token)) = self.find(page).await {
                return token;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("no token")
    }

    /// Stores a page; it is in the engine when this returns.
    async fn store(
        &self,
        page: PageName<'_>,
        point: BornPoint,
        body: &[u8],
        token: Option<FetchToken>,
    ) {
        let began = Instant::now();
        // Nothing is stored before a look has succeeded again.
        while self.status().is_paused {
            assert!(began.elapsed() < PATIENCE, "{:?}", self.status());
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
            assert!(began.elapsed() < PATIENCE, "{:?}", self.status());
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Fetches a page for all nodes, unless it is there.
    async fn share(&self, page: PageName<'_>, body: &[u8]) {
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

    /// A publisher that is not connected yet notes no point.
    async fn find_soon(&self, page: PageName<'_>) -> Vec<u8> {
        for _ in 0..1000 {
            if let Some(record) = self.found(page).await {
                return record;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("no page")
    }

    async fn purge(&self, tag: &str) -> PurgeReach {
        let purge = Purge {
            scope: Scope::Tag(tag.to_owned()),
            strength: Strength::Hard,
        };
        let begun = self.publisher.begin();
        self.sink.0.lock().unwrap().add(purge.scope.clone());
        let pending = self.publisher.publish("a.test", &purge, begun);
        pending.reach().await
    }

    /// A publisher that has just started does not believe yet that a key is absent.
    async fn purge_until_final(&self, tag: &str) {
        while self.purge(tag).await != PurgeReach::Cluster {}
    }

    fn status(&self) -> PagesStatus {
        self.publisher.status().pages.unwrap()
    }
}

/// Two nodes with one key.
struct Pair {
    redis: Redis,
    scratch: Scratch,
    one: Node,
    other: Node,
}

impl Pair {
    fn start() -> Self {
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

    /// The keys of pages in the engine.
    fn keys(&self) -> Vec<String> {
        let keys = self.redis.run(&["KEYS", "galley:test:page:*"]).unwrap();
        keys.lines().map(str::to_owned).collect()
    }
}

fn key_file(scratch: &Scratch, name: &str, letter: char) -> std::path::PathBuf {
    let file = scratch.join(name);
    std::fs::write(&file, letter.to_string().repeat(64)).unwrap();
    file
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(work)
}

const TAG: &str = "p1";
const PAGE: PageName<'_> = PageName {
    site: "a.test",
    key: b"/page",
};
const OTHER: PageName<'_> = PageName {
    site: "a.test",
    key: b"/other",
};
const OTHER_SITE: PageName<'_> = PageName {
    site: "b.test",
    key: b"/page",
};
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn a_page_of_one_node_is_found_by_the_other_until_it_is_purged() {
    let pair = Pair::start();
    block_on(async {
        pair.one.share(PAGE, b"first").await;
        assert_eq!(pair.other.find_soon(PAGE).await, b"first");
        pair.one.purge_until_final("another").await;
        assert_eq!(pair.other.found(PAGE).await.unwrap(), b"first");
        for (purging, reading) in [(&pair.other, &pair.one), (&pair.one, &pair.other)] {
            purging.purge_until_final(TAG).await;
            for node in [purging, reading] {
                assert_eq!(node.found(PAGE).await, None);
            }
            // It is replaced, as soon as the fetching node has read its purge in the stream.
            while reading.found(PAGE).await.is_none() {
                purging.share(PAGE, b"next").await;
            }
        }
        assert!(pair.one.status().refused > 0);
    });
}

#[test]
fn a_page_from_before_a_purge_is_never_accepted_however_late_it_is_stored() {
    let pair = Pair::start();
    block_on(async {
        for round in 0..20 {
            let (fetching, purging) = if round % 2 == 0 {
                (&pair.one, &pair.other)
            } else {
                (&pair.other, &pair.one)
            };
            // The request is sent, the purge comes, the page is stored.
            let token = fetching.token(PAGE).await;
            let point = fetching.point();
            purging.purge_until_final(TAG).await;
            fetching.store(PAGE, point, b"old", Some(token)).await;
            for node in [fetching, purging] {
                assert_eq!(node.found(PAGE).await, None, "round {round}");
            }
        }
    });
}

#[test]
fn a_purge_between_the_read_and_the_comparison_counts() {
    let pair = Pair::start();
    block_on(async {
        pair.one.share(PAGE, b"page").await;
        pair.other.find_soon(PAGE).await;
        let mut is_read = false;
        while !is_read {
            let search = pair.other.pages.find(PAGE, SharedPatience::Waits, |found| {
                // The page has been read, and a purge of the other node is applied.
                let mut table = pair.other.sink.0.lock().unwrap();
                assert!(table.accepts(TAG, found.points));
                table.add(Scope::Tag(TAG.to_owned()));
                is_read = true;
                table.accepts(TAG, found.points).then_some(())
            });
            assert!(matches!(search.await, PageSearch::Fetch(_)));
        }
    });
}

#[test]
fn what_no_node_has_stored_under_a_name_is_not_used() {
    let pair = Pair::start();
    block_on(async {
        pair.one.share(PAGE, b"first").await;
        assert_eq!(pair.other.find_soon(PAGE).await, b"first");
        let [page] = pair.keys().try_into().unwrap();
        pair.one.share(OTHER, b"second").await;
        let other = pair.keys().into_iter().find(|key| *key != page).unwrap();
        // A valid value under another name.
        let copy = ["COPY", page.as_str(), other.as_str(), "REPLACE"];
        pair.redis.run(&copy).unwrap();
        assert_eq!(pair.other.found(OTHER).await, None);
        assert!(pair.other.status().foreign > 0);
        assert_eq!(pair.other.found(PAGE).await.unwrap(), b"first");
        // A changed byte, a longer value, a value without an expiry, none at all.
        for change in [
            ["SETRANGE", page.as_str(), "40", "x"].as_slice(),
            &["APPEND", page.as_str(), "x"],
        ] {
            pair.one.share(PAGE, b"first").await;
            pair.redis.run(change).unwrap();
            let before = pair.other.status().foreign;
            assert_eq!(pair.other.found(PAGE).await, None);
            assert!(pair.other.status().foreign > before);
        }
        pair.redis.run(&["SET", &page, ""]).unwrap();
        assert_eq!(pair.other.found(PAGE).await, None);
        // Another secret.
        let file = key_file(&pair.scratch, "another", 'b');
        let stranger = Node::start(&pair.redis, "stranger", &file);
        let token = stranger.token(PAGE).await;
        let point = stranger.point();
        stranger.store(PAGE, point, b"x", Some(token)).await;
        pair.one.share(PAGE, b"again").await;
        assert_eq!(pair.other.found(PAGE).await.unwrap(), b"again");
    });
}

#[test]
fn one_node_fetches_and_the_others_wait_for_it() {
    let pair = Pair::start();
    block_on(async {
        pair.one.share(OTHER_SITE, b"x").await;
        pair.other.find_soon(OTHER_SITE).await;
        let token = pair.one.token(PAGE).await;
        let point = pair.one.point();
        let (found, ()) = tokio::join!(pair.other.found(PAGE), async {
            tokio::time::sleep(Duration::from_millis(200)).await;
            pair.one.store(PAGE, point, b"page", Some(token)).await;
        });
        assert_eq!(found.unwrap(), b"page");
        // A node that fails gives the token back.
        drop(pair.one.token(OTHER).await);
        let search = pair.other.find(OTHER).await;
        assert!(matches!(search, PageSearch::Fetch(Some(_))));
        drop(search);
        // One that dies does not: the others wait for a while, and for its page only until the token expires.
        let token = pair.one.token(OTHER).await;
        std::mem::forget(token);
        let began = Instant::now();
        assert!(matches!(
            pair.other.find_once(OTHER).await,
            PageSearch::Fetch(None)
        ));
        assert!(began.elapsed() < Duration::from_secs(2));
        drop(pair.other.token(OTHER).await);
        assert!(began.elapsed() > Duration::from_secs(5));
    });
}

#[test]
fn an_engine_that_does_not_reply_costs_no_more_than_the_deadline() {
    let pair = Pair::start();
    block_on(async {
        pair.one.share(PAGE, b"page").await;
        assert_eq!(pair.other.find_soon(PAGE).await, b"page");
        pair.redis.signal(Signal::STOP);
        let began = Instant::now();
        for _ in 0..100 {
            assert!(matches!(
                pair.other.find_once(PAGE).await,
                PageSearch::Fetch(None)
            ));
        }
        let took = began.elapsed();
        let status = pair.other.status();
        assert!(status.is_paused && status.timeouts >= 3, "{status:?}");
        // Three deadlines of 5 ms; more is what else the machine does.
        assert!(took < Duration::from_millis(250), "{took:?}");
        pair.redis.signal(Signal::CONT);
        assert_eq!(pair.other.find_soon(PAGE).await, b"page");
        assert!(!pair.other.status().is_paused);
    });
}

#[test]
fn after_a_loss_of_data_pages_of_before_are_not_used() {
    let pair = Pair::start();
    block_on(async {
        pair.one.share(PAGE, b"old").await;
        assert_eq!(pair.other.find_soon(PAGE).await, b"old");
        let [page] = pair.keys().try_into().unwrap();
        // As after a failover that loses the stream and keeps the page.
        let backup = ["RENAME", page.as_str(), "kept"];
        pair.redis.run(&backup).unwrap();
        pair.redis
            .run(&["EVAL", LOSE_ALL_BUT_THE_PAGE, "2", "kept", &page])
            .unwrap();
        wait_for("the loss to be noticed", PATIENCE, || {
            [&pair.one, &pair.other]
                .iter()
                .all(|node| node.publisher.status().gaps > 0 && node.now().is_some())
        });
        assert_eq!(pair.other.found(PAGE).await, None);
        assert!(pair.other.status().refused > 0);
        let next = loop {
            pair.one.share(PAGE, b"new").await;
            if let Some(next) = pair.other.found(PAGE).await {
                break next;
            }
        };
        assert_eq!(next, b"new");
    });
}

#[test]
fn a_stream_that_somebody_deletes_makes_no_old_page_usable() {
    let pair = Pair::start();
    block_on(async {
        // A page from before a purge, stored late.
        let token = pair.one.token(PAGE).await;
        let point = pair.one.point();
        pair.other.purge_until_final(TAG).await;
        pair.redis.run(&["DEL", "galley:test:purges"]).unwrap();
        pair.one.store(PAGE, point, b"old", Some(token)).await;
        wait_for("the loss to be noticed", PATIENCE, || {
            [&pair.one, &pair.other]
                .iter()
                .all(|node| node.publisher.status().gaps > 0 && node.now().is_some())
        });
        let file = pair.scratch.join("key");
        let fresh = Node::start(&pair.redis, "fresh", &file);
        for node in [&pair.one, &pair.other, &fresh] {
            assert_eq!(node.found(PAGE).await, None);
        }
        let next = loop {
            pair.one.share(PAGE, b"new").await;
            if let Some(next) = fresh.found(PAGE).await {
                break next;
            }
        };
        assert_eq!(next, b"new");
    });
}

const LOSE_ALL_BUT_THE_PAGE: &str = "\
local page, left = redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1])
redis.call('FLUSHALL')
redis.call('SET', KEYS[2], page, 'PX', left)";

#[test]
fn a_node_that_starts_uses_older_pages_that_no_purge_came_after() {
    let pair = Pair::start();
    let key = pair.scratch.join("key");
    block_on(async {
        pair.one.share(PAGE, b"page").await;
        for purged in ["another", "a third"] {
            pair.other.purge_until_final(purged).await;
        }
        let fresh = Node::start(&pair.redis, "fresh", &key);
        assert_eq!(fresh.find_soon(PAGE).await, b"page");
        pair.one.purge_until_final(TAG).await;
        assert_eq!(fresh.found(PAGE).await, None);
        let fresh = Node::start(&pair.redis, "fresher", &key);
        // It accepts what was shared after the purge, so what it knows has been noted.
        fresh.share(OTHER, b"other").await;
        pair.one.find_soon(OTHER).await;
        pair.one.purge_until_final("another").await;
        assert_eq!(fresh.find_soon(OTHER).await, b"other");
        assert_eq!(fresh.found(PAGE).await, None);
        // Purges that it had from an earlier run may be anywhere.
        let table = Table {
            has_earlier_purges: true,
            ..Table::default()
        };
        let sink = Sink(Arc::new(Mutex::new(table)));
        let aged = Node::start_with(&pair.redis, "aged", &key, None, sink);
        aged.share(OTHER_SITE, b"x").await;
        assert_eq!(aged.found(OTHER).await, None);
    });
}

#[test]
fn a_node_that_starts_again_uses_pages_that_were_shared_while_it_was_away() {
    let pair = Pair::start();
    let key = pair.scratch.join("key");
    let start =
        |folder: &Path| Node::start_with(&pair.redis, "third", &key, Some(folder), Sink::default());
    let [folder, later] = ["position", "later"].map(|name| pair.scratch.dir(name).unwrap());
    block_on(async {
        pair.one.share(OTHER, b"before").await;
        let third = start(&folder);
        pair.other.purge_until_final("another").await;
        let file = folder.join("cluster-position");
        wait_for("the position to be written", PATIENCE, || file.exists());
        drop(third);
        // Unlike a process that ends, a node that is dropped waits for one more entry, and notes that.
        fs::copy(&file, later.join("cluster-position")).unwrap();
        pair.one.share(PAGE, b"page").await;
        pair.other.purge_until_final("another").await;
        let third = start(&later);
        assert_eq!(third.find_soon(PAGE).await, b"page");
        pair.one.purge_until_final(TAG).await;
        drop(third);
        let third = start(&later);
        third.share(OTHER_SITE, b"x").await;
        for page in [PAGE, OTHER] {
            assert_eq!(third.found(page).await, None);
        }
    });
}

#[test]
fn large_and_short_lived_pages_are_not_shared() {
    let pair = Pair::start();
    let point = pair.one.point();
    let page = |bytes, fresh| PageToShare {
        name: PAGE,
        points: vec![point.clone()],
        bytes,
        fresh,
        record: Box::new(|| Some(Vec::new())),
    };
    let minute = Duration::from_secs(60);
    assert!(!pair.one.pages.store(page((1 << 20) + 1, minute), None));
    assert!(
        !pair
            .one
            .pages
            .store(page(1, Duration::from_millis(999)), None)
    );
    assert!(pair.one.pages.store(page(1 << 20, minute), None));
}
