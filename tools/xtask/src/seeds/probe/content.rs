//! What becomes of stored pages when the content changes, and what pages themselves say of storing.

use serde_json::{Value, json};

use crate::{
    demo::CommandError,
    seeds::{
        editor::{Editor, visit},
        outcome::Verdict,
        stack::Stack,
        stage::Stage,
    },
};

/// A post edited, commented and deleted: each time the first visitor must see it.
pub(super) fn purge(stage: &Stage, stack: &Stack) -> Result<Verdict, CommandError> {
    let mut editor = Editor::log_in(stage, stack)?;
    let name = stage.probe_name();
    let post = json!({
        "title": format!("Purged {name}"), "content": "The first text.", "status": "publish", "comment_status": "open",
    });
    let post = editor.rest("POST", "posts", &post)?;
    let (id, target) = (number(&post, "id")?, target_of(&post)?);
    let mut stale = Vec::new();
    let mut look =
        |what: &'static str, is_right: &dyn Fn(u16, &str) -> bool| -> Result<(), CommandError> {
            let seen = visit(stack, &target)?;
            if !is_right(seen.status, &seen.text) {
                stale.push(what);
            }
            // Stored again, in any case.
            visit(stack, &target).map(drop)
        };
    look("the new post", &|_, text| text.contains("The first text."))?;
    editor.rest(
        "POST",
        &format!("posts/{id}"),
        &json!({"content": "The second text."}),
    )?;
    look("an edited post", &|_, text| {
        text.contains("The second text.")
    })?;
    let comment = json!({"post": id, "content": "The first remark."});
    let comment = number(&editor.rest("POST", "comments", &comment)?, "id")?;
    look("a new comment", &|_, text| {
        text.contains("The first remark.")
    })?;
    let path = format!("comments/{comment}");
    editor.rest("POST", &path, &json!({"content": "The second remark."}))?;
    look("an edited comment", &|_, text| {
        text.contains("The second remark.")
    })?;
    editor.rest("DELETE", &format!("{path}?force=true"), &Value::Null)?;
    look("a deleted comment", &|_, text| !text.contains(" remark."))?;
    editor.rest("DELETE", &format!("posts/{id}"), &Value::Null)?;
    look("a deleted post", &|status, _| status == 404)?;
    let detail = if stale.is_empty() {
        "seen at once, all six edits".to_owned()
    } else {
        format!("stale: {}", stale.join(", "))
    };
    Ok(Verdict::of(stale.is_empty(), detail))
}

fn number(answer: &Value, field: &str) -> Result<u64, CommandError> {
    let value = answer.get(field).and_then(Value::as_u64);
    value.ok_or_else(|| format!("WordPress names no `{field}`").into())
}

/// The path of a new post.
fn target_of(answer: &Value) -> Result<String, CommandError> {
    let link = answer.get("link").and_then(Value::as_str).unwrap_or("");
    let rest = link.split_once("://").map_or("", |(_, rest)| rest);
    let path = rest.find('/').and_then(|at| rest.get(at..));
    path.map(str::to_owned)
        .ok_or_else(|| format!("WordPress gives the post the address `{link}`").into())
}

/// A page that says `private` is generated for each of two visitors, one that says `public` once.
pub(super) fn cache_control(stage: &Stage, stack: &Stack) -> Result<Verdict, CommandError> {
    let mut generated = [0; 2];
    for (word, generated) in ["private", "public"].into_iter().zip(&mut generated) {
        let name = stage.probe_name();
        let target = format!("/?seeds-probe={name}&seeds-control={word}");
        for _ in 0..2 {
            visit(stack, &target)?;
        }
        *generated = stage.generated(&name);
    }
    let [private, public] = generated;
    let wrong = match (private >= 2, public == 1) {
        (true, true) => return Ok(Verdict::of(true, "honored")),
        (false, true) => "a page with `private` is stored",
        (true, false) => "a page with `public` is not stored",
        (false, false) => "both are taken for the reverse",
    };
    Ok(Verdict::of(false, wrong))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_posts_become_targets() {
        for (link, wanted) in [
            ("http://seeds.test/2026/a/", Some("/2026/a/")),
            ("http://seeds.test", None),
            ("", None),
        ] {
            let target = target_of(&json!({ "link": link })).ok();
            assert_eq!(target.as_deref(), wanted, "{link}");
        }
        assert!(target_of(&json!({ "link": 5 })).is_err());
    }
}
