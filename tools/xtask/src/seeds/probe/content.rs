//! Probes for purges after edits, and for Cache-Control of pages.

use serde_json::{Value, json};

use crate::{
    error::CommandError,
    seeds::{
        clients::{Editor, visit},
        environment::SeedsEnvironment,
        results::ProbeVerdict,
        stack::Stack,
    },
};

/// Edits, comments and deletes a post. After each edit, the first visitor must see it.
pub(super) fn purge(
    environment: &SeedsEnvironment,
    stack: &Stack,
) -> Result<ProbeVerdict, CommandError> {
    let mut editor = Editor::log_in(environment, stack)?;
    let name = environment.probe_name();
    let post = json!({
        "title": format!("Purged {name}"), "content": "The first text.", "status": "publish", "comment_status": "open",
    });
    let post = editor.rest("POST", "posts", &post)?;
    let (id, target) = (number(&post, "id")?, post_path(&post)?);
    let mut stale = Vec::new();
    let mut visit_twice =
        |edit: &'static str, is_current: &dyn Fn(u16, &str) -> bool| -> Result<(), CommandError> {
            let page = visit(stack, &target)?;
            if !is_current(page.status, &page.text) {
                stale.push(edit);
            }
            // The second visit ensures that the page is stored again.
            visit(stack, &target).map(drop)
        };
    visit_twice("the new post", &|_, text| text.contains("The first text."))?;
    editor.rest(
        "POST",
        &format!("posts/{id}"),
        &json!({"content": "The second text."}),
    )?;
    visit_twice("an edited post", &|_, text| {
        text.contains("The second text.")
    })?;
    let comment = json!({"post": id, "content": "The first remark."});
    let comment = number(&editor.rest("POST", "comments", &comment)?, "id")?;
    visit_twice("a new comment", &|_, text| {
        text.contains("The first remark.")
    })?;
    let path = format!("comments/{comment}");
    editor.rest("POST", &path, &json!({"content": "The second remark."}))?;
    visit_twice("an edited comment", &|_, text| {
        text.contains("The second remark.")
    })?;
    editor.rest("DELETE", &format!("{path}?force=true"), &Value::Null)?;
    visit_twice("a deleted comment", &|_, text| !text.contains(" remark."))?;
    editor.rest("DELETE", &format!("posts/{id}"), &Value::Null)?;
    visit_twice("a deleted post", &|status, _| status == 404)?;
    let detail = if stale.is_empty() {
        "all six edits seen at once".to_owned()
    } else {
        format!("stale: {}", stale.join(", "))
    };
    Ok(ProbeVerdict::of(stale.is_empty(), detail))
}

fn number(response: &Value, field: &str) -> Result<u64, CommandError> {
    let value = response.get(field).and_then(Value::as_u64);
    value.ok_or_else(|| format!("WordPress returned no `{field}`").into())
}

/// The path of a new post.
fn post_path(response: &Value) -> Result<String, CommandError> {
    let link = response.get("link").and_then(Value::as_str).unwrap_or("");
    let rest = link.split_once("://").map_or("", |(_, rest)| rest);
    let path = rest.find('/').and_then(|at| rest.get(at..));
    path.map(str::to_owned)
        .ok_or_else(|| format!("WordPress returned an invalid URL of the post: `{link}`").into())
}

/// A page with `private` must be generated for each of two visitors, a page with `public` only once.
pub(super) fn cache_control(
    environment: &SeedsEnvironment,
    stack: &Stack,
) -> Result<ProbeVerdict, CommandError> {
    let mut counts = [0; 2];
    for (directive, count) in ["private", "public"].into_iter().zip(&mut counts) {
        let name = environment.probe_name();
        let target = format!("/?seeds-probe={name}&seeds-control={directive}");
        for _ in 0..2 {
            visit(stack, &target)?;
        }
        *count = environment.generation_count(&name);
    }
    let [private, public] = counts;
    let wrong = match (private >= 2, public == 1) {
        (true, true) => return Ok(ProbeVerdict::of(true, "honored")),
        (false, true) => "a page with `private` is stored",
        (true, false) => "a page with `public` is not stored",
        (false, false) => "`private` is stored and `public` is not",
    };
    Ok(ProbeVerdict::of(false, wrong))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_a_post_is_taken_from_its_url() {
        for (link, expected) in [
            ("http://seeds.test/2026/a/", Some("/2026/a/")),
            ("http://seeds.test", None),
            ("", None),
        ] {
            let target = post_path(&json!({ "link": link })).ok();
            assert_eq!(target.as_deref(), expected, "{link}");
        }
        assert!(post_path(&json!({ "link": 5 })).is_err());
    }
}
