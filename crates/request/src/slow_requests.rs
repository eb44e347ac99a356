//! The slowest requests of a site that waited for its upstream within the last hour: the first thing to look at when PHP is
//! busy.
//!
//! The list is bounded and contains each target once. Values of a query may be secrets (keys of password resets, tokens),
//! so only names are stored. A request below [`MIN_DURATION`] costs one comparison; slower requests have waited for so long that a short
//! lock does not matter.

use std::cmp::Reverse;
use std::time::Duration;

use galley_policy::time::Tick;
use galley_sys::Lock;

/// The slow requests of one site.
#[derive(Debug, Default)]
pub struct SlowRequests(Lock<Vec<SlowRequest>>);

/// A slow target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowRequest {
    /// The method.
    pub method: String,
    /// The path and the names of the query's parameters, raw and at most `MAX_PATH_BYTES` bytes.
    pub target: Vec<u8>,
    /// The longest time until the upstream's head.
    pub took: Duration,
    /// When the target was last slow.
    pub last: Tick,
    /// How often it was slow.
    pub count: u64,
}

impl SlowRequests {
    /// Records the time that the upstream took until its head.
    pub fn note(&self, method: &str, target: &[u8], took: Duration, now: Tick) {
        if took < MIN_DURATION {
            return;
        }
        let target = shown(target);
        let mut requests = self.0.lock();
        requests.retain(|one| now.since(one.last) < KEPT);
        if let Some(known) = requests
            .iter_mut()
            .find(|one| one.target == target && one.method == method)
        {
            known.took = known.took.max(took);
            known.last = now;
            known.count = known.count.saturating_add(1);
            return;
        }
        if requests.len() >= MAX_REQUESTS {
            let fastest =
                (0..requests.len()).min_by_key(|at| requests.get(*at).map(|one| one.took));
            match fastest.and_then(|at| requests.get(at).map(|one| (at, one.took))) {
                Some((at, least)) if least < took => drop(requests.swap_remove(at)),
                _ => return,
            }
        }
        requests.push(SlowRequest {
            method: method.to_owned(),
            target,
            took,
            last: now,
            count: 1,
        });
    }

    /// The targets of the last hour, slowest first.
    pub fn list(&self, now: Tick) -> Vec<SlowRequest> {
        let mut requests = self.0.lock().clone();
        requests.retain(|one| now.since(one.last) < KEPT);
        requests.sort_by_key(|one| Reverse(one.took));
        requests
    }
}

/// A target without the values of its query.
fn shown(target: &[u8]) -> Vec<u8> {
    let query = target.iter().position(|byte| *byte == b'?');
    let (path, query) = target.split_at(query.unwrap_or(target.len()));
    let mut shown = path.to_vec();
    let mut separator = b'?';
    for pair in query.get(1..).unwrap_or_default().split(|b| *b == b'&') {
        let name = pair.split(|byte| *byte == b'=').next().unwrap_or_default();
        if !name.is_empty() {
            shown.push(separator);
            shown.extend_from_slice(name);
            separator = b'&';
        }
    }
    shown.truncate(MAX_PATH_BYTES);
    shown
}

/// Minimum time of a slow request: most pages of WordPress take less.
const MIN_DURATION: Duration = Duration::from_millis(500);

/// How long a target is listed after it was last slow.
const KEPT: Duration = Duration::from_secs(3600);

/// Maximum number of targets per site.
const MAX_REQUESTS: usize = 20;

/// Maximum length of a target in bytes.
pub const MAX_PATH_BYTES: usize = 300;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Tick {
        Tick(0).plus(Duration::from_secs(seconds))
    }

    fn names(all: &SlowRequests, now: Tick) -> Vec<String> {
        let text = |one: SlowRequest| String::from_utf8(one.target).unwrap();
        all.list(now).into_iter().map(text).collect()
    }

    #[test]
    fn the_slowest_of_the_last_hour_are_kept() {
        let all = SlowRequests::default();
        all.note("GET", b"/fast/", Duration::from_millis(499), at(0));
        for second in 0..100 {
            let target = format!("/{second}/");
            all.note(
                "GET",
                target.as_bytes(),
                Duration::from_secs(1 + second),
                at(0),
            );
        }
        let found = names(&all, at(0));
        assert_eq!(found.len(), MAX_REQUESTS);
        assert_eq!(
            (found[0].as_str(), found[MAX_REQUESTS - 1].as_str()),
            ("/99/", "/80/")
        );
        all.note("GET", b"/0/", Duration::from_secs(1), at(1));
        assert_eq!(names(&all, at(1)), found, "faster than all of them");
        all.note("GET", b"/99/", Duration::from_secs(2), at(3000));
        all.note("POST", b"/99/", Duration::from_secs(1000), at(3000));
        let again = all.list(at(3599));
        assert_eq!((again[0].method.as_str(), again[0].count), ("POST", 1));
        assert_eq!(
            (again[1].count, again[1].took),
            (2, Duration::from_secs(100))
        );
        assert_eq!(names(&all, at(3600)), ["/99/", "/99/"]);
        all.note("GET", b"/new/", Duration::from_secs(1), at(3600));
        assert_eq!(names(&all, at(3600)), ["/99/", "/99/", "/new/"]);
    }

    #[test]
    fn values_of_a_query_are_not_kept() {
        for (target, expected) in [
            ("/", "/"),
            ("/?", "/"),
            ("/a/?s=secret&orderby=x", "/a/?s&orderby"),
            ("/?key=abc=def", "/?key"),
            ("/?=secret&b=1", "/?b"),
            ("/?&&", "/"),
        ] {
            assert_eq!(shown(target.as_bytes()), expected.as_bytes(), "{target}");
        }
        assert_eq!(shown(&[b'a'; 5000]).len(), MAX_PATH_BYTES);
    }
}
