//! Whose page is whose: phones and desktops, logged-in users, commenters.

use crate::{
    demo::CommandError,
    seeds::{
        editor::{DESKTOP, Editor, PHONE, Seen, visit, visit_as},
        outcome::Verdict,
        stack::Stack,
        stage::Stage,
    },
};

/// A stored page of one edition must not go to the other kind of browser, also where that came first.
pub(super) fn mobile(stage: &Stage, stack: &Stack) -> Result<Verdict, CommandError> {
    let mut wrong = Vec::new();
    let kinds = [("desktop", DESKTOP), ("phone", PHONE)];
    for (at, (first, second)) in [(1, (kinds[0], kinds[1])), (2, (kinds[1], kinds[0]))] {
        let target = page(stage, at)?;
        for _ in 0..2 {
            let seen = visit_as(stack, target, first.1, None)?;
            require(&seen, edition(first.0), target)?;
        }
        let seen = visit_as(stack, target, second.1, None)?;
        if !seen.text.contains(edition(second.0)) {
            wrong.push(format!("a {} gets the page of a {}", second.0, first.0));
        }
    }
    Ok(all_right(&wrong, "each gets its own"))
}

fn edition(kind: &str) -> &'static str {
    if kind == "phone" {
        "mobile edition"
    } else {
        "desktop edition"
    }
}

/// The form, its cookies, and the administration behind it.
pub(super) fn login(stage: &Stage, stack: &Stack) -> Result<Verdict, CommandError> {
    Editor::log_in(stage, stack)?;
    Ok(Verdict::of(true, "logged in"))
}

/// A stored page must not go to a logged-in user, nor the user's page into the cache.
pub(super) fn logged_in(stage: &Stage, stack: &Stack) -> Result<Verdict, CommandError> {
    let mut editor = Editor::log_in(stage, stack)?;
    let mut wrong = Vec::new();
    let (stored, fresh) = (page(stage, 3)?, page(stage, 4)?);
    for _ in 0..2 {
        require(&visit(stack, stored)?, "</html>", stored)?;
    }
    if !editor.page(stored)?.contains(ADMIN_BAR) {
        wrong.push("the user gets the page of visitors");
    }
    for _ in 0..2 {
        editor.page(fresh)?;
    }
    for target in [stored, fresh] {
        if visit(stack, target)?.text.contains(ADMIN_BAR) {
            wrong.push("a visitor gets the page of the user");
        }
    }
    Ok(all_right(&wrong, "each gets its own"))
}

/// WordPress fills the name of a commenter into the form below a post.
pub(super) fn commenter(stage: &Stage, stack: &Stack) -> Result<Verdict, CommandError> {
    let target = page(stage, 5)?;
    let hash = &stage.cookie_hash;
    let cookies =
        format!("comment_author_{hash}={NAME}; comment_author_email_{hash}=w%40example.org");
    let mut own = String::new();
    for _ in 0..2 {
        own = visit_as(stack, target, DESKTOP, Some(&cookies))?.text;
    }
    if visit(stack, target)?.text.contains(NAME) {
        return Ok(Verdict::of(false, "a visitor gets the commenter's name"));
    }
    let detail = if own.contains(NAME) {
        "only the commenter gets it"
    } else {
        "nobody gets it, not even the commenter"
    };
    Ok(Verdict::of(true, detail))
}

/// The post of this number.
pub(super) fn page(stage: &Stage, number: usize) -> Result<&str, CommandError> {
    let page = stage.posts.get(number).map(String::as_str);
    page.ok_or_else(|| "WordPress has too few posts".into())
}

/// A page that a probe rests on.
pub(super) fn require(seen: &Seen, mark: &str, target: &str) -> Result<(), CommandError> {
    if seen.status == 200 && seen.text.contains(mark) {
        return Ok(());
    }
    Err(format!("{target}: status {}, without `{mark}`", seen.status).into())
}

/// Passed where nothing is wrong.
pub(super) fn all_right(wrong: &[impl AsRef<str>], fine: &str) -> Verdict {
    if wrong.is_empty() {
        return Verdict::of(true, fine);
    }
    let wrong: Vec<&str> = wrong.iter().map(AsRef::as_ref).collect();
    Verdict::of(false, wrong.join("; "))
}

const ADMIN_BAR: &str = "id=\"wpadminbar\"";
const NAME: &str = "Wilhelmina";
