//! How often a proven crawler may request a page of a site that has to be generated.
//!
//! The option `crawl_delay` decides, otherwise the `robots.txt` below the site's root. That file is read when a crawler comes
//! and the last check is a minute old, on a helper thread; until then, what was read before applies.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use galley_certs::file;
use galley_policy::crawlers::{CrawlDelays, MAX_ROBOTS_BYTES};
use galley_policy::time::Tick;
use tokio::task::spawn_blocking;

/// The pace of crawlers on one site.
pub struct CrawlPace {
    source: DelaySource,
}

enum DelaySource {
    /// The same for every crawler; `None`: as they like.
    Fixed(Option<Duration>),
    File(Arc<RobotsFile>),
}

struct RobotsFile {
    path: PathBuf,
    delays: ArcSwap<CrawlDelays>,
    /// When the next check is due, in milliseconds.
    due: AtomicU64,
}

impl CrawlPace {
    /// The same pace for every crawler; `None`: no limit.
    pub fn fixed(delay: Option<Duration>) -> Self {
        Self {
            source: DelaySource::Fixed(delay),
        }
    }

    /// The pace that the `robots.txt` in a folder sets. Reads nothing yet.
    pub fn of_folder(root: &Path) -> Self {
        Self {
            source: DelaySource::File(Arc::new(RobotsFile {
                path: root.join("robots.txt"),
                delays: ArcSwap::default(),
                due: AtomicU64::new(0),
            })),
        }
    }

    /// The time between two pages for a crawler. Must be called within a runtime.
    pub fn delay_of(&self, crawler: &str, now: Tick) -> Option<Duration> {
        let file = match &self.source {
            DelaySource::Fixed(delay) => return *delay,
            DelaySource::File(file) => file,
        };
        let due = file.due.load(Ordering::Relaxed);
        let next = now.0.saturating_add(CHECK_MS);
        // One of the threads that notice it reads the file.
        let order = Ordering::Relaxed;
        if due <= now.0 && file.due.compare_exchange(due, next, order, order).is_ok() {
            let file = Arc::clone(file);
            spawn_blocking(move || file.read());
        }
        file.delays.load().of(crawler)
    }
}

impl RobotsFile {
    /// A file that cannot be read sets no delays, as one that does not exist.
    fn read(&self) {
        let delays = match file::read_text(&self.path, MAX_ROBOTS_BYTES) {
            Ok(text) => CrawlDelays::parse(&text),
            Err(unread) => {
                if !unread.is_missing() {
                    tracing::warn!(
                        "cannot read `Crawl-delay` from `{}`, {unread}; crawlers are not paced",
                        self.path.display()
                    );
                }
                CrawlDelays::default()
            }
        };
        self.delays.store(Arc::new(delays));
    }
}

const CHECK_MS: u64 = 60_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_file_is_read_again_after_a_minute() {
        let dir = tempfile::tempdir().unwrap();
        let robots = dir.path().join("robots.txt");
        let pace = CrawlPace::of_folder(dir.path());
        let soon = async |now: u64, wanted: Option<u64>| {
            for _ in 0..1_000 {
                let delay = pace.delay_of("bingbot", Tick(now));
                if delay.map(|delay| delay.as_secs()) == wanted {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            panic!("{wanted:?} never became the delay at {now}");
        };
        std::fs::write(&robots, "User-agent: *\nCrawl-delay: 7\n").unwrap();
        soon(1, Some(7)).await;
        std::fs::write(&robots, "User-agent: *\nCrawl-delay: 9\n").unwrap();
        soon(CHECK_MS, Some(7)).await;
        soon(2 * CHECK_MS, Some(9)).await;
        std::fs::remove_file(&robots).unwrap();
        soon(4 * CHECK_MS, None).await;
        let fixed = CrawlPace::fixed(Some(Duration::from_secs(3)));
        assert_eq!(fixed.delay_of("a", Tick(0)), Some(Duration::from_secs(3)));
    }
}
