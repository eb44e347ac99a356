//! Purges as editors order them: every scope, by each way that there is.

use super::dice::Dice;
use super::{
    stage::{HOST, ORDER_PATH, Stage, Visitor, tag, with_token},
    truth::{ENDS, FOLDERS, Scope, TAGS, path},
};
use crate::{TestkitError, client::Request};

/// How an order reaches the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// A `PURGE` request to the site.
    Request,
    /// `POST /purge` at the admin interface.
    Admin,
    /// A field in an answer of the upstream; for prefixes and patterns there is none.
    Answer,
}

impl Way {
    pub(super) const ALL: [Self; 3] = [Self::Request, Self::Admin, Self::Answer];
}

/// What an acknowledgement says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Promise {
    /// What was purged never comes back.
    Kept,
    /// The answer warns that it may after a restart.
    ThisRun,
}

/// One who changes content and orders what follows from it.
pub(super) struct Editor {
    site: Visitor,
    admin: Visitor,
}

impl Editor {
    pub(super) fn new(stage: &Stage) -> Result<Self, TestkitError> {
        Ok(Self {
            site: Visitor::new(stage.addr()?),
            admin: Visitor::new(stage.admin()?),
        })
    }

    /// Changes content, orders the purge, and raises the floors once it has been acknowledged without a reserve.
    ///
    /// # Errors
    /// When the acknowledgement did not come: the purge may hold or not.
    pub(super) fn edit(
        &mut self,
        stage: &Stage,
        scope: Scope,
        way: Way,
    ) -> Result<(), TestkitError> {
        let changed = stage.truth.change(scope);
        if self.order(scope, way)? == Promise::Kept {
            stage.truth.acknowledge(&changed);
        }
        Ok(())
    }

    /// Orders a purge; it has been acknowledged when this returns well.
    pub(super) fn order(&mut self, scope: Scope, way: Way) -> Result<Promise, TestkitError> {
        let (visitor, request) = match (way, by_answer(scope)) {
            (Way::Admin, _) => (&mut self.admin, by_admin(scope)),
            (Way::Answer, Some(request)) => (&mut self.site, request),
            (Way::Answer, None) | (Way::Request, _) => (&mut self.site, by_request(scope)),
        };
        let answer = visitor.ask(&request)?;
        if answer.status == 200 {
            let is_doubtful = answer.text().contains(MAY_COME_BACK);
            Ok(if is_doubtful {
                Promise::ThisRun
            } else {
                Promise::Kept
            })
        } else {
            Err(TestkitError::Malformed(format!(
                "a purge was refused: {}",
                answer.beginning()
            )))
        }
    }
}

/// Mostly single pages and tags; seldom everything.
pub(super) fn any_scope(dice: &mut Dice, pages: usize) -> Scope {
    match dice.below(40) {
        0 => Scope::Site,
        1..=3 => Scope::Prefix(dice.below(FOLDERS)),
        4..=8 => Scope::Pattern(dice.below(ENDS.min(pages))),
        9..=14 => Scope::Tag(dice.below(TAGS)),
        _ => Scope::Url(dice.below(pages)),
    }
}

fn by_request(scope: Scope) -> Request {
    let request = match scope {
        Scope::Url(page) => Request::new("PURGE", &path(page)),
        Scope::Tag(number) => Request::new("PURGE", "/")
            .field("X-Purge-Method", "tags")
            .field("X-Cache-Tags-Pattern", tag(number)),
        Scope::Prefix(folder) => Request::new("PURGE", &format!("/f{folder}/*")),
        Scope::Pattern(end) => {
            Request::new("PURGE", &format!("/f./p..{end:02}/")).field("X-Purge-Method", "regex")
        }
        Scope::Site => Request::new("PURGE", "/.*"),
    };
    request.host(HOST)
}

fn by_admin(scope: Scope) -> Request {
    let what = match scope {
        Scope::Url(page) => format!("\"urls\":[\"http://{HOST}{}\"]", path(page)),
        Scope::Tag(number) => format!("\"tags\":[\"{}\"]", tag(number)),
        Scope::Prefix(folder) => format!("\"prefixes\":[\"/f{folder}/\"]"),
        Scope::Pattern(end) => format!("\"patterns\":[\"^/f[0-9]/p[0-9][0-9]{end:02}/$\"]"),
        Scope::Site => "\"all\":true".to_owned(),
    };
    let body = format!("{{\"site\":\"{HOST}\",{what}}}");
    with_token(Request::post("/purge", "application/json", body))
}

/// A request whose answer orders it.
fn by_answer(scope: Scope) -> Option<Request> {
    let order = match scope {
        Scope::Url(page) => format!("url{}", path(page)),
        Scope::Tag(number) => tag(number),
        Scope::Site => "*".to_owned(),
        Scope::Prefix(_) | Scope::Pattern(_) => return None,
    };
    let request = Request::post(&format!("{ORDER_PATH}{order}"), "text/plain", "edited");
    Some(request.host(HOST))
}

/// The warning of a purge that a restart may forget.
const MAY_COME_BACK: &str = "may come back";
