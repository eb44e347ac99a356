//! Shared fragments on a large site: what an edit costs PHP until every page is right again, and whether every page is.
//!
//! A sample site with thousands of posts more runs under a classic theme, whose footer on every page lists recent posts, recent
//! comments, archives and categories. `edits` makes each edit once, puts the site under load, and compares every page with a
//! generated one. `compare` makes many random edits and compares random pages after each. `patching` measures what it takes to
//! patch a page.
//!
//! The requests to PHP are the server's own count of fetches: pages and fragments. What editors request is not among them.

mod dice;
mod stage;

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use self::{dice::Dice, stage::Stage};
use crate::Trouble;

/// Which site.
#[derive(Debug, Clone)]
pub struct Setting {
    /// The server.
    pub galley: PathBuf,
    /// Folder of the plugin.
    pub plugin: PathBuf,
    /// Posts beside those of the sample.
    pub posts: usize,
    /// Pages that are kept warm and compared.
    pub pages: usize,
}

/// Where load goes.
#[derive(Debug, Clone, Copy)]
pub struct Site<'a> {
    /// The server.
    pub addr: SocketAddr,
    /// The name of the site.
    pub host: &'a str,
    /// Its pages, the most visited first.
    pub targets: &'a [String],
}

/// What visitors saw in the time after an edit.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Visits {
    /// Responses.
    pub responses: u64,
    /// Of these, stored pages, also patched ones.
    pub hits: u64,
    /// Of these, patched for this visitor.
    pub patched: u64,
    /// Responses with a wrong status, and requests without a response.
    pub failed: u64,
    /// The slowest of a hundred took this long.
    pub p99: Duration,
}

/// What one edit did.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EditCost {
    /// For a table.
    pub edit: &'static str,
    /// Requests to PHP until every page was right.
    pub php_requests: u64,
    /// Pages that were patched.
    pub patched: u64,
    /// Pages that could not be patched.
    pub not_patched: u64,
    /// Whether parts that most pages have show the edit, so that most pages are to be patched.
    pub is_everywhere: bool,
    /// What visitors saw.
    pub visits: Visits,
    /// Pages that were compared.
    pub pages: usize,
    /// Pages that differed from generated ones.
    pub stale: usize,
    /// Stale pages, each with what differs.
    pub findings: Vec<String>,
    /// What PHP was requested for: pages and fragments.
    pub requested: Vec<String>,
}

/// What it takes to patch pages.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Patching {
    /// Pages that were patched.
    pub pages: u64,
    /// Mean bytes of one.
    pub bytes: u64,
    /// From the edit until the last was patched and compressed.
    pub elapsed: Duration,
    /// Processor time of the fetch threads.
    pub fetch_cpu: Duration,
    /// Processor time of the threads that compress.
    pub compress_cpu: Duration,
    /// Processor time of the whole server.
    pub cpu: Duration,
}

/// What random edits showed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Comparison {
    /// Pages of the site.
    pub pages: usize,
    /// Edits that were made.
    pub edits: usize,
    /// Comparisons of a page with a generated one.
    pub compared: usize,
    /// Pages that were patched meanwhile.
    pub patched: u64,
    /// Requests to PHP meanwhile.
    pub php_requests: u64,
    /// What differed.
    pub findings: Vec<String>,
}

/// Puts load on a site for some time.
pub type Load<'a> = &'a mut dyn FnMut(Site<'_>) -> Result<Visits, Trouble>;

/// A site that is warm.
pub struct Fragments(Stage);

impl Fragments {
    /// Starts the site and requests every page until all are stored.
    ///
    /// # Errors
    /// When a part does not start, or pages are not stored.
    pub fn start(setting: &Setting) -> Result<Self, Trouble> {
        Stage::start(setting).map(Self)
    }

    /// How many pages are warm.
    pub fn pages(&self) -> usize {
        self.0.site.targets.len()
    }

    /// Makes each edit once; `progress` gets each cost as soon as it is known.
    ///
    /// # Errors
    /// When an edit is refused, or load cannot be made.
    pub fn edits(
        &mut self,
        load: Load<'_>,
        progress: &mut dyn FnMut(&EditCost),
    ) -> Result<Vec<EditCost>, Trouble> {
        let mut costs = Vec::new();
        for edit in EDITS {
            let cost = self.0.cost_of(edit, load)?;
            progress(&cost);
            costs.push(cost);
        }
        Ok(costs)
    }

    /// Makes random edits and compares `sample` pages after each, all pages at the end.
    ///
    /// # Errors
    /// When an edit is refused.
    pub fn compare(
        &mut self,
        edits: usize,
        sample: usize,
        seed: u64,
    ) -> Result<Comparison, Trouble> {
        self.0.compare(edits, sample, &mut Dice::new(seed))
    }

    /// Makes an edit that only fragments show, and measures what it takes to patch all pages.
    ///
    /// # Errors
    /// When the edit is refused, or not all pages are patched in time.
    pub fn patching(&mut self) -> Result<Patching, Trouble> {
        self.0.patching()
    }
}

/// An edit of the table: a request of the block editor.
struct Edit {
    name: &'static str,
    path: &'static str,
    body: &'static str,
    is_everywhere: bool,
}

const fn edit(name: &'static str, path: &'static str, body: &'static str) -> Edit {
    Edit {
        name,
        path,
        body,
        is_everywhere: false,
    }
}

impl Edit {
    const fn everywhere(self) -> Self {
        Self {
            is_everywhere: true,
            ..self
        }
    }
}

const EDITS: &[Edit] = &[
    edit(
        "a new post with a category",
        "posts",
        r#"{"title":"Notes from the new pier","content":"It is longer.","status":"publish","categories":[ [[category.kitchen]] ],"author":[[user.mara]]}"#,
    )
    .everywhere(),
    edit(
        "a comment that is shown at once",
        "comments",
        r#"{"post":[[old.commented]],"author_name":"Rosalind","author_email":"rosalind@example.org","content":"A fine pier.","status":"approve"}"#,
    )
    .everywhere(),
    edit(
        "title of an old post",
        "posts/[[old.renamed]]",
        r#"{"title":"An old post under another name"}"#,
    ),
    edit(
        "text of an old post",
        "posts/[[old.rewritten]]",
        r#"{"content":"Another text."}"#,
    ),
    edit(
        "description of a category",
        "categories/[[category.kitchen]]",
        r#"{"description":"What the galley cooks."}"#,
    ),
    edit(
        "name of a category",
        "categories/[[category.kitchen]]",
        r#"{"name":"The galley"}"#,
    )
    .everywhere(),
];
