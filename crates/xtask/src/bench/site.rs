//! The WordPress that all contenders serve, its database, and which of its pages are asked for.

use std::path::{Path, PathBuf};

use galley_testkit::{Cron, MariaDb, Options, SampleContent, wordpress_from_template};

use super::plan::Page;
use crate::demo::Complaint;

/// A WordPress with its database; the database ends with it.
#[derive(Debug)]
pub(super) struct Site {
    database: MariaDb,
    root: PathBuf,
    front: Target,
    post: Target,
}

#[derive(Debug)]
struct Target {
    path: String,
    /// What the page must contain to be this page, and whole.
    marks: Vec<String>,
}

impl Site {
    /// Starts the database and the sample site under `host`. The first time takes ten seconds, later ones one.
    pub(super) fn start(dir: &Path, host: &str) -> Result<Self, Complaint> {
        let options = Options {
            url: Some(format!("http://{host}")),
            sample: SampleContent::Full,
            cron: Cron::Off,
            ..Options::default()
        };
        let (database, wordpress) = wordpress_from_template(&dir.join("site"), &options)?;
        let said = wordpress.php(FIND_POST)?;
        let (path, id) = said
            .split_once(' ')
            .ok_or_else(|| format!("WordPress names no post: {said}"))?;
        Ok(Self {
            database,
            root: wordpress.root,
            front: Target::new("/", "class=\"home blog"),
            post: Target::new(path, &format!("postid-{id}")),
        })
    }

    /// The folder that servers take as document root.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Process group of the database.
    pub(super) fn database(&self) -> u32 {
        self.database.pid()
    }

    pub(super) fn path(&self, page: Page) -> &str {
        &self.target(page).path
    }

    /// What the page's body must contain.
    pub(super) fn marks(&self, page: Page) -> &[String] {
        &self.target(page).marks
    }

    fn target(&self, page: Page) -> &Target {
        match page {
            Page::Front => &self.front,
            Page::Post => &self.post,
        }
    }
}

impl Target {
    fn new(path: &str, mark: &str) -> Self {
        Self {
            path: path.to_owned(),
            marks: vec![mark.to_owned(), "</html>".to_owned()],
        }
    }
}

/// One of the newer posts, always the same.
const FIND_POST: &str = "$post = get_posts( array( 'numberposts' => 1, 'offset' => 4 ) )[0]; \
     echo wp_make_link_relative( get_permalink( $post ) ), ' ', $post->ID;";
