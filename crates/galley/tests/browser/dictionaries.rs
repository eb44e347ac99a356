//! Chromium loads a compression dictionary, gets later pages as the difference to it, and shows each page as it is now.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use galley_testkit::{Chromium, Scratch, Tab, wait_for};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::site::{PluginSite, TIMEOUT, shared};

/// Number of page loads with edits and purges between; the long form sets another: `GALLEY_LOADS=10000`.
const LOADS: usize = 60;

/// Number of posts that are read.
const POSTS: usize = 5;

/// Deadline for work of the compression threads, which get little of a busy machine.
const IDLE_TIMEOUT: Duration = TIMEOUT.saturating_mul(5);

/// A page over TLS in `br`, from curl; its head and body are lossy text.
fn curl(site: &PluginSite, path: &str) -> String {
    let output = Command::new("curl")
        .args(["--silent", "--show-error", "--include", "--insecure"])
        .args(["--header", "Accept-Encoding: br"])
        .arg(site.tls_url(path))
        .output()
        .unwrap();
    assert!(output.status.success(), "{path}: {output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Requests the pages until each names a dictionary.
fn wait_for_links(site: &PluginSite, paths: &[String]) {
    wait_for("the pages to name a dictionary", IDLE_TIMEOUT, || {
        // All of them: a dictionary needs two pages that were visited.
        let pages: Vec<String> = paths.iter().map(|path| curl(site, path)).collect();
        let names = |page: &String| page.contains("rel=\"compression-dictionary\"");
        pages.iter().all(names)
    });
}

/// The coding, the transferred and the decoded length of the page in the tab.
fn navigation(tab: &mut Tab<'_>) -> (String, u64, u64) {
    let entry = tab
        .evaluate(
            "(() => { const entry = performance.getEntriesByType('navigation')[0]; \
             return [entry.contentEncoding ?? '', entry.encodedBodySize, entry.decodedBodySize]; })()",
        )
        .unwrap();
    let number = |value: &Value| value.as_u64().unwrap_or_default();
    let coding = entry[0].as_str().unwrap_or_default().to_owned();
    (coding, number(&entry[1]), number(&entry[2]))
}

fn requests_for_dictionaries(site: &PluginSite) -> usize {
    let log = fs::read_to_string(&site.access_log).unwrap_or_default();
    let is_for = |line: &&str| line.contains("GET /galley-dictionary/") && line.contains(" 200 ");
    log.lines().filter(is_for).count()
}

#[test]
fn chromium_gets_second_pages_by_dictionary_and_never_a_broken_or_old_one() {
    let site = &*shared();
    let slugs: Vec<String> = (0..POSTS).map(|n| format!("by-dictionary-{n}")).collect();
    let posts: Vec<u32> = slugs.iter().map(|slug| site.publish(slug)).collect();
    let paths: Vec<String> = slugs.iter().map(|slug| format!("/{slug}/")).collect();
    wait_for_links(site, &paths);

    let scratch = Scratch::new().unwrap();
    let mut browser = Chromium::start_trusting(&scratch.join("chromium"), &site.pin).unwrap();
    let mut tab = browser.new_tab().unwrap();
    let before = requests_for_dictionaries(site);
    tab.navigate(&site.tls_url(&paths[0])).unwrap();
    let (coding, first, _) = navigation(&mut tab);
    assert_ne!(coding, "dcz");
    wait_for("chromium to load the dictionary", IDLE_TIMEOUT, || {
        requests_for_dictionaries(site) > before
    });
    for (path, slug) in paths.iter().zip(&slugs).skip(1) {
        let (encoded, decoded) = wait_for_page_by_dictionary(site, &mut tab, path, "first");
        assert!(
            encoded * 3 < first && decoded > 10_000,
            "{path}: {encoded} of {first}, {decoded}"
        );
        assert_shows(&mut tab, path, slug, "");
    }

    let counts = read_while_edited(site, &mut tab, &slugs, &posts);
    println!("{counts:?}");
    // How many is a matter of the machine's speed: the forms of an edited page are made when a processor is idle.
    assert!(counts.by_dictionary > 0, "{counts:?}");
}

/// Loads a page until it comes by dictionary: the browser stores one a moment after it has loaded it, and the form is made when a
/// processor is idle. The label makes each address new to the browser. Returns the transferred and the decoded length.
fn wait_for_page_by_dictionary(
    site: &PluginSite,
    tab: &mut Tab<'_>,
    path: &str,
    label: &str,
) -> (u64, u64) {
    let mut loads = 0;
    let mut lengths = (0, 0);
    wait_for("a page by dictionary", IDLE_TIMEOUT, || {
        loads += 1;
        let url = site.tls_url(&format!("{path}?utm_source={label}{loads}"));
        tab.navigate(&url).unwrap();
        let (coding, encoded, decoded) = navigation(tab);
        lengths = (encoded, decoded);
        coding == "dcz"
    });
    lengths
}

/// What [`read_while_edited`] has done.
#[derive(Debug, Default)]
struct Counts {
    /// Navigations, all of which showed what PHP generates.
    loads: usize,
    by_dictionary: usize,
    edits: usize,
    purges: usize,
    seconds: f64,
}

/// Loads posts between edits and purges, and compares the bytes that Chromium has decoded with those that PHP generates.
fn read_while_edited(
    site: &PluginSite,
    tab: &mut Tab<'_>,
    slugs: &[String],
    posts: &[u32],
) -> Counts {
    let wanted = std::env::var("GALLEY_LOADS").ok();
    let wanted = wanted.map_or(LOADS, |text| text.parse().expect("a number"));
    let paths: Vec<String> = slugs.iter().map(|slug| format!("/{slug}/")).collect();
    let mut texts = vec![String::new(); slugs.len()];
    let mut generated = hashes(site, &paths);
    let mut counts = Counts::default();
    let began = Instant::now();
    // The resources of the pages are always the same; without them, a load takes a third of the time.
    tab.block_urls(&["*.css*", "*.js*", "*.png*", "*.jpg*", "*.svg*", "*.ico*"])
        .unwrap();
    for load in 0..wanted {
        let at = load * 3 % slugs.len();
        match load % 60 {
            9 | 24 | 49 => {
                texts[at] = format!("Edit {load}.");
                site.php(&format!(
                    "wp_update_post(['ID' => {}, 'post_content' => \
                     '<!-- wp:paragraph --><p>Text of {}. {}</p><!-- /wp:paragraph -->']);",
                    posts[at], slugs[at], texts[at]
                ));
                generated = hashes(site, &paths);
                counts.edits += 1;
            }
            19 if load % 300 == 19 => {
                purge(site, &["purge", "--all"]);
                counts.purges += 1;
                // Once; later the loads themselves make the next dictionary.
                if load == 19 {
                    wait_for_links(site, &paths);
                    tab.navigate(&site.tls_url(&format!("{}?utm_source=anew", paths[0])))
                        .unwrap();
                    wait_for_page_by_dictionary(site, tab, &paths[1], "anew");
                }
            }
            34 => {
                purge(site, &["purge", "--url", &site.tls_url(&paths[at])]);
                counts.purges += 1;
            }
            _ => {}
        }
        tab.navigate(&site.tls_url(&format!("{}?utm_source=load{load}", paths[at])))
            .unwrap();
        let (coding, ..) = navigation(tab);
        counts.loads += 1;
        counts.by_dictionary += usize::from(coding == "dcz");
        assert_shows(tab, &paths[at], &slugs[at], &texts[at]);
        if decoded(tab) != generated[at] {
            let differences = differences(&decoded_text(tab), &generated_page(site, &paths[at]));
            panic!(
                "load {load} of {}: {coding}, {texts:?}\n{differences}",
                paths[at]
            );
        }
    }
    counts.seconds = began.elapsed().as_secs_f64();
    counts
}

fn purge(site: &PluginSite, arguments: &[&str]) {
    let output = site.galley.cli(arguments).unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// The hashes of the pages as PHP generates them now.
fn hashes(site: &PluginSite, paths: &[String]) -> Vec<String> {
    let pages = paths.iter().map(|path| generated_page(site, path));
    pages
        .map(|page| STANDARD.encode(Sha256::digest(page)))
        .collect()
}

/// A page as PHP generates it now: those of visitors with a cart are not stored.
fn generated_page(site: &PluginSite, path: &str) -> Vec<u8> {
    let output = Command::new("curl")
        .args(["--silent", "--show-error", "--fail", "--insecure"])
        .args(["--header", "Cookie: woocommerce_items_in_cart=1"])
        .arg(site.tls_url(path))
        .output()
        .unwrap();
    assert!(output.status.success(), "{path}: {output:?}");
    output.stdout
}

/// The lines that only one of two pages has.
fn differences(shown: &str, generated: &[u8]) -> String {
    let generated = String::from_utf8_lossy(generated);
    let only = |one: &str, other: &str, side: &str| -> String {
        let lines = one.lines().filter(|line| !other.contains(line));
        let lines: Vec<String> = lines.map(|line| format!("{side} {line}")).collect();
        lines.join("\n")
    };
    let shown_only = only(shown, &generated, "shown");
    format!("{shown_only}\n{}", only(&generated, shown, "generated"))
}

/// The hash of the page's bytes after Chromium has decoded them, which are in its cache.
fn decoded(tab: &mut Tab<'_>) -> String {
    cached(
        tab,
        "const hash = await crypto.subtle.digest('SHA-256', await page.arrayBuffer()); \
         return btoa(String.fromCharCode(...new Uint8Array(hash)));",
    )
}

/// The same bytes as text.
fn decoded_text(tab: &mut Tab<'_>) -> String {
    cached(tab, "return await page.text();")
}

/// What a function returns of the page in Chromium's cache.
fn cached(tab: &mut Tab<'_>, function: &str) -> String {
    let value = tab.evaluate(&format!(
        "(async () => {{ \
           const page = await fetch(location.href, {{ cache: 'only-if-cached', mode: 'same-origin' }}); \
           {function} }})()"
    ));
    value.unwrap().as_str().unwrap_or_default().to_owned()
}

/// Asserts that the tab shows the whole post with its present text.
fn assert_shows(tab: &mut Tab<'_>, path: &str, slug: &str, text: &str) {
    let shown = tab
        .evaluate(
            "[location.pathname, document.body.innerText, \
             !!document.querySelector('footer, #colophon, .wp-site-blocks > footer')]",
        )
        .unwrap();
    let body = shown[1].as_str().unwrap_or_default();
    let is_right = shown[0] == json!(path)
        && body.contains(&format!("Text of {slug}."))
        && body.contains(text)
        && shown[2] == json!(true);
    assert!(is_right, "{path} {text}: {shown}");
}
