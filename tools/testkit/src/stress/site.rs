//! A site on a small machine: MariaDB, a WordPress with sample content, PHP-FPM and the server, all in one control group of 256 MB.
//!
//! If no control group can be created, memory is not limited, and the report says so. The server has its default settings except
//! for the addresses and paths, the lifetime of pages, cron and the number of slots, which is that of the PHP workers.

use std::net::SocketAddr;

use super::resources::ResourceUsage;
use super::visitor::{Expected, Visitor, VisitorCounts};
use super::{PartReport, StressSettings};
use crate::control_group::ControlGroup;
use crate::{FpmOptions, Galley, MariaDb, Options, PhpFpm, Scratch, TestkitError, WordPress};

/// The host of the site.
pub(super) const HOST: &str = "stress.test";

/// A running site; its processes end in the order of the fields.
pub(super) struct StressSite {
    pub(super) galley: Galley,
    pub(super) fpm: PhpFpm,
    _database: MariaDb,
    pub(super) wordpress: WordPress,
    /// Paths of pages, all of them stored.
    pub(super) pages: Vec<String>,
    group: Result<ControlGroup, String>,
    _scratch: Scratch,
}

impl StressSite {
    /// Starts the site and stores its pages, which are fresh for `ttl`.
    pub(super) fn start(settings: &StressSettings, ttl: &str) -> Result<Self, TestkitError> {
        let machine = Machine {
            ttl,
            plugin: LARGE_DOWNLOAD,
            workers: WORKERS,
            server: "",
            files: &[],
        };
        Self::start_as(settings, &machine)
    }

    /// The same with the plugin `shop`, two workers, and these lines of `[server]` with the files that they name.
    pub(super) fn with_shop(
        settings: &StressSettings,
        ttl: &str,
        shop: &str,
        server: &str,
        files: &[(&str, String)],
    ) -> Result<Self, TestkitError> {
        let machine = Machine {
            ttl,
            plugin: shop,
            workers: 2,
            server,
            files,
        };
        Self::start_as(settings, &machine)
    }

    fn start_as(settings: &StressSettings, machine: &Machine<'_>) -> Result<Self, TestkitError> {
        (settings.progress)("starting WordPress, its database and PHP");
        let scratch = Scratch::new()?;
        let group = ControlGroup::create("stress", LIMIT);
        let processes = match &group {
            Ok(group) => group
                .run_inside(|| Processes::start(settings, &scratch, machine))
                .map_err(TestkitError::Refused)?,
            Err(_) => Processes::start(settings, &scratch, machine),
        }?;
        let pages = page_paths(&processes.wordpress)?;
        let site = Self {
            galley: processes.galley,
            fpm: processes.fpm,
            _database: processes.database,
            wordpress: processes.wordpress,
            pages,
            group,
            _scratch: scratch,
        };
        site.store_pages()?;
        Ok(site)
    }

    pub(super) fn addr(&self) -> SocketAddr {
        self.galley.addr()
    }

    /// Adds a line to the configuration of the site, and reloads.
    pub(super) fn reload_with(&self, line: &str) -> Result<(), TestkitError> {
        let failed = |why: String| TestkitError::Refused(format!("cannot reload: {why}"));
        let file = self.galley.config();
        let text = std::fs::read_to_string(file).map_err(|why| failed(why.to_string()))?;
        let text = text.replace("[site.ttl]", &format!("{line}\n[site.ttl]"));
        std::fs::write(file, text).map_err(|why| failed(why.to_string()))?;
        let output = self.galley.cli(&["reload"])?;
        if output.status.success() {
            return Ok(());
        }
        Err(failed(String::from_utf8_lossy(&output.stderr).into_owned()))
    }

    pub(super) fn usage(&self) -> ResourceUsage {
        ResourceUsage::of(self.galley.pid()).with_stored(&self.galley)
    }

    /// The number of requests that the server has rejected so far, as it reports it.
    pub(super) fn rejected(&self) -> u64 {
        let status = self.galley.cli(&["status", "--json"]).ok();
        let status = status.and_then(|output| serde_json::from_slice(&output.stdout).ok());
        let status: serde_json::Value = status.unwrap_or_default();
        let classes = status["sites"][0]["upstreams"][0]["classes"].as_object();
        let counts = classes
            .into_iter()
            .flatten()
            .map(|(_, counts)| counts["rejected"].as_u64());
        counts.flatten().sum()
    }

    /// Returns the path of the page for request `number`; the pages take turns.
    pub(super) fn page(&self, number: u64) -> String {
        let count = self.pages.len().max(1) as u64;
        let index = usize::try_from(number % count).unwrap_or_default();
        self.pages.get(index).cloned().unwrap_or_default()
    }

    /// Ends a part: adds the final resource usage, and a violation if the server has ended.
    pub(super) fn close(&self, report: &mut PartReport) {
        let first = report.usage[0];
        report.usage[1] =
            ResourceUsage::settled(self.galley.pid(), first).with_stored(&self.galley);
        if self.galley.has_ended() {
            report.violations.push("the server has ended".to_owned());
        }
        let threads = report.usage.map(|usage| usage.threads);
        report.notes.push(format!(
            "the server had {} threads first and {} last",
            threads[0], threads[1]
        ));
        let stored = report.usage.map(|usage| usage.stored / 1_000_000);
        report.notes.push(format!(
            "of its memory, {} MB were stored pages first and {} MB last",
            stored[0], stored[1]
        ));
        match &self.group {
            Ok(group) => {
                let peak = group.peak_bytes().unwrap_or_default() / 1_000_000;
                report.notes.push(format!(
                    "the peak memory of all processes was {peak} MB of 268"
                ));
            }
            Err(why) => report.notes.push(format!("memory was not limited: {why}")),
        }
    }

    /// Requests every page once.
    fn store_pages(&self) -> Result<(), TestkitError> {
        let mut visitor = Visitor::new(self.addr(), HOST);
        let mut counts = VisitorCounts::default();
        for page in &self.pages {
            visitor.get(page, Expected::Stored, &mut counts);
        }
        if counts.failures == 0 {
            return Ok(());
        }
        Err(TestkitError::Refused(format!(
            "pages cannot be generated: {}\n{}",
            counts.examples.join("\n"),
            self.galley.log()
        )))
    }
}

/// What differs between sites.
#[derive(Clone, Copy)]
struct Machine<'m> {
    ttl: &'m str,
    plugin: &'m str,
    workers: usize,
    /// Lines of `[server]`, with `FOLDER` for that of `files`.
    server: &'m str,
    /// Names and contents of files beside the configuration.
    files: &'m [(&'m str, String)],
}

struct Processes {
    galley: Galley,
    fpm: PhpFpm,
    database: MariaDb,
    wordpress: WordPress,
}

impl Processes {
    fn start(
        settings: &StressSettings,
        scratch: &Scratch,
        machine: &Machine<'_>,
    ) -> Result<Self, TestkitError> {
        let Machine {
            ttl,
            plugin,
            workers,
            server,
            files,
        } = *machine;
        for (name, text) in files {
            scratch.write(name, text)?;
        }
        let options = Options {
            mu_plugins: vec![("stress.php".to_owned(), plugin.to_owned())],
            ..Options::default()
        };
        let (database, wordpress) = crate::wordpress_from_template(scratch.path(), &options)?;
        let options = FpmOptions {
            workers,
            ini: vec![
                ("opcache.memory_consumption".into(), "32".into()),
                ("opcache.revalidate_freq".into(), "60".into()),
            ],
            ..FpmOptions::default()
        };
        let fpm = PhpFpm::start(&scratch.join("fpm"), &options)?;
        let dir = scratch.path().display();
        let server = server.replace("FOLDER", &dir.to_string());
        let text = format!(
            "[server]\nlisten = [\"127.0.0.1:0\"]\n{server}\n[admin]\nlisten = \"unix:{dir}/admin.sock\"\n[log]\naccess = \"{dir}/access.log\"\n\
             [[site]]\nhosts = [\"{HOST}\"]\nroot = \"{}\"\nphp = \"{}\"\nin_flight = {workers}\ncron = \"off\"\n[site.ttl]\ndefault = \"{ttl}\"\n",
            wordpress.root.display(),
            fpm.address()
        );
        let file = scratch.write("galley.toml", text)?;
        let galley = Galley::start_config(&settings.galley, &scratch.dir("run")?, &file)?;
        Ok(Self {
            galley,
            fpm,
            database,
            wordpress,
        })
    }
}

/// Paths of the front page and of posts and pages.
fn page_paths(wordpress: &WordPress) -> Result<Vec<String>, TestkitError> {
    let output = wordpress.php(
        "foreach (get_posts(['numberposts' => 20, 'post_type' => ['post', 'page'], 'has_password' => false]) as $post) { \
         echo wp_parse_url(get_permalink($post), PHP_URL_PATH), \"\\n\"; }",
    )?;
    let mut pages = vec!["/".to_owned()];
    pages.extend(
        output
            .lines()
            .map(str::trim)
            .filter(|line| line.len() > 1)
            .map(str::to_owned),
    );
    if pages.len() < 5 {
        return Err(TestkitError::Refused(format!(
            "the site has too few pages: {output}"
        )));
    }
    Ok(pages)
}

/// Memory of the machine.
const LIMIT: u64 = 256 << 20;

/// As many as fit next to the database.
const WORKERS: usize = 3;

/// A download of 16 MB that PHP generates while it sends it, as backup plugins do: more than the buffers of a connection.
const LARGE_DOWNLOAD: &str = "<?php
if ( isset( $_GET['stress_large'] ) ) {
	header( 'Cache-Control: no-store' );
	for ( $i = 0; $i < 256; $i++ ) {
		echo str_repeat( 'x', 65536 );
		flush();
	}
	exit;
}
";
