//! Probes for pages that differ by client: phones and desktops, logged-in users, commenters.

use crate::{
    error::CommandError,
    seeds::{
        clients::{DESKTOP, Editor, PHONE, ReceivedPage, visit, visit_as},
        environment::SeedsEnvironment,
        results::ProbeVerdict,
        stack::Stack,
    },
};

/// A stored page of one edition must not be sent to the other kind of browser, whichever kind visited first.
pub(super) fn mobile(
    environment: &SeedsEnvironment,
    stack: &Stack,
) -> Result<ProbeVerdict, CommandError> {
    let mut errors = Vec::new();
    let browsers = [("desktop", DESKTOP), ("phone", PHONE)];
    for (number, (first, second)) in [
        (1, (browsers[0], browsers[1])),
        (2, (browsers[1], browsers[0])),
    ] {
        let target = post(environment, number)?;
        for _ in 0..2 {
            let received = visit_as(stack, target, first.1, None)?;
            require(&received, edition(first.0), target)?;
        }
        let received = visit_as(stack, target, second.1, None)?;
        if !received.text.contains(edition(second.0)) {
            errors.push(format!("a {} receives the page of a {}", second.0, first.0));
        }
    }
    Ok(verdict_of(&errors, "each receives its own"))
}

fn edition(kind: &str) -> &'static str {
    if kind == "phone" {
        "mobile edition"
    } else {
        "desktop edition"
    }
}

/// Logs in with the form and its cookies, and opens the dashboard.
pub(super) fn login(
    environment: &SeedsEnvironment,
    stack: &Stack,
) -> Result<ProbeVerdict, CommandError> {
    Editor::log_in(environment, stack)?;
    Ok(ProbeVerdict::of(true, "logged in"))
}

/// A stored page must not be sent to a logged-in user, and the user's page must not be stored.
pub(super) fn logged_in(
    environment: &SeedsEnvironment,
    stack: &Stack,
) -> Result<ProbeVerdict, CommandError> {
    let mut editor = Editor::log_in(environment, stack)?;
    let mut errors = Vec::new();
    let (stored, fresh) = (post(environment, 3)?, post(environment, 4)?);
    for _ in 0..2 {
        require(&visit(stack, stored)?, "</html>", stored)?;
    }
    if !editor.page(stored)?.contains(ADMIN_BAR) {
        errors.push("the user receives the page of visitors");
    }
    for _ in 0..2 {
        editor.page(fresh)?;
    }
    for target in [stored, fresh] {
        if visit(stack, target)?.text.contains(ADMIN_BAR) {
            errors.push("a visitor receives the page of the user");
        }
    }
    Ok(verdict_of(&errors, "each receives its own"))
}

/// WordPress fills in the name of a commenter in the form below a post.
pub(super) fn commenter(
    environment: &SeedsEnvironment,
    stack: &Stack,
) -> Result<ProbeVerdict, CommandError> {
    let target = post(environment, 5)?;
    let hash = &environment.cookie_hash;
    let cookies =
        format!("comment_author_{hash}={NAME}; comment_author_email_{hash}=w%40example.org");
    let mut commenter_page = String::new();
    for _ in 0..2 {
        commenter_page = visit_as(stack, target, DESKTOP, Some(&cookies))?.text;
    }
    if visit(stack, target)?.text.contains(NAME) {
        return Ok(ProbeVerdict::of(
            false,
            "a visitor receives the commenter's name",
        ));
    }
    let detail = if commenter_page.contains(NAME) {
        "only the commenter receives it"
    } else {
        "no client receives it, not even the commenter"
    };
    Ok(ProbeVerdict::of(true, detail))
}

/// The path of the post with this number.
pub(super) fn post(environment: &SeedsEnvironment, number: usize) -> Result<&str, CommandError> {
    let post = environment.posts.get(number).map(String::as_str);
    post.ok_or_else(|| "WordPress has too few posts".into())
}

/// Fails unless the response is the expected page.
pub(super) fn require(
    received: &ReceivedPage,
    mark: &str,
    target: &str,
) -> Result<(), CommandError> {
    if received.status == 200 && received.text.contains(mark) {
        return Ok(());
    }
    Err(format!("{target}: status {}, without `{mark}`", received.status).into())
}

/// A passed verdict if there are no errors.
pub(super) fn verdict_of(errors: &[impl AsRef<str>], passed_detail: &str) -> ProbeVerdict {
    if errors.is_empty() {
        return ProbeVerdict::of(true, passed_detail);
    }
    let errors: Vec<&str> = errors.iter().map(AsRef::as_ref).collect();
    ProbeVerdict::of(false, errors.join("; "))
}

const ADMIN_BAR: &str = "id=\"wpadminbar\"";
const NAME: &str = "Wilhelmina";
