//! The small machine: MariaDB, a WordPress with its sample site, PHP-FPM and the server, all in one control group of 256 MB.
//!
//! Where no group can be made, memory is not limited, and the row says so. The server has its default settings, less the
//! admin socket's place and the number of PHP's workers.

use std::net::SocketAddr;

use super::resources::Held;
use super::visitors::{Counted, Visitor, Wanted};
use super::{Row, Setting};
use crate::control_group::ControlGroup;
use crate::{FpmOptions, Galley, MariaDb, Options, PhpFpm, Scratch, TestkitError, WordPress};

/// The host of the site.
pub(super) const HOST: &str = "stress.test";

/// See the module. Parts end in the order of their fields.
pub(super) struct Stage {
    pub(super) galley: Galley,
    pub(super) fpm: PhpFpm,
    _database: MariaDb,
    pub(super) wordpress: WordPress,
    /// Addresses of pages, all of them stored.
    pub(super) pages: Vec<String>,
    group: Result<ControlGroup, String>,
    _scratch: Scratch,
}

impl Stage {
    /// `life`: how long pages are fresh.
    pub(super) fn start(setting: &Setting, life: &str) -> Result<Self, TestkitError> {
        (setting.progress)("starting WordPress, its database and PHP");
        let scratch = Scratch::new()?;
        let group = ControlGroup::create("stress", LIMIT);
        let parts = match &group {
            Ok(group) => group
                .run_inside(|| Parts::start(setting, &scratch, life))
                .map_err(TestkitError::Refused)?,
            Err(_) => Parts::start(setting, &scratch, life),
        }?;
        let pages = pages(&parts.wordpress)?;
        let stage = Self {
            galley: parts.galley,
            fpm: parts.fpm,
            _database: parts.database,
            wordpress: parts.wordpress,
            pages,
            group,
            _scratch: scratch,
        };
        stage.warm()?;
        Ok(stage)
    }

    pub(super) fn addr(&self) -> SocketAddr {
        self.galley.addr()
    }

    pub(super) fn held(&self) -> Held {
        Held::by(self.galley.pid()).with_store(&self.galley)
    }

    /// Requests that found no place in time so far, by the server's own count.
    pub(super) fn turned_away(&self) -> u64 {
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

    /// The page that comes in turn number `number`.
    pub(super) fn page(&self, number: u64) -> String {
        let count = self.pages.len().max(1) as u64;
        let place = usize::try_from(number % count).unwrap_or_default();
        self.pages.get(place).cloned().unwrap_or_default()
    }

    /// Ends a part: what the server holds now, whether it lives, and what the machine came to.
    pub(super) fn close(&self, row: &mut Row) {
        let first = row.held[0];
        row.held[1] = Held::settled(self.galley.pid(), first).with_store(&self.galley);
        if self.galley.has_ended() {
            row.broken.push("the server has ended".to_owned());
        }
        let threads = row.held.map(|held| held.threads);
        row.notes.push(format!(
            "it had {} threads first and {} last",
            threads[0], threads[1]
        ));
        let stored = row.held.map(|held| held.stored / 1_000_000);
        row.notes.push(format!(
            "of its memory, {} MB were stored pages first and {} MB last",
            stored[0], stored[1]
        ));
        match &self.group {
            Ok(group) => {
                let peak = group.peak_bytes().unwrap_or_default() / 1_000_000;
                row.notes
                    .push(format!("all together had at most {peak} MB of 268"));
            }
            Err(why) => row.notes.push(format!("memory was not limited: {why}")),
        }
    }

    /// Every page is generated once, and stored.
    fn warm(&self) -> Result<(), TestkitError> {
        let mut visitor = Visitor::new(self.addr(), HOST);
        let mut counted = Counted::default();
        for page in &self.pages {
            visitor.get(page, Wanted::Stored, &mut counted);
        }
        if counted.failures == 0 {
            return Ok(());
        }
        Err(TestkitError::Refused(format!(
            "pages cannot be generated: {}\n{}",
            counted.complaints.join("\n"),
            self.galley.log()
        )))
    }
}

struct Parts {
    galley: Galley,
    fpm: PhpFpm,
    database: MariaDb,
    wordpress: WordPress,
}

impl Parts {
    fn start(setting: &Setting, scratch: &Scratch, life: &str) -> Result<Self, TestkitError> {
        let options = Options {
            mu_plugins: vec![("stress.php".to_owned(), LARGE.to_owned())],
            ..Options::default()
        };
        let (database, wordpress) = crate::wordpress_from_template(scratch.path(), &options)?;
        let options = FpmOptions {
            workers: WORKERS,
            ini: vec![
                ("opcache.memory_consumption".into(), "32".into()),
                ("opcache.revalidate_freq".into(), "60".into()),
            ],
            ..FpmOptions::default()
        };
        let fpm = PhpFpm::start(&scratch.join("fpm"), &options)?;
        let dir = scratch.path().display();
        let text = format!(
            "[server]\nlisten = [\"127.0.0.1:0\"]\n[admin]\nlisten = \"unix:{dir}/admin.sock\"\n[log]\naccess = \"{dir}/access.log\"\n\
             [[site]]\nhosts = [\"{HOST}\"]\nroot = \"{}\"\nphp = \"{}\"\nin_flight = {WORKERS}\ncron = \"off\"\n[site.ttl]\ndefault = \"{life}\"\n",
            wordpress.root.display(),
            fpm.address()
        );
        let file = scratch.write("galley.toml", text)?;
        let galley = Galley::start_config(&setting.galley, &scratch.dir("run")?, &file)?;
        Ok(Self {
            galley,
            fpm,
            database,
            wordpress,
        })
    }
}

/// Paths of the front page and of posts and pages.
fn pages(wordpress: &WordPress) -> Result<Vec<String>, TestkitError> {
    let said = wordpress.php(
        "foreach (get_posts(['numberposts' => 20, 'post_type' => ['post', 'page'], 'has_password' => false]) as $post) { \
         echo wp_parse_url(get_permalink($post), PHP_URL_PATH), \"\\n\"; }",
    )?;
    let mut pages = vec!["/".to_owned()];
    pages.extend(
        said.lines()
            .map(str::trim)
            .filter(|line| line.len() > 1)
            .map(str::to_owned),
    );
    if pages.len() < 5 {
        return Err(TestkitError::Refused(format!(
            "the site has too few pages: {said}"
        )));
    }
    Ok(pages)
}

/// The machine.
const LIMIT: u64 = 256 << 20;

/// What fits beside the database.
const WORKERS: usize = 3;

/// A download of 16 MB that PHP makes as it goes, as backup plugins do: more than the buffers of a connection.
const LARGE: &str = "<?php
if ( isset( $_GET['stress_large'] ) ) {
	header( 'Cache-Control: no-store' );
	for ( $i = 0; $i < 256; $i++ ) {
		echo str_repeat( 'x', 65536 );
		flush();
	}
	exit;
}
";
