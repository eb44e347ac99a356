//! Forged and invalid fragments: from clients, from upstreams without the plugin, and from a plugin that describes its page wrongly.
//! The origin sends the fragment fields that a test defines.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};

use galley_testkit::client::Request;
use galley_testkit::origin::{Origin, ReceivedRequest, ResponseWriter};
use galley_testkit::wait_for;
use serde_json::Value;

use crate::support::{SiteBuilder, TIMEOUT, TestSite};

/// A page whose fragment, described by [`PART`], is the 4 bytes from offset 12.
const PAGE: &str = "<html><body>part</body></html>";
const PART: &str = "widget/x 12 4 - d.m part";

/// The fragment fields and the body of a response to a request for fragments.
type Rendering = (Vec<String>, &'static str);

/// The fragment fields that an origin sends.
#[derive(Clone, Copy)]
struct FragmentScript {
    /// The fields of a page, by its path.
    of_page: fn(&str) -> Vec<String>,
    /// The response to a request for fragments.
    of_rendering: fn(&str) -> Rendering,
}

/// The requests for fragments that the origin received.
type FragmentRequests = Arc<Mutex<Vec<String>>>;

fn origin(script: FragmentScript) -> (Origin, FragmentRequests) {
    let fragment_requests = FragmentRequests::default();
    let received = Arc::clone(&fragment_requests);
    let origin = Origin::start(
        move |request: &ReceivedRequest, writer: &mut ResponseWriter<'_>| {
            let (parts, body, kind) = match request.field("galley-fragment") {
                Some(expected) => {
                    received.lock().unwrap().push(expected.to_owned());
                    let (parts, body) = (script.of_rendering)(expected);
                    (parts, body, "text/plain")
                }
                None => ((script.of_page)(&request.target), PAGE, "text/html"),
            };
            let mut fields = vec![
                ("Content-Type", kind),
                ("Galley-Tags", "own"),
                ("Cache-Control", "max-age=600"),
            ];
            fields.extend(parts.iter().map(|part| ("Galley-Fragment", part.as_str())));
            // Chunks that end within tags and fragments.
            if writer.chunked(200, &fields) {
                for chunk in body.as_bytes().chunks(3) {
                    writer.chunk(chunk);
                }
                writer.last_chunk();
            }
        },
    );
    (origin.unwrap(), fragment_requests)
}

fn nothing(_: &str) -> Rendering {
    (Vec::new(), "")
}

fn one_part(_: &str) -> Vec<String> {
    vec![PART.to_owned()]
}

fn rendered(_: &str) -> Rendering {
    (vec!["alone 0 4 - 0 part".to_owned()], "part")
}

/// The parts of a stored page.
fn parts(site: &TestSite, path: &str) -> Vec<Value> {
    let why: Value = serde_json::from_str(&site.why(path)).unwrap();
    why["entry"]["fragments"]
        .as_array()
        .cloned()
        .unwrap_or_default()
}

fn is_shared(site: &TestSite, path: &str) -> bool {
    parts(site, path).iter().any(|part| part["shared"] == true)
}

/// Paths and their fields, which describe no valid fragments of [`PAGE`].
fn invalid_fields() -> Vec<(&'static str, Vec<String>)> {
    let one = |field: &str| vec![field.to_owned()];
    vec![
        ("/behind-the-end", one("widget/x 12 99 - d.m part")),
        (
            "/largest-number",
            one("widget/x 18446744073709551615 1 - d.m part"),
        ),
        (
            "/overflow",
            one("widget/x 2 18446744073709551615 - d.m part"),
        ),
        ("/negative", one("widget/x -1 4 - d.m part")),
        (
            "/beyond-numbers",
            one("widget/x 99999999999999999999999 4 - d.m part"),
        ),
        ("/no-number", one("widget/x here 4 - d.m part")),
        ("/everything", one("widget/x 12 4 - d.m *")),
        ("/unicode", one("widget/\u{e4}\u{202e} 12 4 - d.m part")),
        ("/unclosed", one("widget/x 12")),
        ("/tab", one("widget/x\t12 4 - d.m part")),
        ("/one-word", one("widget/x")),
        ("/empty", one("")),
        ("/unknown-word", one("widget/x 12 4 - d.m part other")),
        (
            "/overlapping",
            vec![PART.to_owned(), "widget/y 14 2 - e.m part".to_owned()],
        ),
        (
            "/backwards",
            vec![PART.to_owned(), "widget/y 2 2 - e.m part".to_owned()],
        ),
        (
            "/too-many",
            (0..65)
                .map(|number| format!("widget/x 12 0 - d{number}.m part"))
                .collect(),
        ),
    ]
}

#[test]
fn any_purge_removes_a_page_with_invalid_fragments() {
    let (origin, _) = origin(FragmentScript {
        of_page: |path| {
            let mut all = invalid_fields().into_iter();
            let found = all.find(|(name, _)| *name == path);
            found.map_or_else(|| one_part(path), |(_, fields)| fields)
        },
        of_rendering: nothing,
    });
    let site = SiteBuilder::origin(&origin, "wordpress").start();
    let paths: Vec<&str> = invalid_fields().iter().map(|(path, _)| *path).collect();
    for path in paths.iter().chain(&["/fine"]) {
        for _ in 0..2 {
            let page = site.get(path);
            assert_eq!((page.status, page.text().as_str()), (200, PAGE), "{path}");
            assert_eq!(page.field("galley-fragment"), None, "{path}");
        }
        assert!(site.get(path).is_hit(), "{path}");
    }
    site.purge(&["--tag", "unrelated"]);
    assert!(site.get("/fine").is_hit());
    for path in paths {
        assert!(!site.get(path).is_hit(), "{path} was not purged");
    }
}

#[test]
fn fragment_request_fields_of_clients_are_not_forwarded() {
    let (origin, fragment_requests) = origin(FragmentScript {
        of_page: |_| Vec::new(),
        of_rendering: |_| (Vec::new(), "a fragment in place of a page"),
    });
    let site = SiteBuilder::origin(&origin, "wordpress").start();
    let names = [
        "Galley-Fragment",
        "gAlLeY-fRaGmEnT",
        "GALLEY-FRAGMENT",
        "Galley_Fragment",
    ];
    let definitions = [
        "d.m",
        "d.m,d.m",
        "",
        "../../etc/passwd",
        "W10=.0123456789abcdef",
    ];
    for (number, name) in names.into_iter().enumerate() {
        for definition in definitions {
            for session in ["", "wordpress_logged_in_x=1"] {
                let path = format!("/{number}-{}", definition.len());
                let request = Request::get(&path).field(name, definition);
                let page = site.send(request.field("Cookie", session));
                assert_eq!(page.text(), PAGE, "{name}: {definition}");
                let posted = Request::post(&path, "text/plain", "x").field(name, definition);
                assert_eq!(site.send(posted).text(), PAGE, "{name}: {definition}");
            }
        }
    }
    assert!(fragment_requests.lock().unwrap().is_empty());
}

#[test]
fn preset_none_ignores_fragments() {
    let (origin, fragment_requests) = origin(FragmentScript {
        of_page: one_part,
        of_rendering: rendered,
    });
    let site = SiteBuilder::origin(&origin, "none").start();
    for _ in 0..2 {
        site.get("/page");
    }
    assert!(site.get("/page").is_hit());
    assert!(parts(&site, "/page").is_empty());
    assert!(fragment_requests.lock().unwrap().is_empty());
}

/// A part is shared if the origin can render it separately. Responses that are not the requested fragments are discarded.
#[test]
fn invalid_fragment_responses_are_not_used_in_pages() {
    let (origin, _) = origin(FragmentScript {
        of_page: one_part,
        of_rendering: rendered,
    });
    let site = SiteBuilder::origin(&origin, "wordpress").start();
    site.get("/page");
    wait_for("the shared part", TIMEOUT, || is_shared(&site, "/page"));
    drop(site);

    let responses: [fn(&str) -> Rendering; 6] = [
        |_| (vec!["alone 0 4 - 7 part".to_owned()], "evil"),
        |_| (vec!["alone 0 99 - 0 part".to_owned()], "evil"),
        |_| (vec!["alone 0 4 - d.m part".to_owned()], "evil"),
        |_| {
            (
                vec![
                    "alone 2 4 - 0 part".to_owned(),
                    "alone 0 4 - 0 part".to_owned(),
                ],
                "evilevil",
            )
        },
        |_| (vec!["alone 0 4 other-blocks 0 part".to_owned()], "evil"),
        |_| (Vec::new(), "evil"),
    ];
    for of_rendering in responses {
        let (origin, fragment_requests) = self::origin(FragmentScript {
            of_page: one_part,
            of_rendering,
        });
        let site = SiteBuilder::origin(&origin, "wordpress").start();
        site.get("/page");
        wait_for("a request for fragments", TIMEOUT, || {
            !fragment_requests.lock().unwrap().is_empty()
        });
        for _ in 0..3 {
            site.purge(&["--tag", "part"]);
            let page = site.get("/page");
            assert_eq!(page.text(), PAGE, "{}", page.excerpt());
            assert!(!page.is_hit(), "{}", page.excerpt());
        }
        assert!(!is_shared(&site, "/page"));
    }
}

/// An origin whose pages show one part, each in a context of its own. In a response that contains the part several times, only the
/// first one has its tag: PHP prints the others from what it remembers.
fn forgetful_origin(number: &Arc<AtomicU8>) -> Origin {
    let number = Arc::clone(number);
    let origin = Origin::start(
        move |request: &ReceivedRequest, writer: &mut ResponseWriter<'_>| {
            let part = format!("part {}", number.load(Ordering::SeqCst));
            let (parts, body, kind) = if let Some(wanted) = request.field("galley-fragment") {
                let count = wanted.split(',').count();
                let tag = |index| if index == 0 { "part" } else { "other" };
                let field = |index| format!("alone {} 6 - {index} {}", 6 * index, tag(index));
                let parts: Vec<_> = (0..count).map(field).collect();
                (parts, part.repeat(count), "text/plain")
            } else {
                let context = request.target.trim_start_matches('/');
                let field = format!("widget/x 12 6 - {context}.m part context");
                let body = format!("<html><body>{part}</body></html>");
                (vec![field], body, "text/html")
            };
            let mut fields = vec![("Content-Type", kind), ("Cache-Control", "max-age=600")];
            fields.extend(parts.iter().map(|part| ("Galley-Fragment", part.as_str())));
            if writer.chunked(200, &fields) {
                writer.chunk(body.as_bytes());
                writer.last_chunk();
            }
        },
    );
    origin.unwrap()
}

#[test]
fn purges_reach_parts_that_their_rendering_does_not_describe() {
    let number = Arc::new(AtomicU8::new(0));
    let origin = forgetful_origin(&number);
    let site = SiteBuilder::origin(&origin, "wordpress").start();
    let paths = ["/a", "/b", "/c", "/d"];
    for path in paths {
        site.get(path);
    }
    for path in paths {
        wait_for("the shared part", TIMEOUT, || is_shared(&site, path));
    }
    for edit in 1..5 {
        number.store(edit, Ordering::SeqCst);
        site.purge(&["--tag", "part"]);
        for path in paths {
            let page = site.get(path);
            let expected = format!("<html><body>part {edit}</body></html>");
            assert_eq!(page.text(), expected, "{path}: {}", page.excerpt());
            assert!(page.is_hit(), "{path}: {}", page.excerpt());
        }
    }
}
