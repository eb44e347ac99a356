//! Requests over TLS get the same bytes as without TLS, with and without the fast path.

use std::sync::Arc;

use galley_testkit::origin::Origin;
use galley_testkit::wait_for;
use rustls::ClientConfig;

use crate::fast_path::{FIELDS, ODD, PATHS, Random, comparable, origin, request};
use crate::support::{SiteBuilder, TIMEOUT, TestSite};
use crate::tls_support::{Authority, Tls, over_tls, tls_addr};

struct PlainAndTlsSites {
    plain_site: TestSite,
    tls_sites: [TestSite; 2],
    client: Arc<ClientConfig>,
    _origin: Origin,
}

impl PlainAndTlsSites {
    fn start() -> Self {
        let (origin, authority) = (origin(), Authority::new());
        let builder = |server: &str| {
            SiteBuilder::upstream_line(&format!("upstream = [\"{}\"]", origin.url()))
                .server(server)
                // Compression runs in the background. For the comparison all sites must have the same codings. And only sites over TLS
                // have `Alt-Svc`.
                .site("compress = [\"gzip\"]\ncompress_passed = false\ndense_after = 0\nhttp3 = false")
        };
        let lifetimes = "[site.ttl]\ndefault = \"1h\"\n\"404\" = \"1h\"";
        let tls_site = |server| {
            over_tls(builder(server), &authority)
                .more(lifetimes)
                .start()
        };
        let sites = Self {
            plain_site: builder("fast_path = true").more(lifetimes).start(),
            tls_sites: [tls_site("fast_path = true"), tls_site("fast_path = false")],
            client: authority.client(),
            _origin: origin,
        };
        for path in PATHS {
            for accept in ["Accept: text/html", "Accept: application/json"] {
                sites.wait_until_stored(path, accept);
            }
        }
        sites
    }

    /// Waits until the page is stored, and compressed if it is compressible.
    fn wait_until_stored(&self, path: &str, accept: &str) {
        let is_ready = |response: &str| {
            let is_hit = response.contains("cache-status: galley; hit");
            !is_hit || response.contains("content-encoding: gzip") || path == "/moved"
        };
        let gzip = [accept, "Accept-Encoding: gzip", "Connection: close"];
        let bytes = request("GET", path, &gzip);
        self.plain_site.send_raw(&bytes);
        wait_for("the page to be compressed", TIMEOUT, || {
            is_ready(&String::from_utf8_lossy(&self.plain_site.send_raw(&bytes)))
        });
        for site in &self.tls_sites {
            self.send_over_tls(site, &bytes);
            wait_for("the page to be compressed", TIMEOUT, || {
                is_ready(&String::from_utf8_lossy(&self.send_over_tls(site, &bytes)))
            });
        }
    }

    fn send_over_tls(&self, site: &TestSite, bytes: &[u8]) -> Vec<u8> {
        let mut tls = Tls::connect(&self.client, "example.test", tls_addr(site)).unwrap();
        tls.send(bytes);
        tls.rest()
    }

    /// Compares the responses of all sites three times: the head cache does not know the head, stores it, and uses it.
    fn assert_same_responses(&self, bytes: &[u8]) {
        for _ in 0..3 {
            let without_tls = comparable(&self.plain_site.send_raw(bytes));
            assert!(!without_tls.is_empty(), "{}", bytes.escape_ascii());
            for site in &self.tls_sites {
                let over_tls = comparable(&self.send_over_tls(site, bytes));
                assert!(
                    without_tls == over_tls,
                    "{}\n--- without TLS:\n{without_tls}\n--- over TLS:\n{over_tls}",
                    bytes.escape_ascii()
                );
            }
        }
    }
}

#[test]
fn responses_over_tls_equal_those_without_tls() {
    let sites = PlainAndTlsSites::start();
    for path in PATHS {
        sites.assert_same_responses(&request("GET", path, &["Connection: close"]));
        sites.assert_same_responses(&request("HEAD", path, &["Connection: close"]));
    }
    for field in FIELDS {
        // With another scheme a host is another origin, so a field can have another meaning over TLS.
        sites.assert_same_responses(&request("GET", "/tagged", &[field, "Connection: close"]));
    }
    for bytes in ODD {
        // A TLS connection is for one host: requests without a host or with another one get another response.
        let names_host = bytes
            .windows(19)
            .any(|window| window == b"\r\nHost: example.test");
        if names_host {
            sites.assert_same_responses(bytes);
        }
    }
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    for _ in 0..30 {
        let mut bytes = Vec::new();
        for _ in 0..=random.below(5) {
            let fields = [FIELDS[random.below(FIELDS.len())]];
            let closing = ["Transfer", "Content", "Expect"];
            let fields: &[&str] = if closing.iter().any(|start| fields[0].starts_with(start)) {
                &[]
            } else {
                &fields
            };
            bytes.extend(request("GET", PATHS[random.below(PATHS.len())], fields));
        }
        bytes.extend(request("GET", "/tagged", &["Connection: close"]));
        sites.assert_same_responses(&bytes);
    }
}
