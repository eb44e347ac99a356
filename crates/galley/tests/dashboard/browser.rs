//! Every view in Chromium: accessibility on a small and a large screen, in light and dark, and the effect of every button.
//!
//! Screenshots are written to `tmp/screenshots` in the target directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use galley_testkit::client::Request;
use galley_testkit::origin::Origin;
use galley_testkit::{Chromium, Scratch, Tab};
use serde_json::{Value, json};

use crate::site_dashboard::SiteDashboardServer;
use crate::support::{Dashboard, MARKUP, TestServer};

pub const VIEWS: &[&str] = &[
    "overview",
    "pages",
    "why",
    "not-cached",
    "purges",
    "php",
    "certificates",
    "configuration",
    "cluster",
];

/// The views that the token of a site may see.
const SITE_VIEWS: &[&str] = VIEWS.split_at(7).0;

/// The maximum height of a view, in CSS pixels: a dozen screens of a phone.
const MAX_HEIGHT: u64 = 10_000;

/// The result of axe for an accessible page.
pub const NO_VIOLATIONS: [&str; 0] = [];

/// The screenshot that `UPDATE_GOLDEN=1` copies into the manual.
const MANUAL_SCREENSHOT: &str = "healthy-overview-1440-light";

pub fn screenshot_path(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("screenshots");
    folder.join(format!("dashboard-{name}.png"))
}

/// Opens the dashboard and waits until its first view is complete.
pub fn open_dashboard<'b>(browser: &'b mut Chromium, dashboard: &mut Dashboard) -> Tab<'b> {
    let mut tab = browser.new_tab().unwrap();
    tab.navigate(&dashboard.url()).unwrap();
    tab.wait("document.querySelector('#view[data-ready]')")
        .unwrap();
    tab
}

/// Opens a view and waits until it is complete.
pub fn open(tab: &mut Tab<'_>, view: &str) {
    tab.evaluate(&format!("location.hash = '#{view}'")).unwrap();
    tab.wait(&format!(
        "document.querySelector('#view[data-view=\"{view}\"][data-ready]') && \
         document.querySelector('nav [aria-current]').hash === '#{view}'"
    ))
    .unwrap();
}

/// Returns the violations that axe finds in the whole page.
fn violations(tab: &mut Tab<'_>) -> Vec<String> {
    tab.violations(&["html"]).unwrap()
}

/// Starts a server with data for every view.
fn server_with_data() -> TestServer {
    let server = TestServer::start();
    for path in ["/", "/hello/", "/%3Cimg%20src=x%20onerror=hacked=1%3E/"] {
        server.store("a.test", path);
    }
    server.store("b.test", "/other/");
    for _ in 0..2 {
        server.get("a.test", "/cart/");
    }
    server
}

/// Returns the visible text of the view.
pub fn main_text(tab: &mut Tab<'_>) -> String {
    let text = tab
        .evaluate("document.querySelector('main').innerText")
        .unwrap();
    text.as_str().unwrap().to_owned()
}

/// A state of a site.
struct SiteState {
    name: &'static str,
    /// What the head of every view shows.
    badge: &'static str,
    /// Brings the state about.
    enter: fn(&mut TestServer),
}

const STATES: &[SiteState] = &[
    SiteState {
        name: "healthy",
        badge: "OK",
        enter: |_| (),
    },
    SiteState {
        name: "degraded",
        badge: "Degraded",
        enter: TestServer::refuse_reload,
    },
    SiteState {
        name: "dead",
        badge: "Failing",
        enter: TestServer::stop_origin,
    },
];

/// Every state, view, size and color scheme, in one browser.
#[test]
fn every_view_is_accessible_in_every_state_size_and_color_scheme() {
    let mut server = server_with_data();
    send_edit(&server);
    server.store("a.test", "/hello/");
    let traffic = updates_manual().then(|| send_traffic(&server));
    let mut dashboard = server.dashboard();
    let scratch = Scratch::new().unwrap();
    let mut browser = Chromium::start(&scratch.join("chromium")).unwrap();
    let mut tab = open_dashboard(&mut browser, &mut dashboard);
    assert_eq!(tab.evaluate("location.hash").unwrap(), json!(""));
    tab.load_axe().unwrap();
    if updates_manual() {
        tab.wait("Number(document.documentElement.dataset.samples) >= 20")
            .unwrap();
    }
    let mut found = Vec::new();
    for SiteState { name, badge, enter } in STATES {
        enter(&mut server);
        tab.wait(&format!(
            "document.querySelector('#state').innerText.includes('{badge}')"
        ))
        .unwrap();
        for (width, height) in [(390, 844), (1440, 1000)] {
            tab.set_viewport(width, height).unwrap();
            for colors in ["light", "dark"] {
                tab.prefer_colors(colors).unwrap();
                for view in VIEWS {
                    open(&mut tab, view);
                    let case = format!("{name}-{view}-{width}-{colors}");
                    found.extend(faults(&mut tab, &case));
                }
            }
        }
    }
    if let Some(traffic) = traffic {
        traffic.join().unwrap();
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

fn updates_manual() -> bool {
    std::env::var_os("UPDATE_GOLDEN").is_some()
}

/// Sends requests of visitors for the picture of the manual, so that its charts show something.
fn send_traffic(server: &TestServer) -> thread::JoinHandle<()> {
    let addr = server.galley.addr();
    thread::spawn(move || {
        for n in 0..600 {
            let target = if n % 9 == 0 {
                format!("/{n}/")
            } else {
                "/hello/".to_owned()
            };
            let _ = Request::get(&target).host("a.test").send(addr);
            // A pace, not a wait for something.
            thread::sleep(Duration::from_millis(50 + n % 7 * 30));
        }
    })
}

/// Sends an edit whose response purges.
fn send_edit(server: &TestServer) {
    let edit = Request::post("/edit/", "text/plain", "title=x").host("a.test");
    drop(edit.send(server.galley.addr()).unwrap().expect_status(200));
}

/// Takes a screenshot of the view and returns what is wrong with it.
fn faults(tab: &mut Tab<'_>, case: &str) -> Vec<String> {
    let violations = violations(tab).into_iter();
    let mut found: Vec<String> = violations.map(|one| format!("{case}: {one}")).collect();
    let size = "[document.documentElement.scrollWidth > innerWidth, document.documentElement.scrollHeight]";
    let size = tab.evaluate(size).unwrap();
    if size[0] == Value::Bool(true) {
        found.push(format!("{case}: wider than the screen"));
    }
    if size[1].as_u64().unwrap() > MAX_HEIGHT {
        found.push(format!("{case}: {} pixels high", size[1]));
    }
    tab.screenshot(&screenshot_path(case)).unwrap();
    if case == MANUAL_SCREENSHOT && updates_manual() {
        let manual = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/images");
        tab.screenshot(&manual.join("dashboard.png")).unwrap();
    }
    found
}

/// An edit is one row with its name. Only its own site knows the name, and no log has it.
#[test]
fn an_edit_is_one_row_with_its_name() {
    let server = server_with_data();
    send_edit(&server);
    let mut dashboard = server.dashboard();
    let scratch = Scratch::new().unwrap();
    let mut browser = Chromium::start(&scratch.join("chromium")).unwrap();
    let mut tab = open_dashboard(&mut browser, &mut dashboard);
    galley_testkit::wait_for("the pages to be counted", crate::support::TIMEOUT, || {
        open(&mut tab, "overview");
        open(&mut tab, "purges");
        !main_text(&mut tab).contains("not counted")
    });
    let summary = "[...document.querySelectorAll('summary')].map((one) => one.innerText)";
    let summary = tab.evaluate(summary).unwrap();
    let rows = summary.as_array().unwrap();
    assert_eq!(rows.len(), 1, "{summary}");
    // The pages `/`, `/hello/` and the one with markup have the tag.
    let (name, rest) = rows[0].as_str().unwrap().split_once(": ").unwrap();
    assert_eq!(name, "Edit of “The ferry runs again”");
    let (pages, time) = rest.split_once(", ").unwrap();
    assert_eq!(pages, "3 pages", "{summary}");
    assert!(time == "at once" || time.ends_with(" s"), "{summary}");
    assert!(!main_text(&mut tab).contains("tag t1"));
    tab.click("summary").unwrap();
    let shown = main_text(&mut tab);
    assert!(
        shown.contains("tag t1: 3 pages") && shown.contains("2 purges"),
        "{shown}"
    );
    let session = dashboard.log_in();
    let others = dashboard.json(&session, "/api/purges?site=b.test");
    assert!(!others.to_string().contains("ferry"), "{others}");
    assert!(!server.galley.log().contains("ferry"));
}

/// Texts that each view must show for `status.json`.
const PROBLEM_TEXTS: &[(&str, &[&str])] = &[
    (
        "overview",
        &[
            "Visitors get errors: No response from unix:/run/php/fpm.sock: <b>refused</b> (os error 111).",
            "example.com: No response from unix:/run/php/fpm.sock: <b>refused</b> (os error 111) for 3 min",
            "What to do: no program listens there: start PHP-FPM.",
            "The disk cache is off",
            "3 of 8",
            "1 waiting",
            "since the start: 91.0 %",
            "7 since the start",
            "5 upstream failures",
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

/// A fake admin interface reports features and problems that a test server does not have: managed PHP, certificates, a cluster, a full disk.
#[test]
fn server_problems_are_shown() {
    let json = [("Content-Type", "application/json")];
    let admin = Origin::start(move |request, writer| {
        let body = match request.path() {
            "/status" => include_str!("status.json"),
            _ => r#"{ "ok": true, "time": 1760740680, "sites": [], "entries": [], "sections": [], "next": null }"#,
        };
        let _ = writer.respond(200, &json, body.as_bytes());
    })
    .unwrap();
    let scratch = Scratch::new().unwrap();
    let token = scratch.write("token", "some-token-0123456789").unwrap();
    let mut dashboard = Dashboard::start(&admin.url(), &token);
    let mut browser = Chromium::start(&scratch.join("chromium")).unwrap();
    let mut tab = open_dashboard(&mut browser, &mut dashboard);
    tab.load_axe().unwrap();
    for (width, colors) in [(390, "light"), (1440, "dark")] {
        tab.set_viewport(width, 900).unwrap();
        tab.prefer_colors(colors).unwrap();
        for (view, texts) in PROBLEM_TEXTS {
            open(&mut tab, view);
            let shown = main_text(&mut tab);
            for text in *texts {
                assert!(shown.contains(text), "{view}: {text}: {shown}");
            }
            assert_eq!(violations(&mut tab), NO_VIOLATIONS, "{view}");
            tab.screenshot(&screenshot_path(&format!("trouble-{view}-{width}")))
                .unwrap();
        }
    }
}

#[test]
fn buttons_ask_for_confirmation_and_show_the_result() {
    let server = server_with_data();
    let mut dashboard = server.dashboard();
    let scratch = Scratch::new().unwrap();
    let mut browser = Chromium::start(&scratch.join("chromium")).unwrap();
    let mut tab = browser.new_tab().unwrap();
    tab.navigate(&dashboard.url()).unwrap();
    tab.wait("Number(document.documentElement.dataset.samples) >= 2")
        .unwrap();
    open(&mut tab, "pages");
    let hello = "[aria-label^='Purge http://a.test'][aria-label$='/hello/']";
    tab.click(hello).unwrap();
    tab.wait("document.querySelector('#confirm').open").unwrap();
    tab.load_axe().unwrap();
    assert_eq!(violations(&mut tab), NO_VIOLATIONS);
    // Escape cancels without a purge.
    tab.press("Escape", 27).unwrap();
    tab.wait("!document.querySelector('#confirm').open")
        .unwrap();
    assert!(server.get("a.test", "/hello/").is_hit());
    for (button, page) in [
        (hello, "/hello/"),
        ("[aria-label='Purge the tag t1']", "/"),
        ("#purge-site", "/"),
    ] {
        server.store("a.test", page);
        open(&mut tab, "overview");
        open(&mut tab, "pages");
        tab.click(button).unwrap();
        tab.click("#confirm-yes").unwrap();
        tab.wait("document.querySelector('#result').innerText.startsWith('Purged ')")
            .unwrap();
        assert!(!server.get("a.test", page).is_hit(), "{button}");
    }
    open(&mut tab, "purges");
    // The pages of a purge are counted in the background.
    galley_testkit::wait_for("all purges to be counted", crate::support::TIMEOUT, || {
        open(&mut tab, "overview");
        open(&mut tab, "purges");
        !main_text(&mut tab).contains("not counted")
    });
    // Purges within a moment are one edit, which lists them on demand.
    let rows = "[...document.querySelectorAll('main tbody tr')].map((row) => [...row.cells].slice(1, 3).map((cell) => cell.textContent).join(': '))";
    let rows = tab.evaluate(rows).unwrap().to_string();
    assert!(rows.contains("tag t1: "), "{rows}");
    let shown = main_text(&mut tab);
    assert!(
        shown.contains("The latest of 3 purges on a.test"),
        "{shown}"
    );
    open(&mut tab, "configuration");
    let shown = main_text(&mut tab);
    assert!(
        shown.contains("64MiB") && shown.contains("/galley.toml:"),
        "{shown}"
    );
    tab.click("#compare").unwrap();
    tab.wait("document.querySelector('#changes').innerText.includes('would change nothing')")
        .unwrap();
    assert_comparison(&server, &mut tab);
    tab.click("#logout").unwrap();
    tab.wait("document.querySelector('#title').innerText === 'Signed out'")
        .unwrap();
    assert!(!main_text(&mut tab).contains("a.test"));
}

/// Changes the configuration file and compares it with the active configuration.
fn assert_comparison(server: &TestServer, tab: &mut Tab<'_>) {
    let file = server.galley.config();
    let text = fs::read_to_string(file).unwrap();
    let changed = text
        .replace("memory = \"64MiB\"", "memory = \"65MiB\"")
        .replace("hosts = [\"b.test\"]", "hosts = [\"b.test\"]\nqueue = 7");
    fs::write(file, changed).unwrap();
    tab.click("#compare").unwrap();
    tab.wait("document.querySelector('#changes table')")
        .unwrap();
    let rows = tab.evaluate(
        "[...document.querySelectorAll('#changes tbody tr')].map((row) => row.innerText)",
    );
    let rows = rows.unwrap();
    let (memory, queue) = (rows[0].as_str().unwrap(), rows[1].as_str().unwrap());
    for part in ["[cache] memory", "\"64MiB\"", "\"65MiB\"", "/galley.toml:"] {
        assert!(memory.contains(part), "{part}: {memory}");
    }
    for part in ["[[site]] queue of b.test", "default", "7"] {
        assert!(queue.contains(part), "{part}: {queue}");
    }
    for (width, colors) in [(390, "light"), (1440, "dark")] {
        tab.set_viewport(width, 900).unwrap();
        tab.prefer_colors(colors).unwrap();
        assert_eq!(violations(tab), NO_VIOLATIONS);
    }
    fs::write(file, text).unwrap();
}

#[test]
fn two_clicks_show_why_the_cart_is_not_cached() {
    let server = server_with_data();
    let mut dashboard = server.dashboard();
    let scratch = Scratch::new().unwrap();
    let mut browser = Chromium::start(&scratch.join("chromium")).unwrap();
    let mut tab = browser.new_tab().unwrap();
    tab.navigate(&dashboard.url()).unwrap();
    tab.wait("document.querySelector('nav a[href=\"#not-cached\"]')")
        .unwrap();
    tab.click("nav a[href='#not-cached']").unwrap();
    tab.click("[aria-label$='/cart/']").unwrap();
    tab.wait("document.querySelector('#because')").unwrap();
    let text = main_text(&mut tab);
    assert!(
        text.contains("no-store") && text.contains("What to do"),
        "{text}"
    );
}

#[test]
fn untrusted_markup_is_shown_as_text() {
    let server = server_with_data();
    let mut dashboard = server.dashboard();
    let scratch = Scratch::new().unwrap();
    let mut browser = Chromium::start(&scratch.join("chromium")).unwrap();
    let mut tab = open_dashboard(&mut browser, &mut dashboard);
    open(&mut tab, "pages");
    let shown = main_text(&mut tab);
    assert!(
        shown.contains(MARKUP) && shown.contains("in use"),
        "{shown}"
    );
    open(&mut tab, "why");
    tab.evaluate(&format!(
        "document.querySelector('#url').value = 'http://a.test/{MARKUP}'; \
         document.querySelector('#cookie').value = 'wordpress_logged_in_{MARKUP}=1'; \
         document.querySelector('main form').requestSubmit()"
    ))
    .unwrap();
    tab.wait("document.querySelector('#because, #trouble:not([hidden])')")
        .unwrap();
    let elements = tab.evaluate("document.querySelectorAll('main img, main script').length");
    assert_eq!(elements.unwrap(), json!(0));
    assert_eq!(
        tab.evaluate("typeof window.hacked").unwrap(),
        json!("undefined")
    );
    // The content security policy of the page forbids scripts and markup from strings.
    let result = tab.evaluate(
        "(() => { try { document.body.innerHTML = '<p>x</p>'; return 'set' } catch { return 'refused' } })()",
    );
    assert_eq!(result.unwrap(), json!("refused"));
}

#[test]
fn a_site_token_shows_only_its_site() {
    let server = server_with_data();
    let mut dashboard = server.site_dashboard();
    let scratch = Scratch::new().unwrap();
    let mut browser = Chromium::start(&scratch.join("chromium")).unwrap();
    let mut tab = open_dashboard(&mut browser, &mut dashboard);
    let links = tab.evaluate("[...document.querySelectorAll('nav a')].map((link) => link.hash)");
    let links = links.unwrap().to_string();
    assert!(
        !links.contains("cluster") && links.contains("pages"),
        "{links}"
    );
    for view in SITE_VIEWS {
        open(&mut tab, view);
        assert!(!main_text(&mut tab).contains("b.test"), "{view}");
    }
    // The first Tab key press focuses the skip link.
    tab.navigate(&format!("http://{}/", dashboard.addr))
        .unwrap();
    tab.wait("document.querySelector('#view[data-ready]')")
        .unwrap();
    tab.press("Tab", 9).unwrap();
    let focus = tab.evaluate("document.activeElement.id").unwrap();
    assert_eq!(focus, json!("skip"));
}

/// Tests the dashboard on the address of a site, which has a login form.
#[test]
fn the_site_dashboard_accepts_a_password_login() {
    let server = SiteDashboardServer::start();
    server.store("/hello/");
    let scratch = Scratch::new().unwrap();
    let mut browser = Chromium::start(&scratch.join("chromium")).unwrap();
    let mut tab = browser.new_tab().unwrap();
    let address = format!("http://localhost:{}/galley/", server.galley.addr().port());
    tab.navigate(&address).unwrap();
    tab.wait("document.querySelector('#password')").unwrap();
    tab.load_axe().unwrap();
    let sign_in = |tab: &mut Tab<'_>, password: &str| {
        tab.evaluate(&format!(
            "document.querySelector('#name').value = 'jane'; \
             document.querySelector('#password').value = '{password}'"
        ))
        .unwrap();
        tab.click("main form button").unwrap();
    };
    let mut found = Vec::new();
    let mut check_accessibility = |tab: &mut Tab<'_>, view: &str| {
        for (width, height) in [(390, 844), (1440, 1000)] {
            tab.set_viewport(width, height).unwrap();
            for colors in ["light", "dark"] {
                tab.prefer_colors(colors).unwrap();
                let case = format!("site-{view}-{width}-{colors}");
                tab.screenshot(&screenshot_path(&case)).unwrap();
                let violations = violations(tab);
                let overflow = "document.documentElement.scrollWidth > innerWidth";
                if !violations.is_empty() || tab.evaluate(overflow).unwrap() == Value::Bool(true) {
                    found.push(format!("{case}: {violations:?}"));
                }
            }
        }
    };
    sign_in(&mut tab, "wrong");
    tab.wait("document.querySelector('#trouble').innerText.includes('wrong')")
        .unwrap();
    check_accessibility(&mut tab, "login");
    sign_in(&mut tab, "secret");
    tab.wait("Number(document.documentElement.dataset.samples) >= 2")
        .unwrap();
    for view in SITE_VIEWS {
        open(&mut tab, view);
        assert!(!main_text(&mut tab).contains("b.test"), "{view}");
        check_accessibility(&mut tab, view);
    }
    open(&mut tab, "pages");
    tab.click("#purge-site").unwrap();
    tab.click("#confirm-yes").unwrap();
    tab.wait("document.querySelector('#result').innerText.startsWith('Purged ')")
        .unwrap();
    // Scripts of the site's other pages can read neither the key nor the cookie.
    let readable = tab
        .evaluate("JSON.stringify([{ ...sessionStorage }, { ...localStorage }, document.cookie])");
    assert_eq!(readable.unwrap(), json!("[{},{},\"\"]"));
    tab.click("#logout").unwrap();
    tab.wait("document.querySelector('#password')").unwrap();
    assert!(found.is_empty(), "{}", found.join("\n"));
}
