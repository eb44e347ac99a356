//! The audit on a large WordPress: pages that print a file, which no observation sees, are planted among many. One pass must find each
//! of them and no other page, while visitors are served as before.

use std::{fs, net::SocketAddr, path::PathBuf, thread, time::Duration};

use super::{
    ExactnessSettings, PurgeMethod,
    fetch_pages::fetch_pages,
    fragments::LoadTarget,
    test_site::{ExactnessSite, HOST},
};
use crate::{TestkitError, client::Request, error::Context, wait::poll_until};

/// The size of the site.
#[derive(Debug, Clone)]
pub struct AuditedSettings {
    /// The server binary.
    pub galley: PathBuf,
    /// Folder of our plugin.
    pub plugin: PathBuf,
    /// Number of pages, besides those of a new WordPress.
    pub pages: usize,
    /// Number of pages that print a file.
    pub planted: usize,
}

/// Latencies of visitors in one interval.
#[derive(Debug, Clone, Copy, Default)]
pub struct VisitorLatencies {
    /// 99 of 100 stored pages took at most this time.
    pub hit_p99: Duration,
    /// Half of the pages that PHP generates took at most this time, with the wait for PHP.
    pub generated_p50: Duration,
    /// 99 of 100 of them.
    pub generated_p99: Duration,
    /// Requests that failed.
    pub failed: u64,
}

/// The result of a run.
#[derive(Debug, Clone, Default)]
pub struct AuditedReport {
    /// Pages that the pass audited.
    pub audited: u64,
    /// Planted pages that the pass found out of date.
    pub found: usize,
    /// Planted pages that it missed, and other pages that it took for out of date.
    pub wrong: Vec<String>,
    /// Pages that vary, by their addresses.
    pub varying: Vec<String>,
    /// Planted pages that are still out of date after the pass.
    pub still_stale: Vec<String>,
    /// Visitors before the pass.
    pub before: Vec<VisitorLatencies>,
    /// Visitors during the pass.
    pub during: Vec<VisitorLatencies>,
    /// Times at which the pass gave way, of those at which it was asked.
    pub gave_way: (usize, usize),
}

/// Audits the pages before and after their files change. `visit` requests stored and generated pages for some seconds.
///
/// # Errors
/// If a part does not start, or a page is not stored.
pub fn run(
    settings: &AuditedSettings,
    visit: &mut dyn FnMut(LoadTarget<'_>) -> Result<VisitorLatencies, TestkitError>,
    progress: &mut dyn FnMut(&str),
) -> Result<AuditedReport, TestkitError> {
    progress("starting MariaDB, WordPress, PHP-FPM and Galley");
    let methods = [PurgeMethod::Galley];
    let settings_of_site =
        ExactnessSettings::for_scripts(&settings.galley, &settings.plugin, &methods);
    let site = ExactnessSite::start(&settings_of_site)?;
    progress("writing the pages");
    let pages: Vec<String> = (0..settings.pages)
        .map(|number| format!("/audited-{number}/"))
        .collect();
    // Spread over the site.
    let step = settings.pages.checked_div(settings.planted).unwrap_or(1);
    let planted: Vec<String> = pages
        .iter()
        .step_by(step.max(1))
        .take(settings.planted)
        .cloned()
        .collect();
    write_pages(&site, &pages, &planted)?;
    progress("storing the pages");
    let targets: Vec<&str> = pages.iter().map(String::as_str).collect();
    fetch_pages(site.addr(), HOST, &targets)?;
    let stored = fetch_pages(site.addr(), HOST, &targets)?;
    if let Some((page, _)) = pages.iter().zip(&stored).find(|(_, page)| !page.is_hit) {
        return Err(TestkitError::Refused(format!("{page} is not stored")));
    }
    let mut report = AuditedReport::default();
    progress("measuring visitors without an audit");
    for _ in 0..INTERVALS_BEFORE {
        report.before.push(visit(target(&site, &pages))?);
    }
    for page in &planted {
        fs::write(file_of(&site, page), "ten to six").context("change a planted file")?;
    }
    progress("auditing all pages");
    audit(&site, &mut |site| {
        report.during.push(visit(target(site, &pages))?);
        Ok(())
    })?
    .read_into(&mut report, &planted);
    let targets: Vec<&str> = planted.iter().map(String::as_str).collect();
    let after = fetch_pages(site.addr(), HOST, &targets)?;
    let pairs = planted.iter().zip(after);
    report.still_stale = pairs
        .filter(|(_, page)| !page.content.contains("ten to six"))
        .map(|(page, _)| page.clone())
        .collect();
    Ok(report)
}

/// Makes the pages, and a plugin that prints the file of a page, if it has one.
fn write_pages(
    site: &ExactnessSite,
    pages: &[String],
    planted: &[String],
) -> Result<(), TestkitError> {
    for page in planted {
        fs::write(file_of(site, page), "nine to five").context("write a planted file")?;
    }
    let plugin = PLUGIN.replace("[[notes]]", &site.notes_dir().display().to_string());
    let file = site
        .wordpress
        .root
        .join("wp-content/mu-plugins/audited.php");
    fs::write(&file, plugin).context("write the plugin of planted pages")?;
    for first in (0..pages.len()).step_by(PAGES_AT_ONCE) {
        let end = pages.len().min(first + PAGES_AT_ONCE);
        site.wordpress.php(&format!(
            "for ( $n = {first}; $n < {end}; $n++ ) {{ wp_insert_post( array( 'post_type' => 'page', 'post_status' => 'publish', \
                'post_name' => \"audited-$n\", 'post_title' => \"Page $n\", 'post_content' => str_repeat( \"Text of page $n. \", 100 ) ) ); }}"
        ))?;
    }
    Ok(())
}

fn file_of(site: &ExactnessSite, page: &str) -> PathBuf {
    site.notes_dir()
        .join(format!("{}.txt", page.trim_matches('/')))
}

fn target<'a>(site: &ExactnessSite, pages: &'a [String]) -> LoadTarget<'a> {
    let addr: SocketAddr = site.addr();
    LoadTarget {
        addr,
        host: HOST,
        targets: pages,
    }
}

/// What the server reports about a pass.
struct AuditedPass {
    value: serde_json::Value,
    gave_way: (usize, usize),
}

/// Runs a pass, and `meanwhile` again and again until it ends.
fn audit(
    site: &ExactnessSite,
    meanwhile: &mut dyn FnMut(&ExactnessSite) -> Result<(), TestkitError>,
) -> Result<AuditedPass, TestkitError> {
    site.admin(Request::post("/audit", "application/json", "{}"))?;
    let mut gave_way = (0, 0);
    for _ in 0..MAX_INTERVALS {
        // The state is read while visitors are served.
        let (done, value) = thread::scope(|scope| {
            let watcher = scope.spawn(|| watch_pass(site));
            meanwhile(site)?;
            watcher
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
        .map(|(waits, asked, value)| {
            gave_way = (gave_way.0 + waits, gave_way.1 + asked);
            (value["pass"]["state"] == "ended", value)
        })?;
        if done {
            return Ok(AuditedPass { value, gave_way });
        }
    }
    Err(TestkitError::Refused("the pass does not end".to_owned()))
}

/// Asks for the state of the pass for a while. Returns how often it gave way, how often it was asked, and the last state.
fn watch_pass(site: &ExactnessSite) -> Result<(usize, usize, serde_json::Value), TestkitError> {
    let (mut waits, mut asked) = (0, 0);
    let mut result = Ok(serde_json::Value::Null);
    poll_until(WATCH_FOR, || {
        result = site.admin(Request::get("/audit")).and_then(|text| {
            let value: serde_json::Value = serde_json::from_str(&text)
                .map_err(|error| TestkitError::Refused(error.to_string()))?;
            let sites = value["sites"].as_array().cloned().unwrap_or_default();
            let own = sites.into_iter().find(|one| one["name"] == HOST);
            own.ok_or_else(|| TestkitError::Refused(format!("no audit of {HOST}: {text}")))
        });
        asked += 1;
        let Ok(value) = &result else { return true };
        waits += usize::from(value["pass"]["gives_way"] == true);
        thread::sleep(BETWEEN_LOOKS);
        value["pass"]["state"] == "ended"
    });
    result.map(|value| (waits, asked, value))
}

impl AuditedPass {
    fn read_into(&self, report: &mut AuditedReport, planted: &[String]) {
        report.audited = self.value["pass"]["done"].as_u64().unwrap_or_default();
        report.gave_way = self.gave_way;
        let findings = self.value["findings"].as_array();
        let of = |result: &str| -> Vec<String> {
            let all = findings.into_iter().flatten();
            all.filter(|one| one["result"] == result)
                .filter_map(|one| one["url"].as_str()?.strip_prefix(&format!("http://{HOST}")))
                .map(str::to_owned)
                .collect()
        };
        let changed = of("changed");
        report.varying = of("varies");
        report.found = planted.iter().filter(|page| changed.contains(page)).count();
        let missed = planted.iter().filter(|page| !changed.contains(page));
        let others = changed.iter().filter(|page| !planted.contains(page));
        report.wrong = missed.chain(others).cloned().collect();
    }
}

const PLUGIN: &str = r"<?php
add_filter( 'the_content', function ( $text ) {
	$file = '[[notes]]/' . get_post_field( 'post_name' ) . '.txt';
	return is_file( $file ) ? $text . '<p>Hours: ' . file_get_contents( $file ) . '</p>' : $text;
} );
";

const PAGES_AT_ONCE: usize = 200;
const INTERVALS_BEFORE: usize = 3;
/// A pass over 1,000 pages takes some minutes on a busy machine.
const MAX_INTERVALS: usize = 200;
const WATCH_FOR: Duration = Duration::from_secs(8);
const BETWEEN_LOOKS: Duration = Duration::from_millis(200);
