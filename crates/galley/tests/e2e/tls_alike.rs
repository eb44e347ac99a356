//! What is asked over TLS is answered as in plain, byte for byte, with the fast path and without it.

use std::sync::Arc;

use galley_testkit::origin::Origin;
use galley_testkit::wait_for;
use rustls::ClientConfig;

use crate::fast_path::{FIELDS, ODD, PATHS, Random, comparable, origin, request};
use crate::support::{SiteBuilder, TIMEOUT, TestSite};
use crate::tls_support::{Authority, Tls, over_tls, tls_addr};

struct All {
    plain: TestSite,
    secure: [TestSite; 2],
    client: Arc<ClientConfig>,
    _origin: Origin,
}

impl All {
    fn start() -> Self {
        let (origin, authority) = (origin(), Authority::new());
        let plan = |server: &str| {
            SiteBuilder::upstream_line(&format!("upstream = [\"{}\"]", origin.url()))
                .server(server)
                // Codings come when they come; all have to have the same ones.
                .site("compress = [\"gzip\"]\ncompress_passed = false\ndense_after = 0")
        };
        let lifetimes = "[site.ttl]\ndefault = \"1h\"\n\"404\" = \"1h\"";
        let secure = |server| over_tls(plan(server), &authority).more(lifetimes).start();
        let all = Self {
            plain: plan("fast_path = true").more(lifetimes).start(),
            secure: [secure("fast_path = true"), secure("fast_path = false")],
            client: authority.client(),
            _origin: origin,
        };
        for path in PATHS {
            for accept in ["Accept: text/html", "Accept: application/json"] {
                all.warm(path, accept);
            }
        }
        all
    }

    /// Until the page is kept, and coded if it ever will be.
    fn warm(&self, path: &str, accept: &str) {
        let is_ready = |answer: &str| {
            let is_hit = answer.contains("cache-status: galley; hit");
            !is_hit || answer.contains("content-encoding: gzip") || path == "/moved"
        };
        let gzip = [accept, "Accept-Encoding: gzip", "Connection: close"];
        let bytes = request("GET", path, &gzip);
        self.plain.send_raw(&bytes);
        wait_for("the page to be coded", TIMEOUT, || {
            is_ready(&String::from_utf8_lossy(&self.plain.send_raw(&bytes)))
        });
        for site in &self.secure {
            self.over_tls(site, &bytes);
            wait_for("the page to be coded", TIMEOUT, || {
                is_ready(&String::from_utf8_lossy(&self.over_tls(site, &bytes)))
            });
        }
    }

    fn over_tls(&self, site: &TestSite, bytes: &[u8]) -> Vec<u8> {
        let mut tls = Tls::connect(&self.client, "example.test", tls_addr(site)).unwrap();
        tls.send(bytes);
        tls.rest()
    }

    /// Compares what all answer: once where the heads are new, once where the fast path takes them in, and once where it knows them.
    fn agree_on(&self, bytes: &[u8]) {
        for _ in 0..3 {
            let plain = comparable(&self.plain.send_raw(bytes));
            assert!(!plain.is_empty(), "{}", bytes.escape_ascii());
            for site in &self.secure {
                let secure = comparable(&self.over_tls(site, bytes));
                assert!(
                    plain == secure,
                    "{}\n--- in plain:\n{plain}\n--- over TLS:\n{secure}",
                    bytes.escape_ascii()
                );
            }
        }
    }
}

#[test]
fn requests_of_every_kind_are_answered_over_tls_as_in_plain() {
    let all = All::start();
    for path in PATHS {
        all.agree_on(&request("GET", path, &["Connection: close"]));
        all.agree_on(&request("HEAD", path, &["Connection: close"]));
    }
    for field in FIELDS {
        // A host of another scheme is another origin, so that the same word means something else over TLS.
        all.agree_on(&request("GET", "/tagged", &[field, "Connection: close"]));
    }
    for bytes in ODD {
        // What names no host, or another one, is asked over a connection that was made for a host.
        let names_host = bytes.windows(19).any(|at| at == b"\r\nHost: example.test");
        if names_host {
            all.agree_on(bytes);
        }
    }
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    for _ in 0..30 {
        let mut bytes = Vec::new();
        for _ in 0..=random.below(5) {
            let fields = [FIELDS[random.below(FIELDS.len())]];
            let ends = ["Transfer", "Content", "Expect"];
            let fields: &[&str] = if ends.iter().any(|one| fields[0].starts_with(one)) {
                &[]
            } else {
                &fields
            };
            bytes.extend(request("GET", PATHS[random.below(PATHS.len())], fields));
        }
        bytes.extend(request("GET", "/tagged", &["Connection: close"]));
        all.agree_on(&bytes);
    }
}
