//! What is the same for all stacks: one WordPress with its database, the pages that are requested, the machine's cores, and where
//! everything lies.

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
use crate::{
    bench::{Cores, Interrupt},
    demo::CommandError,
};

/// How much of everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Full,
    /// Fewer requests.
    Quick,
    /// The probes alone, of what the author ended with and Galley.
    Short,
}

/// See the module. The database ends with it.
#[derive(Debug)]
pub(super) struct Stage {
    pub(super) form: Form,
    pub(super) galley: PathBuf,
    pub(super) cores: Cores,
    pub(super) interrupt: Interrupt,
    pub(super) wordpress: WordPress,
    /// Paths of posts: the probes request one after the other.
    pub(super) posts: Vec<String>,
    /// Path of a picture.
    pub(super) picture: String,
    /// What WordPress puts behind the names of its cookies.
    pub(super) cookie_hash: String,
    database: MariaDb,
    notes: PathBuf,
    scratch: Scratch,
    next: AtomicU32,
}

/// What the stage is made with.
#[derive(Debug)]
pub(super) struct Setting<'a> {
    pub(super) form: Form,
    pub(super) galley: PathBuf,
    /// The folder of Galley's plugin.
    pub(super) plugin: &'a Path,
    pub(super) interrupt: Interrupt,
}

impl Stage {
    /// Starts the database and installs WordPress, the scripts of the articles and Galley's plugin.
    pub(super) fn start(setting: Setting<'_>) -> Result<Self, CommandError> {
        let scratch = Scratch::new()?;
        let notes = scratch.dir("notes")?;
        fs::set_permissions(&notes, fs::Permissions::from_mode(0o1777))?;
        let (database, wordpress) =
            wordpress_from_template(&scratch.join("site"), &options(&notes))?;
        for (name, text) in FILES {
            fs::write(wordpress.root.join(name), text)?;
        }
        let index = wordpress.root.join("index.php");
        let own = fs::read_to_string(&index)?;
        fs::write(&index, own.replacen("<?php", FRONT, 1))?;
        wordpress.install_plugin(setting.plugin)?;
        let said = wordpress.php(LOOK)?;
        let mut lines = said.lines().map(str::to_owned);
        let mut next = || lines.next().ok_or("WordPress names no picture");
        let (cookie_hash, picture) = (next()?, next()?);
        let posts: Vec<String> = lines.collect();
        if posts.len() < POSTS {
            return Err(format!("WordPress names too few posts:\n{said}").into());
        }
        Ok(Self {
            form: setting.form,
            galley: setting.galley,
            cores: Cores::choose(),
            interrupt: setting.interrupt,
            wordpress,
            posts,
            picture,
            cookie_hash,
            database,
            notes,
            scratch,
            next: AtomicU32::new(0),
        })
    }

    /// A new folder with this name in its name.
    pub(super) fn dir(&self, name: &str) -> Result<PathBuf, CommandError> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        Ok(self.scratch.dir(&format!("{number}-{name}"))?)
    }

    /// Removes such a folder: access logs are large.
    pub(super) fn remove(dir: &Path) {
        let _ = fs::remove_dir_all(dir);
    }

    /// Process id of the database.
    pub(super) fn database(&self) -> u32 {
        self.database.pid()
    }

    /// A word that no other request has, for `?seeds-probe=`.
    pub(super) fn probe_name(&self) -> String {
        format!("p{}", self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// How often WordPress generated a page for requests with this `seeds-probe`.
    pub(super) fn generated(&self, name: &str) -> usize {
        let text = fs::read_to_string(self.notes.join("generated")).unwrap_or_default();
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

    /// What the body of that page contains.
    pub(super) fn mark(page: Page) -> &'static str {
        match page {
            Page::Home | Page::Post => "</html>",
            Page::Hello => HELLO,
            Page::Thirteen => THIRTEEN,
            Page::Script => "QUERY_STRING=name=tide&height=3",
        }
    }
}

fn options(notes: &Path) -> Options {
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
            notes.display()
        ),
        ..Options::default()
    }
}

/// The name under which visitors know the site.
pub(super) const HOST: &str = "seeds.test";
/// The hash of cookies, a picture, and posts, newest first: the page with pictures is among the first.
const LOOK: &str = "echo COOKIEHASH, \"\\n\"; \
    $picture = get_posts( array( 'post_type' => 'attachment', 'numberposts' => 1, 'post_status' => 'inherit' ) )[0]; \
    echo wp_make_link_relative( wp_get_attachment_url( $picture->ID ) ), \"\\n\"; \
    foreach ( get_posts( array( 'numberposts' => 30, 'offset' => 3, 'has_password' => false ) ) as $post ) { \
        echo wp_make_link_relative( get_permalink( $post ) ), \"\\n\"; }";
/// More than the probes of one stack request.
const POSTS: usize = 20;
/// As long as the published responses were.
const HELLO: &str = "<html><body>Hello World!</body></html>";
const THIRTEEN: &str = "Hello, World\n";
/// In front of WordPress's own index.php: the script has an address as pages have, but needs no WordPress.
const FRONT: &str = "<?php
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
