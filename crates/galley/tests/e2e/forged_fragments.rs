//! Fragments that somebody makes up: clients, upstreams that are no plugin, and a plugin that says what is not so. Behind the server
//! stands a script that says what a test wants.

use std::sync::{Arc, Mutex};

use galley_testkit::client::Request;
use galley_testkit::origin::{Origin, ReceivedRequest, ResponseWriter};
use galley_testkit::wait_for;
use serde_json::Value;

use crate::support::{SiteBuilder, TIMEOUT, TestSite};

/// The part is the 4 bytes from byte 12 on.
const PAGE: &str = "<html><body>part</body></html>";
const PART: &str = "widget/x 12 4 - d.m part";

/// The fields and the body of a response to a request for fragments.
type Rendering = (Vec<String>, &'static str);

/// What an origin says of fragments.
#[derive(Clone, Copy)]
struct Script {
    /// Of each page, by its path.
    of_page: fn(&str) -> Vec<String>,
    /// In response to a request for these.
    of_rendering: fn(&str) -> Rendering,
}

/// Requests for fragments that the origin got.
type Renderings = Arc<Mutex<Vec<String>>>;

fn origin(script: Script) -> (Origin, Renderings) {
    let renderings = Renderings::default();
    let noted = Arc::clone(&renderings);
    let origin = Origin::start(
        move |seen: &ReceivedRequest, writer: &mut ResponseWriter<'_>| {
            let (parts, body, kind) = match seen.field("galley-fragment") {
                Some(wanted) => {
                    noted.lock().unwrap().push(wanted.to_owned());
                    let (parts, body) = (script.of_rendering)(wanted);
                    (parts, body, "text/plain")
                }
                None => ((script.of_page)(&seen.target), PAGE, "text/html"),
            };
            let mut fields = vec![
                ("Content-Type", kind),
                ("Galley-Tags", "own"),
                ("Cache-Control", "max-age=600"),
            ];
            fields.extend(parts.iter().map(|part| ("Galley-Fragment", part.as_str())));
            // Pieces that end within tags and fragments.
            if writer.chunked(200, &fields) {
                for piece in body.as_bytes().chunks(3) {
                    writer.chunk(piece);
                }
                writer.last_chunk();
            }
        },
    );
    (origin.unwrap(), renderings)
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

/// Fields that describe no fragments of [`PAGE`].
fn senseless() -> Vec<(&'static str, Vec<String>)> {
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
fn a_page_whose_fragments_make_no_sense_depends_on_everything() {
    let (origin, _) = origin(Script {
        of_page: |path| {
            let mut all = senseless().into_iter();
            let found = all.find(|(name, _)| *name == path);
            found.map_or_else(|| one_part(path), |(_, fields)| fields)
        },
        of_rendering: nothing,
    });
    let site = SiteBuilder::origin(&origin, "wordpress").start();
    let paths: Vec<&str> = senseless().iter().map(|(path, _)| *path).collect();
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
fn clients_request_no_fragments() {
    let (origin, renderings) = origin(Script {
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
    assert!(renderings.lock().unwrap().is_empty());
}

#[test]
fn an_upstream_without_the_preset_has_no_fragments() {
    let (origin, renderings) = origin(Script {
        of_page: one_part,
        of_rendering: rendered,
    });
    let site = SiteBuilder::origin(&origin, "none").start();
    for _ in 0..2 {
        site.get("/page");
    }
    assert!(site.get("/page").is_hit());
    assert!(parts(&site, "/page").is_empty());
    assert!(renderings.lock().unwrap().is_empty());
}

/// A part that is right when it is rendered alone is shared. Responses with what is none of the requested fragments share nothing, and
/// nothing of them is in the page.
#[test]
fn renderings_that_make_no_sense_are_in_no_page() {
    let (origin, _) = origin(Script {
        of_page: one_part,
        of_rendering: rendered,
    });
    let site = SiteBuilder::origin(&origin, "wordpress").start();
    site.get("/page");
    wait_for("the shared part", TIMEOUT, || is_shared(&site, "/page"));
    drop(site);

    let answers: [fn(&str) -> Rendering; 6] = [
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
    for of_rendering in answers {
        let (origin, renderings) = self::origin(Script {
            of_page: one_part,
            of_rendering,
        });
        let site = SiteBuilder::origin(&origin, "wordpress").start();
        site.get("/page");
        wait_for("a rendering", TIMEOUT, || {
            !renderings.lock().unwrap().is_empty()
        });
        for _ in 0..3 {
            site.purge(&["--tag", "part"]);
            let page = site.get("/page");
            assert_eq!(page.text(), PAGE, "{}", page.beginning());
            assert!(!page.is_hit(), "{}", page.beginning());
        }
        assert!(!is_shared(&site, "/page"));
    }
}
