//! Measures the cost of an edit: the time spent in the plugin's functions, measured inside PHP (assets/exactness/clock.php).
//!
//! Each edit alternates with one that reverts it. A separate worker runs them with PHP's cache of compiled files. The result
//! is the median, so that other programs on the machine have little effect.

use std::{fs, time::Duration};

use super::{
    editor::Editor,
    test_site::{ExactnessSite, WITH_PLUGIN_HOST},
};
use crate::{Quartiles, TestkitError, error::Context, wait::poll_until};

/// The cost of the plugin for one kind of edit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PluginEditCost {
    /// The description in tables.
    pub name: &'static str,
    /// Milliseconds in the plugin's functions, including waits for the database.
    pub ms: Quartiles,
    /// Of these, processor time, which other programs do not affect.
    pub cpu_ms: Quartiles,
    /// Database queries of the plugin.
    pub queries: Quartiles,
}

/// An edit through REST, and one that reverts it. `[[n]]` is the number of the round.
struct RevertibleEdit {
    name: &'static str,
    path: &'static str,
    bodies: [&'static str; 2],
}

const EDITS: &[RevertibleEdit] = &[
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

const fn edit(name: &'static str, path: &'static str, bodies: [&'static str; 2]) -> RevertibleEdit {
    RevertibleEdit { name, path, bodies }
}

/// Makes each edit [`ROUNDS`] times, after [`WARM`] rounds that are not measured.
pub(super) fn measure(site: &ExactnessSite) -> Result<Vec<PluginEditCost>, TestkitError> {
    let mut editor = Editor::log_in(site, WITH_PLUGIN_HOST)?;
    let mut costs = Vec::new();
    for RevertibleEdit { name, path, bodies } in EDITS {
        let (mut ms, mut cpu_ms, mut queries) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..WARM + ROUNDS {
            let body = bodies[round % 2].replace("[[n]]", &round.to_string());
            editor.rest_timed(path, &body)?;
            let [elapsed, cpu, query_count] = take_measurement(site)?;
            if round >= WARM {
                ms.push(elapsed);
                cpu_ms.push(cpu);
                queries.push(query_count);
            }
        }
        costs.push(PluginEditCost {
            name,
            ms: spread(ms)?,
            cpu_ms: spread(cpu_ms)?,
            queries: spread(queries)?,
        });
    }
    Ok(costs)
}

/// The spread of the values, or an error if there are none.
pub(super) fn spread(values: Vec<f64>) -> Result<Quartiles, TestkitError> {
    Quartiles::of(values).ok_or_else(|| TestkitError::Refused("nothing was measured".to_owned()))
}

/// Reads and removes the measurement of the last request: milliseconds, processor milliseconds, queries.
fn take_measurement(site: &ExactnessSite) -> Result<[f64; 3], TestkitError> {
    let file = site.notes_dir().join("clock");
    let mut text = String::new();
    let is_complete = poll_until(TIMEOUT, || {
        text = fs::read_to_string(&file).unwrap_or_default();
        text.ends_with('\n')
    });
    let numbers: Vec<f64> = text
        .split_whitespace()
        .filter_map(|number| number.parse().ok())
        .collect();
    match numbers.try_into() {
        Ok(numbers) if is_complete => {
            fs::remove_file(&file).context("remove a measurement")?;
            Ok(numbers)
        }
        Ok(_) | Err(_) => Err(TestkitError::Refused(format!(
            "incomplete measurement: `{text}`"
        ))),
    }
}

const WARM: usize = 4;
const ROUNDS: usize = 20;
const TIMEOUT: Duration = Duration::from_secs(60);
