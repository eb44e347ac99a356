//! Every view in Chromium: small and large, light and dark, without a violation that axe finds, and with every button pressed.
//!
//! Pictures of what was seen are left in the build's folder, in `tmp/screenshots`.

use std::fs;
use std::path::{Path, PathBuf};

use galley_testkit::origin::Origin;
use galley_testkit::{Chromium, Scratch, Tab};
use serde_json::{Value, json};

use crate::site::SiteStage;
use crate::stage::{Dashboard, MARKUP, Stage};

pub const VIEWS: &[&str] = &[
    "live",
    "day",
    "pages",
    "why",
    "not-cached",
    "purges",
    "php",
    "certificates",
    "configuration",
    "cluster",
];

/// What axe finds where all is well.
const NOTHING: [&str; 0] = [];

/// `UPDATE_GOLDEN=1` takes this picture for the manual.
const IN_THE_MANUAL: &str = "not-cached-1440-light";

fn picture(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("screenshots");
    folder.join(format!("dashboard-{name}.png"))
}

pub fn open(tab: &mut Tab<'_>, view: &str) {
    tab.say(&format!("location.hash = '#{view}'")).unwrap();
    tab.wait(&format!(
        "document.querySelector('#view[data-view=\"{view}\"][data-ready]') && \
         document.querySelector('nav [aria-current]').hash === '#{view}'"
    ))
    .unwrap();
}

/// What axe finds in the whole page.
fn violations(tab: &mut Tab<'_>) -> Vec<String> {
    tab.violations(&["html"]).unwrap()
}

/// A stage with something to see in every view.
fn stage() -> Stage {
    let stage = Stage::start();
    for path in ["/", "/hello/", "/%3Cimg%20src=x%20onerror=hacked=1%3E/"] {
        stage.store("a.test", path);
    }
    stage.store("b.test", "/other/");
    for _ in 0..2 {
        stage.get("a.test", "/cart/");
    }
    stage
}

pub fn seen(tab: &mut Tab<'_>) -> String {
    let text = tab.say("document.querySelector('main').innerText").unwrap();
    text.as_str().unwrap().to_owned()
}

#[test]
fn every_view_is_accessible_in_every_size_and_color() {
    let stage = stage();
    let mut dashboard = stage.dashboard();
    let scratch = Scratch::new().unwrap();
    let mut browser = Chromium::start(&scratch.join("chromium")).unwrap();
    let mut tab = browser.person().unwrap();
    tab.go(&dashboard.url()).unwrap();
    tab.wait("document.querySelector('#view[data-ready]')")
        .unwrap();
    assert_eq!(tab.say("location.hash").unwrap(), json!(""));
    tab.load_axe().unwrap();
    let mut found = Vec::new();
    for (width, height) in [(360, 800), (1440, 1000)] {
        tab.screen(width, height).unwrap();
        for colors in ["light", "dark"] {
            tab.prefer_colors(colors).unwrap();
            for view in VIEWS {
                open(&mut tab, view);
                let case = format!("{view}-{width}-{colors}");
                let of_view = violations(&mut tab);
                found.extend(of_view.iter().map(|one| format!("{case}: {one}")));
                let overflow = "document.documentElement.scrollWidth > innerWidth";
                if tab.say(overflow).unwrap() == Value::Bool(true) {
                    found.push(format!("{case}: wider than the screen"));
                }
                tab.picture(&picture(&case)).unwrap();
                if case == IN_THE_MANUAL && std::env::var_os("UPDATE_GOLDEN").is_some() {
                    let manual = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/images");
                    tab.picture(&manual.join("dashboard.png")).unwrap();
                }
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// What each view says of `status.json`.
const TROUBLES: &[(&str, &[&str])] = &[
    (
        "live",
        &[
            "3 of 8",
            "1 waiting",
            "91.0 %",
            "1 upstream server out of use",
            "7 since the start, 5 upstream failures",
        ],
    ),
    ("purges", &["no space is left", "4"]),
    (
        "php",
        &[
            "paused: it does not respond",
            "10",
            "the upstream takes too long",
            "Slow requests ended",
            "GET /shop/<b>slow</b>?orderby",
            "12 s",
            "812 ms",
        ],
    ),
    (
        "certificates",
        &[
            "www.example.com",
            "58 days",
            "<i>rate limit</i>",
            "there is none yet",
            "legacy.example.com",
            "expired",
        ],
    ),
    (
        "configuration",
        &["did you mean `listen`?", "https://0.0.0.0:443"],
    ),
    (
        "cluster",
        &[
            "connection refused",
            "not used",
            "node-b<b>bold</b>",
            "gone",
        ],
    ),
];

/// Parts of a server that a test does not have: managed PHP, certificates, a cluster, a disk that is full.
#[test]
fn troubles_of_the_machine_are_shown() {
    let json = [("Content-Type", "application/json")];
    let admin = Origin::start(move |seen, writer| {
        let body = match seen.path() {
            "/status" => include_str!("status.json"),
            _ => r#"{ "ok": true, "time": 1760740680, "sites": [], "entries": [], "sections": [], "next": null }"#,
        };
        let _ = writer.answer(200, &json, body.as_bytes());
    })
    .unwrap();
    let scratch = Scratch::new().unwrap();
    let token = scratch.write("token", "some-token-0123456789").unwrap();
    let mut dashboard = Dashboard::start(&admin.url(), &token);
    let mut browser = Chromium::start(&scratch.join("chromium")).unwrap();
    let mut tab = browser.person().unwrap();
    tab.go(&dashboard.url()).unwrap();
    tab.wait("document.querySelector('#view[data-ready]')")
        .unwrap();
    tab.load_axe().unwrap();
    for (width, colors) in [(360, "light"), (1440, "dark")] {
        tab.screen(width, 900).unwrap();
        tab.prefer_colors(colors).unwrap();
        for (view, texts) in TROUBLES {
            open(&mut tab, view);
            let shown = seen(&mut tab);
            for text in *texts {
                assert!(shown.contains(text), "{view}: {text}: {shown}");
            }
            assert_eq!(violations(&mut tab), NOTHING, "{view}");
            tab.picture(&picture(&format!("trouble-{view}-{width}")))
                .unwrap();
        }
    }
}

#[test]
fn buttons_ask_first_and_say_what_came_of_it() {
    let stage = stage();
    let mut dashboard = stage.dashboard();
    let scratch = Scratch::new().unwrap();
    let mut browser = Chromium::start(&scratch.join("chromium")).unwrap();
    let mut tab = browser.person().unwrap();
    tab.go(&dashboard.url()).unwrap();
    tab.wait("Number(document.documentElement.dataset.samples) >= 2")
        .unwrap();
    open(&mut tab, "pages");
    let hello = "[aria-label^='Purge http://a.test'][aria-label$='/hello/']";
    tab.click(hello).unwrap();
    tab.wait("document.querySelector('#confirm').open").unwrap();
    tab.load_axe().unwrap();
    assert_eq!(violations(&mut tab), NOTHING);
    // Escape, as Cancel, does nothing.
    tab.press("Escape", 27).unwrap();
    tab.wait("!document.querySelector('#confirm').open")
        .unwrap();
    assert!(stage.get("a.test", "/hello/").is_hit());
    for (button, page) in [
        (hello, "/hello/"),
        ("[aria-label='Purge the tag t1']", "/"),
        ("#purge-site", "/"),
    ] {
        stage.store("a.test", page);
        open(&mut tab, "live");
        open(&mut tab, "pages");
        tab.click(button).unwrap();
        tab.click("#confirm-yes").unwrap();
        tab.wait("document.querySelector('#result').innerText.startsWith('Purged ')")
            .unwrap();
        assert!(!stage.get("a.test", page).is_hit(), "{button}");
    }
    open(&mut tab, "purges");
    // Counted a moment after the purge.
    galley_testkit::wait_for("all purges to be counted", crate::stage::TIMEOUT, || {
        open(&mut tab, "live");
        open(&mut tab, "purges");
        !seen(&mut tab).contains("not counted")
    });
    let rows = "[...document.querySelectorAll('main tbody tr')].map((row) => [...row.cells].slice(1, 3).map((cell) => cell.innerText).join(': '))";
    let rows = tab.say(rows).unwrap().to_string();
    assert!(rows.contains("tag t1: "), "{rows}");
    open(&mut tab, "configuration");
    let shown = seen(&mut tab);
    assert!(
        shown.contains("64MiB") && shown.contains("/galley.toml:"),
        "{shown}"
    );
    tab.click("#compare").unwrap();
    tab.wait("document.querySelector('#changes').innerText.includes('would change nothing')")
        .unwrap();
    compares(&stage, &mut tab);
    tab.click("#logout").unwrap();
    tab.wait("document.querySelector('#title').innerText === 'Signed out'")
        .unwrap();
    assert!(!seen(&mut tab).contains("a.test"));
}

/// The file is changed, and compared with what is in effect.
fn compares(stage: &Stage, tab: &mut Tab<'_>) {
    let file = stage.galley.config();
    let text = fs::read_to_string(file).unwrap();
    let changed = text
        .replace("memory = \"64MiB\"", "memory = \"65MiB\"")
        .replace("hosts = [\"b.test\"]", "hosts = [\"b.test\"]\nqueue = 7");
    fs::write(file, changed).unwrap();
    tab.click("#compare").unwrap();
    tab.wait("document.querySelector('#changes table')")
        .unwrap();
    let rows =
        tab.say("[...document.querySelectorAll('#changes tbody tr')].map((row) => row.innerText)");
    let rows = rows.unwrap();
    let (memory, queue) = (rows[0].as_str().unwrap(), rows[1].as_str().unwrap());
    for part in ["[cache] memory", "\"64MiB\"", "\"65MiB\"", "/galley.toml:"] {
        assert!(memory.contains(part), "{part}: {memory}");
    }
    for part in ["[[site]] queue of b.test", "default", "7"] {
        assert!(queue.contains(part), "{part}: {queue}");
    }
    for (width, colors) in [(360, "light"), (1440, "dark")] {
        tab.screen(width, 900).unwrap();
        tab.prefer_colors(colors).unwrap();
        assert_eq!(violations(tab), NOTHING);
    }
    fs::write(file, text).unwrap();
}

#[test]
fn it_takes_a_minute_to_find_why_the_cart_is_not_cached() {
    let stage = stage();
    let mut dashboard = stage.dashboard();
    let scratch = Scratch::new().unwrap();
    let mut browser = Chromium::start(&scratch.join("chromium")).unwrap();
    let mut tab = browser.person().unwrap();
    tab.go(&dashboard.url()).unwrap();
    tab.wait("document.querySelector('nav a[href=\"#not-cached\"]')")
        .unwrap();
    tab.click("nav a[href='#not-cached']").unwrap();
    tab.click("[aria-label$='/cart/']").unwrap();
    tab.wait("document.querySelector('#because')").unwrap();
    let text = seen(&mut tab);
    assert!(
        text.contains("no-store") && text.contains("What to do"),
        "{text}"
    );
}

#[test]
fn markup_from_outside_is_shown_as_text() {
    let stage = stage();
    let mut dashboard = stage.dashboard();
    let scratch = Scratch::new().unwrap();
    let mut browser = Chromium::start(&scratch.join("chromium")).unwrap();
    let mut tab = browser.person().unwrap();
    tab.go(&dashboard.url()).unwrap();
    tab.wait("document.querySelector('#view[data-ready]')")
        .unwrap();
    open(&mut tab, "pages");
    assert!(seen(&mut tab).contains(MARKUP));
    open(&mut tab, "why");
    tab.say(&format!(
        "document.querySelector('#url').value = 'http://a.test/{MARKUP}'; \
         document.querySelector('#cookie').value = 'wordpress_logged_in_{MARKUP}=1'; \
         document.querySelector('main form').requestSubmit()"
    ))
    .unwrap();
    tab.wait("document.querySelector('#because, #trouble:not([hidden])')")
        .unwrap();
    let inside = tab.say("document.querySelectorAll('main img, main script').length");
    assert_eq!(inside.unwrap(), json!(0));
    assert_eq!(tab.say("typeof window.hacked").unwrap(), json!("undefined"));
    // Neither code nor markup gets in: the policy of the page forbids both.
    let refused = tab.say(
        "(() => { try { document.body.innerHTML = '<p>x</p>'; return 'set' } catch { return 'refused' } })()",
    );
    assert_eq!(refused.unwrap(), json!("refused"));
}

#[test]
fn the_owner_of_a_site_sees_this_site_only() {
    let stage = stage();
    let mut dashboard = stage.site_dashboard();
    let scratch = Scratch::new().unwrap();
    let mut browser = Chromium::start(&scratch.join("chromium")).unwrap();
    let mut tab = browser.person().unwrap();
    tab.go(&dashboard.url()).unwrap();
    tab.wait("document.querySelector('#view[data-ready]')")
        .unwrap();
    let offered = tab.say("[...document.querySelectorAll('nav a')].map((link) => link.hash)");
    let offered = offered.unwrap().to_string();
    assert!(
        !offered.contains("cluster") && offered.contains("pages"),
        "{offered}"
    );
    for view in &VIEWS[..8] {
        open(&mut tab, view);
        assert!(!seen(&mut tab).contains("b.test"), "{view}");
    }
    // The keyboard alone reaches the views.
    tab.go(&format!("http://{}/", dashboard.addr)).unwrap();
    tab.wait("document.querySelector('#view[data-ready]')")
        .unwrap();
    tab.press("Tab", 9).unwrap();
    let focus = tab.say("document.activeElement.id").unwrap();
    assert_eq!(focus, json!("skip"));
}

/// The dashboard on the address of a site, with the login that only it has.
#[test]
fn the_dashboard_of_a_site_takes_a_password() {
    let stage = SiteStage::start();
    stage.store("/hello/");
    let scratch = Scratch::new().unwrap();
    let mut browser = Chromium::start(&scratch.join("chromium")).unwrap();
    let mut tab = browser.person().unwrap();
    let address = format!("http://localhost:{}/galley/", stage.galley.addr().port());
    tab.go(&address).unwrap();
    tab.wait("document.querySelector('#password')").unwrap();
    tab.load_axe().unwrap();
    let sign_in = |tab: &mut Tab<'_>, password: &str| {
        tab.say(&format!(
            "document.querySelector('#name').value = 'jane'; \
             document.querySelector('#password').value = '{password}'"
        ))
        .unwrap();
        tab.click("main form button").unwrap();
    };
    let mut found = Vec::new();
    let mut check = |tab: &mut Tab<'_>, view: &str| {
        for (width, height) in [(360, 800), (1440, 1000)] {
            tab.screen(width, height).unwrap();
            for colors in ["light", "dark"] {
                tab.prefer_colors(colors).unwrap();
                let case = format!("site-{view}-{width}-{colors}");
                tab.picture(&picture(&case)).unwrap();
                let of_view = violations(tab);
                let overflow = "document.documentElement.scrollWidth > innerWidth";
                if !of_view.is_empty() || tab.say(overflow).unwrap() == Value::Bool(true) {
                    found.push(format!("{case}: {of_view:?}"));
                }
            }
        }
    };
    sign_in(&mut tab, "wrong");
    tab.wait("document.querySelector('#trouble').innerText.includes('wrong')")
        .unwrap();
    check(&mut tab, "login");
    sign_in(&mut tab, "secret");
    tab.wait("Number(document.documentElement.dataset.samples) >= 2")
        .unwrap();
    for view in &VIEWS[..8] {
        open(&mut tab, view);
        assert!(!seen(&mut tab).contains("b.test"), "{view}");
        check(&mut tab, view);
    }
    open(&mut tab, "pages");
    tab.click("#purge-site").unwrap();
    tab.click("#confirm-yes").unwrap();
    tab.wait("document.querySelector('#result').innerText.startsWith('Purged ')")
        .unwrap();
    // No script of the site's other pages finds the key, and none of them has the cookie.
    let left =
        tab.say("JSON.stringify([{ ...sessionStorage }, { ...localStorage }, document.cookie])");
    assert_eq!(left.unwrap(), json!("[{},{},\"\"]"));
    tab.click("#logout").unwrap();
    tab.wait("document.querySelector('#password')").unwrap();
    assert!(found.is_empty(), "{}", found.join("\n"));
}
