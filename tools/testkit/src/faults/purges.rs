//! Purges of every scope, sent by each method that Galley supports.

use super::random::Random;
use super::{
    site_content::{ENDS, FOLDERS, Scope, TAGS, path},
    test_site::{Client, HOST, TestSite, with_token},
    upstream::{PURGE_HEADER_PATH, tag},
};
use crate::{TestkitError, client::Request};

/// How a purge is requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PurgeMethod {
    /// A `PURGE` request to the site.
    Request,
    /// `POST /purge` at the admin interface.
    Admin,
    /// The `Galley-Purge` field in an upstream response; it cannot purge prefixes and patterns.
    ResponseHeader,
}

impl PurgeMethod {
    pub(super) const ALL: [Self; 3] = [Self::Request, Self::Admin, Self::ResponseHeader];
}

/// The durability that a receipt reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PurgeDurability {
    /// The purge survives a restart.
    Durable,
    /// The receipt warns that purged pages may return after a restart.
    UntilRestart,
}

/// Changes content and purges the changed pages.
pub(super) struct Editor {
    site: Client,
    admin: Client,
}

impl Editor {
    pub(super) fn new(site: &TestSite) -> Result<Self, TestkitError> {
        Ok(Self {
            site: Client::new(site.addr()?),
            admin: Client::new(site.admin()?),
        })
    }

    /// Changes content, purges it, and raises the minimum versions if the purge is acknowledged as durable.
    ///
    /// # Errors
    /// Without an acknowledgement; the purge may still be in force.
    pub(super) fn edit(
        &mut self,
        site: &TestSite,
        scope: Scope,
        method: PurgeMethod,
    ) -> Result<(), TestkitError> {
        let changed = site.content.change(scope);
        if self.purge(scope, method)? == PurgeDurability::Durable {
            site.content.acknowledge(&changed);
        }
        Ok(())
    }

    /// Makes one edit by each method, each of a random scope; `not_site` replaces the scope of the whole site, which would leave no
    /// entry that could be wrong. Returns the number of edits.
    pub(super) fn edit_by_all_methods(
        &mut self,
        site: &TestSite,
        random: &mut Random,
        pages: usize,
        not_site: Option<Scope>,
    ) -> Result<u64, TestkitError> {
        for method in PurgeMethod::ALL {
            let scope = match (random_scope(random, pages), not_site) {
                (Scope::Site, Some(other)) => other,
                (scope, _) => scope,
            };
            self.edit(site, scope, method)?;
        }
        Ok(PurgeMethod::ALL.len() as u64)
    }

    /// Sends a purge and waits for its acknowledgement.
    pub(super) fn purge(
        &mut self,
        scope: Scope,
        method: PurgeMethod,
    ) -> Result<PurgeDurability, TestkitError> {
        let (client, request) = match (method, response_header_purge(scope)) {
            (PurgeMethod::Admin, _) => (&mut self.admin, admin_purge(scope)),
            (PurgeMethod::ResponseHeader, Some(request)) => (&mut self.site, request),
            (PurgeMethod::ResponseHeader, None) | (PurgeMethod::Request, _) => {
                (&mut self.site, purge_request(scope))
            }
        };
        let response = client.send(&request)?;
        if response.status == 200 {
            let has_warning = response.text().contains(UNTIL_RESTART_WARNING);
            Ok(if has_warning {
                PurgeDurability::UntilRestart
            } else {
                PurgeDurability::Durable
            })
        } else {
            Err(TestkitError::Malformed(format!(
                "a purge was refused: {}",
                response.excerpt()
            )))
        }
    }
}

/// A random scope: usually single pages and tags, rarely the whole site.
pub(super) fn random_scope(random: &mut Random, pages: usize) -> Scope {
    match random.below(40) {
        0 => Scope::Site,
        1..=3 => Scope::Prefix(random.below(FOLDERS)),
        4..=8 => Scope::Pattern(random.below(ENDS.min(pages))),
        9..=14 => Scope::Tag(random.below(TAGS)),
        _ => Scope::Url(random.below(pages)),
    }
}

fn purge_request(scope: Scope) -> Request {
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

fn admin_purge(scope: Scope) -> Request {
    let selection = match scope {
        Scope::Url(page) => format!("\"urls\":[\"http://{HOST}{}\"]", path(page)),
        Scope::Tag(number) => format!("\"tags\":[\"{}\"]", tag(number)),
        Scope::Prefix(folder) => format!("\"prefixes\":[\"/f{folder}/\"]"),
        Scope::Pattern(end) => format!("\"patterns\":[\"^/f[0-9]/p[0-9][0-9]{end:02}/$\"]"),
        Scope::Site => "\"all\":true".to_owned(),
    };
    let body = format!("{{\"site\":\"{HOST}\",{selection}}}");
    with_token(Request::post("/purge", "application/json", body))
}

/// A request for which the upstream sends a response with `Galley-Purge`.
fn response_header_purge(scope: Scope) -> Option<Request> {
    let selection = match scope {
        Scope::Url(page) => format!("url{}", path(page)),
        Scope::Tag(number) => tag(number),
        Scope::Site => "*".to_owned(),
        Scope::Prefix(_) | Scope::Pattern(_) => return None,
    };
    let request = Request::post(
        &format!("{PURGE_HEADER_PATH}{selection}"),
        "text/plain",
        "edited",
    );
    Some(request.host(HOST))
}

/// The receipt's warning about a purge that may not survive a restart.
const UNTIL_RESTART_WARNING: &str = "may come back";
