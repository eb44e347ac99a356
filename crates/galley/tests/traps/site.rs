//! The test environment: a site without a preset in front of a scripted origin.

use std::path::Path;
use std::time::Duration;

use galley_testkit::client::{Request, Response};
use galley_testkit::origin::{Origin, ReceivedRequest, ResponseWriter};
use galley_testkit::{Galley, Scratch, wait_for};

/// A running server and its origin. Field order matters: the server stops first.
pub struct TestSite {
    galley: Galley,
    pub origin: Origin,
    _scratch: Scratch,
}

impl TestSite {
    /// Starts with an origin that responds as `script` does.
    pub fn new(
        script: impl Fn(&ReceivedRequest, &mut ResponseWriter<'_>) + Send + Sync + 'static,
    ) -> Self {
        Self::with("", script)
    }

    /// Starts with additional lines in `[[site]]`.
    pub fn with(
        lines: &str,
        script: impl Fn(&ReceivedRequest, &mut ResponseWriter<'_>) + Send + Sync + 'static,
    ) -> Self {
        let scratch = Scratch::new().unwrap();
        let origin = Origin::start(script).unwrap();
        let config = format!(
            "[server]\nlisten = [\"127.0.0.1:0\"]\n[admin]\nlisten = \"unix:{}/admin.sock\"\n[log]\naccess = \"off\"\n\
             [[site]]\nhosts = [\"*\"]\npreset = \"none\"\nupstream = [\"{}\"]\n{lines}\n",
            scratch.path().display(),
            origin.url(),
        );
        let binary = Path::new(env!("CARGO_BIN_EXE_galley"));
        let galley = Galley::start_binary(binary, &scratch.join("galley"), &config).unwrap();
        Self {
            galley,
            origin,
            _scratch: scratch,
        }
    }

    /// Starts with an origin whose responses have these fields and the number of the request as body.
    pub fn constant(fields: &'static [(&'static str, &'static str)]) -> Self {
        Self::new(move |request, writer| {
            writer.respond(200, fields, request.number.to_string().as_bytes());
        })
    }

    pub fn send(&self, request: &Request) -> Response {
        request.send(self.galley.addr()).unwrap()
    }

    pub fn get(&self, target: &str) -> Response {
        self.send(&Request::get(target))
    }

    pub fn status(&self, request: &Request) -> u16 {
        self.send(request).status
    }

    /// Sends a request and returns whether the response came without a request to the origin: from the cache or a fetch in progress.
    pub fn reuses(&self, request: &Request) -> bool {
        let before = self.origin.requests().len();
        self.send(request);
        self.origin.requests().len() == before
    }

    /// Requests a page and waits until it is stored, which may be shortly after its last byte was sent.
    pub fn fill(&self, target: &str) -> Response {
        let response = self.get(target);
        let stored = Request::get(target).field("Cache-Control", "only-if-cached, max-stale");
        wait_for("the page to be stored", TIMEOUT, || {
            self.status(&stored) == 200
        });
        response
    }

    pub fn addr(&self) -> std::net::SocketAddr {
        self.galley.addr()
    }

    /// The last request that the origin received.
    pub fn last_request(&self) -> ReceivedRequest {
        self.origin.requests().pop().unwrap()
    }
}

/// Limit for every wait, for busy machines.
pub const TIMEOUT: Duration = Duration::from_secs(60);
