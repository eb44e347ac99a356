//! Galley without a preset in front of a scripted origin.

use std::path::Path;
use std::time::Duration;

use galley_testkit::client::{Request, Response};
use galley_testkit::origin::{Origin, ReceivedRequest, ResponseWriter};
use galley_testkit::{Galley, Scratch, wait_for};

/// A running pair. The server ends first.
pub struct Stage {
    galley: Galley,
    pub origin: Origin,
    _scratch: Scratch,
}

impl Stage {
    /// The origin answers by `script`.
    pub fn new(
        script: impl Fn(&ReceivedRequest, &mut ResponseWriter<'_>) + Send + Sync + 'static,
    ) -> Self {
        Self::with("", script)
    }

    /// The same, with further lines of the site.
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

    /// An origin whose every answer has these fields and the request's number as its body.
    pub fn constant(fields: &'static [(&'static str, &'static str)]) -> Self {
        Self::new(move |seen, writer| {
            writer.answer(200, fields, seen.number.to_string().as_bytes());
        })
    }

    pub fn ask(&self, request: &Request) -> Response {
        request.send(self.galley.addr()).unwrap()
    }

    pub fn get(&self, target: &str) -> Response {
        self.ask(&Request::get(target))
    }

    pub fn status(&self, request: &Request) -> u16 {
        self.ask(request).status
    }

    /// Whether a request is answered without the origin: from the store, or from a fill that is just ending.
    pub fn reuses(&self, request: &Request) -> bool {
        let before = self.origin.requests().len();
        self.ask(request);
        self.origin.requests().len() == before
    }

    /// Asks for a page and waits until it is stored: its last byte may leave a moment earlier.
    pub fn fill(&self, target: &str) -> Response {
        let answer = self.get(target);
        let stored = Request::get(target).field("Cache-Control", "only-if-cached, max-stale");
        wait_for("the page to be stored", TIMEOUT, || {
            self.status(&stored) == 200
        });
        answer
    }

    pub fn addr(&self) -> std::net::SocketAddr {
        self.galley.addr()
    }

    /// The last request that the origin saw.
    pub fn last(&self) -> ReceivedRequest {
        self.origin.requests().pop().unwrap()
    }
}

/// For everything that must happen but may take a while on a busy machine.
pub const TIMEOUT: Duration = Duration::from_secs(60);
