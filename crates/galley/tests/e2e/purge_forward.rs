//! Forwarding of purges to CDNs and caches in front, against scripted APIs with the documented responses and limits.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use galley_testkit::origin::{Origin, ReceivedRequest, ResponseWriter};
use galley_testkit::{Scratch, wait_for};
use serde_json::Value;

use crate::support::{AssertStatus, HOST, SiteBuilder, TIMEOUT, TestSite};

const SECRET: &str = "a token of sixteen bytes or more";

/// A scripted purge API, and a site that forwards purges to it.
struct Edge {
    api: Origin,
    site: TestSite,
    _token: Scratch,
}

impl Edge {
    fn start(
        target: &str,
        script: impl Fn(&ReceivedRequest, &mut ResponseWriter<'_>) + Send + Sync + 'static,
    ) -> Self {
        Self::start_with(target, SiteBuilder::files(), script)
    }

    fn start_with(
        target: &str,
        builder: SiteBuilder,
        script: impl Fn(&ReceivedRequest, &mut ResponseWriter<'_>) + Send + Sync + 'static,
    ) -> Self {
        let scratch = Scratch::new().unwrap();
        let token = scratch.write("token", SECRET).unwrap();
        std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o600)).unwrap();
        let api = Origin::start(move |request, writer| {
            writer.body();
            script(request, writer);
        })
        .unwrap();
        let target = target
            .replace("API", &api.url())
            .replace("TOKEN", &token.display().to_string());
        let site = builder
            .site(&format!(
                "purge_forward = [{target}]\ntag_header = \"Cache-Tag\""
            ))
            .start();
        Self {
            api,
            site,
            _token: scratch,
        }
    }

    /// The purge target in the status of the site.
    fn target(&self) -> Value {
        let status: Value = serde_json::from_str(&self.site.status()).unwrap();
        status["sites"][0]["purge_forward"][0].clone()
    }

    fn wait_until_sent(&self, count: u64) {
        wait_for(&format!("{count} purges to be sent"), TIMEOUT, || {
            let target = self.target();
            target["sent"] == count && target["pending"] == 0
        });
    }

    fn bodies(&self) -> Vec<Value> {
        let requests = self.api.requests();
        requests
            .iter()
            .map(|request| serde_json::from_slice(&request.body).unwrap_or_default())
            .collect()
    }

    /// The request lines that the API has received, without the version.
    fn request_lines(&self) -> Vec<String> {
        self.api
            .requests()
            .iter()
            .map(|request| format!("{} {}", request.method, request.target))
            .collect()
    }
}

const CLOUDFLARE_SUCCESS: &[u8] =
    br#"{"success":true,"errors":[],"messages":[],"result":{"id":"1"}}"#;

#[test]
fn cloudflare_receives_tags_in_batches_and_its_retry_after_is_respected() {
    let received = AtomicUsize::new(0);
    let edge = Edge::start(
        "{ cloudflare = \"0abc\", token_file = \"TOKEN\", by = \"tag\", api = \"API\" }",
        move |_, writer| {
            // The third request of the batch.
            if received.fetch_add(1, Ordering::SeqCst) == 2 {
                let body = br#"{"success":false,"errors":[{"code":971,"message":"Please wait and consider throttling your request rate"}]}"#;
                writer.respond(429, &[("Retry-After", "2")], body);
            } else {
                writer.respond(
                    200,
                    &[("Content-Type", "application/json")],
                    CLOUDFLARE_SUCCESS,
                );
            }
        },
    );
    let tags: Vec<String> = (0..120).map(|n| format!("p{n}")).collect();
    let mut arguments = vec!["purge", "--json"];
    arguments.extend(tags.iter().flat_map(|tag| ["--tag", tag.as_str()]));
    let output = edge.site.galley.cli(&arguments).unwrap();
    assert!(
        output.status.success(),
        "not acknowledged before the edge has responded"
    );
    wait_for("the rejection", TIMEOUT, || edge.target()["failures"] == 1);
    let target = edge.target();
    assert!(
        target["error"].as_str().unwrap().contains("429"),
        "{target}"
    );
    assert_eq!(target["pending"], 120);
    edge.wait_until_sent(120);
    assert!(edge.target()["error"].is_null());
    let requests = edge.api.requests();
    assert!(
        requests
            .iter()
            .all(|request| request.target == "/client/v4/zones/0abc/purge_cache")
    );
    assert!(
        requests
            .iter()
            .all(|request| request.field("authorization")
                == Some(format!("Bearer {SECRET}").as_str()))
    );
    let bodies = edge.bodies();
    assert_eq!(bodies[2], bodies[3], "accepted batches are not repeated");
    let accepted = bodies[..2].iter().chain(&bodies[3..]);
    let sizes: Vec<usize> = accepted
        .map(|body| body["tags"].as_array().unwrap().len())
        .collect();
    assert_eq!(
        sizes,
        [30, 30, 30, 30, 1],
        "at most thirty tags, including the tag of pages with unknown tags"
    );
    assert!(!edge.site.galley.log().contains(SECRET) && !edge.site.status().contains(SECRET));
}

#[test]
fn cloudflare_receives_urls_with_both_schemes_and_purge_everything_otherwise() {
    let edge = Edge::start(
        "{ cloudflare = \"0abc\", token_file = \"TOKEN\", api = \"API\" }",
        |_, writer| {
            writer.respond(200, &[], CLOUDFLARE_SUCCESS);
        },
    );
    edge.site
        .purge(&["--url", &format!("http://{HOST}/a/?b=c")]);
    edge.wait_until_sent(1);
    edge.site.purge(&["--tag", "p1"]);
    edge.wait_until_sent(2);
    let bodies = edge.bodies();
    assert_eq!(
        bodies[0]["files"],
        serde_json::json!([
            format!("http://{HOST}/a/?b=c"),
            format!("https://{HOST}/a/?b=c")
        ])
    );
    assert_eq!(bodies[1], serde_json::json!({ "purge_everything": true }));
}

#[test]
fn fastly_receives_keys_and_urls_and_its_rate_limit_is_respected() {
    let received = AtomicUsize::new(0);
    let edge = Edge::start(
        "{ fastly = \"SU1Z0\", token_file = \"TOKEN\", by = \"tag\", api = \"API\" }",
        move |_, writer| {
            if received.fetch_add(1, Ordering::SeqCst) == 0 {
                let reset = std::time::SystemTime::now()
                    .duration_since(std::time::UNIX_EPOCH)
                    .unwrap()
                    .as_secs()
                    + 2;
                let body =
                    br#"{"msg":"You have exceeded your hourly rate limit","detail":"ratelimit"}"#;
                writer.respond(429, &[("Fastly-RateLimit-Reset", &reset.to_string())], body);
            } else {
                writer.respond(200, &[], br#"{"status":"ok","id":"108-1391560174-974124"}"#);
            }
        },
    );
    edge.site
        .purge(&["--tag", "p1", "--url", &format!("http://{HOST}/a/")]);
    edge.wait_until_sent(2);
    assert!(edge.target()["failures"] == 1);
    edge.site.purge(&["--all"]);
    edge.wait_until_sent(3);
    let targets = edge.request_lines();
    assert!(
        targets.contains(&"POST /service/SU1Z0/purge".to_owned()),
        "{targets:?}"
    );
    assert!(
        targets.contains(&format!("POST /purge/{HOST}/a/")),
        "{targets:?}"
    );
    assert_eq!(targets.last().unwrap(), "POST /service/SU1Z0/purge_all");
    assert!(
        edge.api
            .requests()
            .iter()
            .all(|request| request.field("fastly-key") == Some(SECRET))
    );
}

#[test]
fn bunny_receives_tags_urls_and_zones() {
    let edge = Edge::start(
        "{ bunny = \"12345\", token_file = \"TOKEN\", by = \"tag\", api = \"API\" }",
        |_, writer| {
            writer.respond(204, &[], b"");
        },
    );
    edge.site
        .purge(&["--tag", "p1", "--url", &format!("http://{HOST}/a/")]);
    edge.wait_until_sent(2);
    edge.site.purge(&["--all"]);
    edge.wait_until_sent(3);
    let targets = edge.request_lines();
    assert!(
        targets.contains(&format!(
            "POST /purge?url=https%3A%2F%2F{HOST}%2Fa%2F&async=false"
        )),
        "{targets:?}"
    );
    assert!(edge.bodies().iter().any(|body| body["CacheTag"] == "p1"));
    assert_eq!(targets.last().unwrap(), "POST /pullzone/12345/purgeCache");
    assert!(
        edge.api
            .requests()
            .iter()
            .all(|request| request.field("accesskey") == Some(SECRET))
    );
}

#[test]
fn a_rejected_purge_is_replaced_by_purge_everything() {
    let received = AtomicUsize::new(0);
    let edge = Edge::start(
        "{ cloudflare = \"0abc\", token_file = \"TOKEN\", by = \"tag\", api = \"API\" }",
        move |_, writer| {
            if received.fetch_add(1, Ordering::SeqCst) == 0 {
                let body = br#"{"success":false,"errors":[{"code":1107,"message":"Only enterprise zones can purge by tag"}]}"#;
                writer.respond(400, &[], body);
            } else {
                writer.respond(200, &[], CLOUDFLARE_SUCCESS);
            }
        },
    );
    edge.site.purge(&["--tag", "p1"]);
    edge.wait_until_sent(1);
    let bodies = edge.bodies();
    assert_eq!(bodies[1], serde_json::json!({ "purge_everything": true }));
    assert_eq!(bodies.len(), 2);
    assert_eq!(edge.target()["failures"], 1);
}

#[test]
fn varnish_receives_purge_requests_with_the_host() {
    let edge = Edge::start("{ purge = \"API\" }", |_, writer| {
        writer.respond(200, &[], b"");
    });
    edge.site.purge(&["--url", &format!("http://{HOST}/a/")]);
    edge.wait_until_sent(1);
    edge.site.purge(&["--all"]);
    edge.wait_until_sent(2);
    edge.site.purge(&["--prefix", "/shop"]);
    edge.wait_until_sent(3);
    assert_eq!(
        edge.request_lines(),
        ["PURGE /a/", "PURGE /.*", "PURGE /shop.*"]
    );
    let requests = edge.api.requests();
    assert!(
        requests
            .iter()
            .all(|request| request.field("host") == Some(HOST))
    );
    assert_eq!(requests[1].field("x-purge-method"), Some("regex"));
}

#[test]
fn other_caches_receive_xkey_purges_and_bans() {
    let edge = Edge::start("{ purge = \"API\", by = \"tag\" }", |_, writer| {
        writer.respond(404, &[], b"");
    });
    edge.site.purge(&["--url", &format!("http://{HOST}/a/")]);
    edge.wait_until_sent(1);
    assert_eq!(
        edge.target()["failures"],
        0,
        "404: the page is not stored there"
    );
    let edge = Edge::start("{ purge = \"API\", by = \"tag\" }", |_, writer| {
        writer.respond(200, &[], b"");
    });
    edge.site.purge(&["--tag", "p1"]);
    edge.wait_until_sent(1);
    assert_eq!(edge.api.requests()[0].field("xkey-purge"), Some("p1 *"));
    let edge = Edge::start("{ ban = \"API\" }", |_, writer| {
        writer.respond(200, &[], b"");
    });
    edge.site.purge(&["--tag", "p1"]);
    edge.wait_until_sent(1);
    edge.site.purge(&["--prefix", "/shop"]);
    edge.wait_until_sent(2);
    assert_eq!(edge.request_lines(), ["BAN /", "BAN /shop"]);
}

/// An edge with a pending purge that resets all connections until the flag is set.
fn failing_edge(builder: SiteBuilder) -> (Edge, Arc<AtomicBool>) {
    let is_up = Arc::new(AtomicBool::new(false));
    let up = Arc::clone(&is_up);
    let edge = Edge::start_with("{ purge = \"API\" }", builder, move |_, writer| {
        if up.load(Ordering::SeqCst) {
            writer.respond(200, &[], b"");
        } else {
            writer.reset();
        }
    });
    edge.site.purge(&["--url", &format!("http://{HOST}/a/")]);
    wait_for("a failure", TIMEOUT, || {
        edge.target()["failures"].as_u64() >= Some(1)
    });
    (edge, is_up)
}

#[test]
fn pending_purges_survive_a_reload_and_removed_targets_receive_no_more() {
    let (edge, is_up) = failing_edge(SiteBuilder::files());
    let config = std::fs::read_to_string(edge.site.galley.config()).unwrap();
    let reload = |text: &str| {
        std::fs::write(edge.site.galley.config(), text).unwrap();
        let output = edge.site.galley.cli(&["reload"]).unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
    };
    let changed = config.replace("tag_header", "request_body = \"1MiB\"\ntag_header");
    reload(&changed);
    assert_eq!(
        edge.target()["pending"],
        1,
        "pending purges survive a reload"
    );
    let text = String::from_utf8(edge.site.galley.cli(&["status"]).unwrap().stdout).unwrap();
    assert!(text.contains("1 purges wait for purge http://"), "{text}");
    let metrics = edge.site.metrics();
    let pending = format!("galley_purge_forward_pending{{site=\"{HOST}\",target=\"purge http://");
    assert!(metrics.contains(&pending), "{metrics}");
    is_up.store(true, Ordering::SeqCst);
    edge.wait_until_sent(1);
    let without: Vec<&str> = changed
        .lines()
        .filter(|line| !line.starts_with("purge_forward"))
        .collect();
    let count = edge.api.requests().len();
    reload(&without.join("\n"));
    edge.site.purge(&["--all"]);
    assert!(edge.target().is_null());
    edge.site.get("/").assert_status(404);
    assert_eq!(edge.api.requests().len(), count);
}

#[test]
fn pending_purges_survive_a_crash() {
    let (mut edge, is_up) = failing_edge(SiteBuilder::files().disk());
    edge.site.galley.kill();
    is_up.store(true, Ordering::SeqCst);
    edge.site.restart();
    edge.wait_until_sent(1);
    assert_eq!(edge.request_lines().last().unwrap(), "PURGE /a/");
    let count = edge.request_lines().len();
    edge.site.galley.kill();
    edge.site.restart();
    edge.site.purge(&["--url", &format!("http://{HOST}/b/")]);
    edge.wait_until_sent(1);
    assert_eq!(
        edge.request_lines()[count..],
        ["PURGE /b/"],
        "sent purges are not repeated"
    );
}

#[test]
fn responses_list_their_tags_and_soft_purges_are_forwarded_as_hard_purges() {
    let fields = [("Galley-Tags", "p1,t2"), ("Cache-Control", "max-age=600")];
    let origin = Origin::start(move |_, writer| {
        writer.respond(200, &fields, b"page");
    })
    .unwrap();
    let edge = Origin::start(|_, writer| {
        writer.respond(200, &[], b"");
    })
    .unwrap();
    let site = SiteBuilder::origin(&origin, "wordpress")
        .site(&format!(
            "purge_forward = [{{ purge = \"{}\" }}]\ntag_header = \"Surrogate-Key\"\nouter_ttl = \"5m\"",
            edge.url()
        ))
        .start();
    let first = site.get("/a/");
    assert_eq!(first.field("surrogate-key"), Some("p1 t2"));
    let second = site.get("/a/");
    assert!(second.is_hit());
    assert_eq!(second.field("surrogate-key"), Some("p1 t2"));
    assert_eq!(second.field("cdn-cache-control"), Some("max-age=300"));
    site.purge(&["--tag", "p1", "--soft"]);
    assert!(
        !site.get("/a/").is_hit(),
        "the cache in front would store a stale page"
    );
}
