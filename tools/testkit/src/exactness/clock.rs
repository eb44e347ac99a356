//! What an edit costs: the plugin's own time in it, measured inside PHP (assets/exactness/clock.php).
//!
//! Each edit is done several times in turn with its opposite, by a worker of its own with PHP's cache of compiled files, and the
//! median counts: what another program takes from the machine meanwhile does not.

use std::{fs, time::Duration};

use super::{
    editor::Editor,
    site::{Site, WITH},
};
use crate::{Spread, TestkitError, error::Context, wait::poll_until};

/// What the plugin takes of one kind of edit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EditCost {
    /// What is edited.
    pub what: &'static str,
    /// Milliseconds of the plugin's own functions, with what they wait for the database.
    pub ms: Spread,
    /// Milliseconds of the processor among them, which other programs do not change.
    pub cpu_ms: Spread,
    /// Database queries among them, median.
    pub queries: Spread,
}

/// An edit of REST, and the one that takes it back. `[[n]]` is the number of the round.
struct Edit {
    what: &'static str,
    path: &'static str,
    bodies: [&'static str; 2],
}

const EDITS: &[Edit] = &[
    edit(
        "text",
        "posts/[[post.26]]",
        [
            r#"{"content":"One text [[n]]."}"#,
            r#"{"content":"Another text [[n]]."}"#,
        ],
    ),
    edit(
        "title",
        "posts/[[post.26]]",
        [
            r#"{"title":"One title [[n]]"}"#,
            r#"{"title":"Another title [[n]]"}"#,
        ],
    ),
    edit(
        "title of the newest post",
        "posts/[[post.0]]",
        [
            r#"{"title":"One title [[n]]"}"#,
            r#"{"title":"Another title [[n]]"}"#,
        ],
    ),
    edit(
        "excerpt",
        "posts/[[post.26]]",
        [r#"{"excerpt":"In short."}"#, r#"{"excerpt":""}"#],
    ),
    edit(
        "categories",
        "posts/[[post.26]]",
        [
            r#"{"categories":[ [[category.kitchen]] ]}"#,
            r#"{"categories":[ [[category.workshop]] ]}"#,
        ],
    ),
    edit(
        "tags",
        "posts/[[post.26]]",
        [r#"{"tags":[ [[post_tag.fish]] ]}"#, r#"{"tags":[]}"#],
    ),
    edit(
        "date",
        "posts/[[post.26]]",
        [
            r#"{"date":"2023-12-12T12:00:00"}"#,
            r#"{"date":"2024-02-12T12:00:00"}"#,
        ],
    ),
    edit(
        "slug",
        "posts/[[post.26]]",
        [r#"{"slug":"one-slug"}"#, r#"{"slug":"another-slug"}"#],
    ),
    edit(
        "author",
        "posts/[[post.26]]",
        [r#"{"author":[[user.ines]]}"#, r#"{"author":1}"#],
    ),
    edit(
        "password",
        "posts/[[post.26]]",
        [r#"{"password":"oar"}"#, r#"{"password":""}"#],
    ),
    edit(
        "sticky",
        "posts/[[post.26]]",
        [r#"{"sticky":true}"#, r#"{"sticky":false}"#],
    ),
    edit(
        "featured image",
        "posts/[[post.26]]",
        [
            r#"{"featured_media":[[media.3]]}"#,
            r#"{"featured_media":0}"#,
        ],
    ),
    edit(
        "draft and back",
        "posts/[[post.26]]",
        [r#"{"status":"draft"}"#, r#"{"status":"publish"}"#],
    ),
    edit(
        "text of a draft",
        "posts/[[post.unfinished]]",
        [
            r#"{"content":"One text [[n]]."}"#,
            r#"{"content":"Another text [[n]]."}"#,
        ],
    ),
    edit(
        "page: title",
        "pages/[[page.contact]]",
        [
            r#"{"title":"One title [[n]]"}"#,
            r#"{"title":"Another title [[n]]"}"#,
        ],
    ),
    edit(
        "page: parent",
        "pages/[[page.where-to-stay]]",
        [r#"{"parent":[[page.about]]}"#, r#"{"parent":0}"#],
    ),
    edit(
        "category: name",
        "categories/[[category.kitchen]]",
        [r#"{"name":"One name"}"#, r#"{"name":"Another name"}"#],
    ),
    edit(
        "site: title",
        "settings",
        [r#"{"title":"One site"}"#, r#"{"title":"Another site"}"#],
    ),
];

const fn edit(what: &'static str, path: &'static str, bodies: [&'static str; 2]) -> Edit {
    Edit { what, path, bodies }
}

/// Does every edit some times.
pub(super) fn measure(site: &Site) -> Result<Vec<EditCost>, TestkitError> {
    let mut editor = Editor::log_in(site, WITH)?;
    let mut costs = Vec::new();
    for Edit { what, path, bodies } in EDITS {
        let (mut ms, mut cpu_ms, mut queries) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..WARM + ROUNDS {
            let body = bodies[round % 2].replace("[[n]]", &round.to_string());
            editor.rest_clocked(path, &body)?;
            let [took, busy, asked] = clock(site)?;
            if round >= WARM {
                ms.push(took);
                cpu_ms.push(busy);
                queries.push(asked);
            }
        }
        costs.push(EditCost {
            what,
            ms: measured(ms)?,
            cpu_ms: measured(cpu_ms)?,
            queries: measured(queries)?,
        });
    }
    Ok(costs)
}

/// The spread of figures of which there is at least one.
pub(super) fn measured(values: Vec<f64>) -> Result<Spread, TestkitError> {
    Spread::of(values).ok_or_else(|| TestkitError::Refused("nothing was measured".to_owned()))
}

/// What the request that has ended has noted: milliseconds, those of the processor, queries.
fn clock(site: &Site) -> Result<[f64; 3], TestkitError> {
    let file = site.notes().join("clock");
    let mut text = String::new();
    let noted = poll_until(TIMEOUT, || {
        text = fs::read_to_string(&file).unwrap_or_default();
        text.ends_with('\n')
    });
    let numbers: Vec<f64> = text
        .split_whitespace()
        .filter_map(|number| number.parse().ok())
        .collect();
    match numbers.try_into() {
        Ok(numbers) if noted => {
            fs::remove_file(&file).context("clear the clock")?;
            Ok(numbers)
        }
        Ok(_) | Err(_) => Err(TestkitError::Refused(format!("the clock says `{text}`"))),
    }
}

const WARM: usize = 4;
const ROUNDS: usize = 20;
const TIMEOUT: Duration = Duration::from_secs(60);
