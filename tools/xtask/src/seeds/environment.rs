//! The environment of all stacks: one WordPress with its database, the pages that are requested, the cores, and the folders.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};

use galley_testkit::{
    Cron, MariaDb, Options, SampleContent, Scratch, WordPress, exactness::PURGE_MODELS,
    wordpress_from_template,
};

use super::article::Page;
use crate::{bench::Cores, error::CommandError, interrupt::Interrupt};

/// The amount of work of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RunMode {
    Full,
    /// Fewer requests.
    Quick,
    /// Only the probes, and only the author's final stack and Galley.
    Short,
}

/// The environment of all stacks. Dropping it stops the database.
#[derive(Debug)]
pub(super) struct SeedsEnvironment {
    pub(super) mode: RunMode,
    pub(super) galley: PathBuf,
    pub(super) cores: Cores,
    pub(super) interrupt: Interrupt,
    pub(super) wordpress: WordPress,
    /// Paths of posts, for the probes.
    pub(super) posts: Vec<String>,
    /// Path of a picture.
    pub(super) picture: String,
    /// The suffix of the names of WordPress's cookies.
    pub(super) cookie_hash: String,
    database: MariaDb,
    log_dir: PathBuf,
    scratch: Scratch,
    next: AtomicU32,
}

/// The settings of the environment.
#[derive(Debug)]
pub(super) struct EnvironmentSettings<'a> {
    pub(super) mode: RunMode,
    pub(super) galley: PathBuf,
    /// The folder of Galley's plugin.
    pub(super) plugin: &'a Path,
    pub(super) interrupt: Interrupt,
}

impl SeedsEnvironment {
    /// Starts the database and installs WordPress, the articles' scripts and Galley's plugin.
    pub(super) fn start(settings: EnvironmentSettings<'_>) -> Result<Self, CommandError> {
        let scratch = Scratch::new()?;
        let log_dir = scratch.dir("notes")?;
        fs::set_permissions(&log_dir, fs::Permissions::from_mode(0o1777))?;
        let (database, wordpress) =
            wordpress_from_template(&scratch.join("site"), &options(&log_dir))?;
        for (name, text) in FILES {
            fs::write(wordpress.root.join(name), text)?;
        }
        let index = wordpress.root.join("index.php");
        let original = fs::read_to_string(&index)?;
        fs::write(&index, original.replacen("<?php", ROUTER, 1))?;
        wordpress.install_plugin(settings.plugin)?;
        let output = wordpress.php(SITE_FACTS)?;
        let mut lines = output.lines().map(str::to_owned);
        let mut next = || lines.next().ok_or("WordPress has no picture");
        let (cookie_hash, picture) = (next()?, next()?);
        let posts: Vec<String> = lines.collect();
        if posts.len() < MIN_POSTS {
            return Err(format!("WordPress has too few posts:\n{output}").into());
        }
        Ok(Self {
            mode: settings.mode,
            galley: settings.galley,
            cores: Cores::choose(),
            interrupt: settings.interrupt,
            wordpress,
            posts,
            picture,
            cookie_hash,
            database,
            log_dir,
            scratch,
            next: AtomicU32::new(0),
        })
    }

    /// Creates a folder whose name contains `name`.
    pub(super) fn dir(&self, name: &str) -> Result<PathBuf, CommandError> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        Ok(self.scratch.dir(&format!("{number}-{name}"))?)
    }

    /// Removes such a folder, because access logs are large.
    pub(super) fn remove(dir: &Path) {
        let _ = fs::remove_dir_all(dir);
    }

    /// Process id of the database.
    pub(super) fn database(&self) -> u32 {
        self.database.pid()
    }

    /// A unique value for `?seeds-probe=`.
    pub(super) fn probe_name(&self) -> String {
        format!("p{}", self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// How often WordPress generated a page for requests with this `seeds-probe`.
    pub(super) fn generation_count(&self, name: &str) -> usize {
        let text = fs::read_to_string(self.log_dir.join("generated")).unwrap_or_default();
        text.lines().filter(|line| *line == name).count()
    }

    /// The path and query of a page.
    pub(super) fn target(&self, page: Page) -> &str {
        match page {
            Page::Home => "/",
            Page::Post => self.posts.first().map_or("/", String::as_str),
            Page::Hello => "/hello/",
            Page::Thirteen => "/thirteen.html",
            Page::Script => "/script.php?name=tide&height=3",
        }
    }

    /// A string that the body of a page contains.
    pub(super) fn mark(page: Page) -> &'static str {
        match page {
            Page::Home | Page::Post => "</html>",
            Page::Hello => HELLO,
            Page::Thirteen => THIRTEEN,
            Page::Script => "QUERY_STRING=name=tide&height=3",
        }
    }
}

fn options(log_dir: &Path) -> Options {
    let file = |name: &str, text: &str| (name.to_owned(), text.to_owned());
    Options {
        url: Some(format!("http://{HOST}")),
        sample: SampleContent::Full,
        cron: Cron::Off,
        mu_plugins: vec![
            file("a-models.php", PURGE_MODELS),
            file("b-seeds.php", include_str!("settings/site.php")),
        ],
        extra_config: format!(
            "define( 'EXACTNESS_NOTES', '{}' );\ndefine( 'WP_ACCESSIBLE_HOSTS', '127.0.0.1' );",
            log_dir.display()
        ),
        ..Options::default()
    }
}

/// The host name of the site.
pub(super) const HOST: &str = "seeds.test";
/// Prints the cookie hash, the path of a picture, and those of posts, newest first. A post with pictures is among the first.
const SITE_FACTS: &str = "echo COOKIEHASH, \"\\n\"; \
    $picture = get_posts( array( 'post_type' => 'attachment', 'numberposts' => 1, 'post_status' => 'inherit' ) )[0]; \
    echo wp_make_link_relative( wp_get_attachment_url( $picture->ID ) ), \"\\n\"; \
    foreach ( get_posts( array( 'numberposts' => 30, 'offset' => 3, 'has_password' => false ) ) as $post ) { \
        echo wp_make_link_relative( get_permalink( $post ) ), \"\\n\"; }";
/// More than the probes of one stack request.
const MIN_POSTS: usize = 20;
/// The length of the published responses.
const HELLO: &str = "<html><body>Hello World!</body></html>";
const THIRTEEN: &str = "Hello, World\n";
/// Prepended to WordPress's index.php: the script has a URL like that of a page, but does not load WordPress.
const ROUTER: &str = "<?php
if ( '/hello/' === $_SERVER['REQUEST_URI'] ) {
    echo '<html><body>Hello World!</body></html>', \"\\n\";
    exit;
}
";
const FILES: [(&str, &str); 2] = [
    ("thirteen.html", THIRTEEN),
    (
        "script.php",
        "<?php
header( 'Content-Type: text/plain' );
header( 'Cache-Control: no-store' );
foreach ( $_SERVER as $name => $value ) {
    echo $name, '=', is_scalar( $value ) ? $value : '', \"\\n\";
}
",
    ),
];
