//! Sends requests and checks responses.

use std::sync::Barrier;

use galley_testkit::client::{Request, Response};

use super::builder::HOST;

/// Adds the `Host` of the test site unless the request has one.
pub fn with_host(request: Request) -> Request {
    if request
        .fields
        .iter()
        .any(|(name, _)| name.eq_ignore_ascii_case("host"))
    {
        request
    } else {
        request.host(HOST)
    }
}

/// Checks the status of a response that the test does not use afterwards.
pub trait AssertStatus {
    /// Panics with the response if its status differs.
    fn assert_status(&self, status: u16);
}

impl AssertStatus for Response {
    #[track_caller]
    fn assert_status(&self, status: u16) {
        assert!(
            self.status == status,
            "expected status {status}, got:\n{}",
            self.excerpt()
        );
    }
}

/// Runs `work` on `count` threads that start together and returns the results in order of the index.
pub fn run_concurrently<T: Send>(count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let barrier = Barrier::new(count);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..count)
            .map(|index| {
                let (barrier, work) = (&barrier, &work);
                scope.spawn(move || {
                    barrier.wait();
                    work(index)
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    })
}
