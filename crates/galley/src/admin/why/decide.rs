//! What would happen now: the way of `serve`, looked at and not walked.
//!
//! Kept in the order of `serve::handle`, whose parts it shares; where it differs from what a client gets, it is wrong, and
//! the tests with the real server compare the two.

use std::time::Duration;

use galley_files as files;
use galley_rules::cgi::Script;
use galley_rules::facts::{Gate, Method};
use galley_rules::lookup::{self, Plan};
use galley_rules::outcome::{MissWhy, PassWhy, RefusedWhy, StaleWhy};
use galley_store::entry::{Entry, Kind};
use galley_store::epochs::{Standing, Touch, Touching};
use serde_json::{Value, json};

use super::{Explanation, access};
use crate::fault;
use crate::serve::{Exchange, TRUSTED, Upstream, Wanted};

/// What the path means below the site's root.
pub(super) enum Below {
    /// The site has no root.
    NoRoot,
    /// A file that would be sent.
    File {
        content_type: &'static str,
        length: u64,
        /// How long ago it was looked at, if it is in memory and looks the same now.
        kept: Option<Duration>,
    },
    /// A script for PHP.
    Script(Script),
    /// A folder's address without its slash.
    Redirect(Vec<u8>),
    /// Nothing.
    Missing,
    /// Never sent.
    Denied,
    /// Looking failed, and why.
    Failed(String),
}

impl Below {
    /// Looks. Blocks on the disk.
    pub(super) fn look(exchange: &Exchange<'_>) -> Self {
        let (site, facts) = (&exchange.site, &exchange.facts);
        let Some(folder) = &site.folder else {
            return Self::NoRoot;
        };
        let runs_program = site.names_program(facts);
        match folder.below(&Wanted::of(facts, runs_program)) {
            files::Found::File(asset) => Self::File {
                content_type: asset.content_type,
                length: asset.plain.length,
                kept: folder
                    .peek(facts, runs_program)
                    .filter(|(entry, _)| is_of(entry, &asset))
                    .map(|(_, age)| age),
            },
            files::Found::Script(script) => Self::Script(script),
            files::Found::Redirect(path) => Self::Redirect(path),
            files::Found::Missing => Self::Missing,
            files::Found::Denied => Self::Denied,
            files::Found::Failed(error) => Self::Failed(error.to_string()),
        }
    }

    pub(super) fn value(&self) -> Value {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match self {
            Self::NoRoot => json!({ "kind": "no-root" }),
            Self::File {
                content_type,
                length,
                kept,
            } => json!({
                "kind": "file",
                "content_type": content_type,
                "bytes": length,
                "in_memory": kept.is_some(),
                "looked_at_ago_ms": kept.map(|age| age.as_millis()),
            }),
            Self::Script(script) => json!({
                "kind": "script",
                "path": text(&script.filename),
                "path_info": script.path_info.as_deref().map(text),
            }),
            Self::Redirect(path) => json!({ "kind": "redirect", "path": text(path) }),
            Self::Missing => json!({ "kind": "missing" }),
            Self::Denied => json!({ "kind": "denied" }),
            Self::Failed(error) => json!({ "kind": "failed", "error": error }),
        }
    }
}

/// What would happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Now {
    /// Told which methods there are.
    Methods,
    /// Obeyed as a purge, from an address that may.
    Purge,
    /// A fresh copy answers.
    Hit,
    /// A stale copy answers, and one refresh runs.
    Stale,
    /// The upstream is asked, trimmed.
    Miss {
        why: MissWhy,
        /// Whether a stale copy stands by.
        stale_on_error: bool,
    },
    /// The upstream is asked, whole.
    Pass(PassWhy),
    /// A file answers.
    File,
    /// To a folder's slash.
    Redirect,
    /// To the site's one address, or where a rule says, with this status.
    Moved(u16),
    /// An error of ours.
    Refused(RefusedWhy),
}

enum Kept {
    Nothing,
    TravelsWhole,
    Fresh,
    Usable,
    OnError,
}

impl Now {
    pub(super) fn of(explanation: &Explanation<'_, '_>) -> Self {
        let exchange = &explanation.exchange;
        match exchange.facts.method() {
            Method::Purge | Method::Ban => return Self::Purge,
            _ => {}
        }
        if let Some(why) = access::refusal(exchange) {
            return Self::Refused(why);
        }
        match exchange.facts.method() {
            Method::Options if exchange.facts.path() == b"*" => return Self::Methods,
            Method::Trace | Method::Connect => return Self::Refused(RefusedWhy::Method),
            Method::Other if !exchange.serves_method() => {
                return Self::Refused(RefusedWhy::UnknownMethod);
            }
            _ => {}
        }
        if let Some(elsewhere) = &explanation.elsewhere {
            return Self::Moved(elsewhere.status);
        }
        let kept = kept(explanation);
        match kept {
            Kept::Fresh => return Self::Hit,
            Kept::Usable => return Self::Stale,
            Kept::Nothing | Kept::TravelsWhole | Kept::OnError => {}
        }
        let script = match &explanation.below {
            Below::File { .. } => return Self::File,
            Below::Redirect(_) => return Self::Redirect,
            Below::Denied => return Self::Refused(RefusedWhy::Denied),
            Below::Failed(_) => return Self::Refused(RefusedWhy::Internal),
            Below::Script(script) => Some(script),
            Below::Missing | Below::NoRoot => None,
        };
        if exchange.facts.only_if_cached() {
            return Self::Refused(RefusedWhy::OnlyIfCached);
        }
        match (exchange.upstream(), script) {
            (Upstream::Http(_), _) | (Upstream::Php(_), Some(_)) => {}
            (Upstream::Php(_), None) | (Upstream::Files, _) => {
                return Self::Refused(RefusedWhy::NotFound);
            }
        }
        match (exchange.facts.gate(), kept) {
            (Gate::Pass(why), _) => Self::Pass(why),
            (Gate::Open, Kept::TravelsWhole) => Self::Pass(PassWhy::Remembered),
            (Gate::Open, Kept::OnError) => Self::Miss {
                why: MissWhy::Stale,
                stale_on_error: true,
            },
            (Gate::Open, Kept::Nothing | Kept::Fresh | Kept::Usable) => Self::Miss {
                why: MissWhy::Uri,
                stale_on_error: false,
            },
        }
    }

    /// The words of log and header.
    pub(super) fn words(self) -> (&'static str, Option<&'static str>) {
        match self {
            Self::Purge => ("purge", None),
            Self::Hit => ("hit", None),
            Self::Stale => ("stale", Some(StaleWhy::Revalidating.word())),
            Self::Miss { why, .. } => ("miss", Some(why.word())),
            Self::Pass(why) => ("pass", Some(why.word())),
            Self::Methods | Self::File => ("file", None),
            Self::Redirect | Self::Moved(_) => ("redirect", None),
            Self::Refused(why) => ("refused", Some(why.word())),
        }
    }

    /// The status, where it is ours.
    pub(super) fn status(self) -> Option<u16> {
        match self {
            Self::Refused(why) => Some(fault::status(why)),
            Self::Redirect => Some(301),
            Self::Moved(status) => Some(status),
            Self::Methods => Some(204),
            Self::Purge
            | Self::Hit
            | Self::Stale
            | Self::Miss { .. }
            | Self::Pass(_)
            | Self::File => None,
        }
    }

    pub(super) fn sentence(self, explanation: &Explanation<'_, '_>) -> String {
        let entry = explanation.entry.as_ref().map(|(entry, _)| entry);
        let fixed = match self {
            Self::Hit => {
                let age = entry.map(|e| e.age(explanation.state.services.clock.tick()));
                let left = entry
                    .zip(age)
                    .map(|(e, age)| e.life.fresh.saturating_sub(age));
                let left = left.unwrap_or_default().as_secs();
                return format!("answered from memory, fresh for another {left} s");
            }
            Self::Refused(why) => return fault::public_text(fault::status(why)).to_owned(),
            Self::Moved(_) => {
                let elsewhere = explanation.elsewhere.as_ref();
                let location = elsewhere.map(|found| found.location.as_slice());
                let location = String::from_utf8_lossy(location.unwrap_or_default());
                return format!("redirected to {location}, before anything stored is looked at");
            }
            Self::Methods => "answered with the methods there are",
            Self::Purge => {
                "obeyed as a purge, if it comes from an address of `purge_allow` or with the secret"
            }
            Self::Stale => "a stale copy answers at once, and one refresh asks the upstream",
            Self::Miss {
                stale_on_error: true,
                ..
            } => "the upstream composes the page; the stale copy answers if it fails",
            Self::Miss { .. } => {
                "the upstream composes the page, once for all who ask meanwhile; it is stored if its answer allows it"
            }
            Self::Pass(_) => "goes to the upstream whole, for this visitor alone",
            Self::File => match explanation.below {
                Below::File {
                    kept: Some(age), ..
                } if age < TRUSTED => "a file below the root answers, from memory",
                Below::File { kept: Some(_), .. } => {
                    "a file below the root answers, from memory once the disk has been looked at again"
                }
                _ => "a file below the root answers",
            },
            Self::Redirect => "redirected to the folder's address, with its slash",
        };
        fixed.to_owned()
    }
}

fn is_of(entry: &Entry, asset: &files::Asset) -> bool {
    let source = entry.source();
    source.is_some_and(|source| *source.stamp() == *asset.stamp())
}

fn kept(explanation: &Explanation<'_, '_>) -> Kept {
    let Some((entry, standing)) = &explanation.entry else {
        return Kept::Nothing;
    };
    let soft_purged = match standing {
        Standing::Alive => false,
        Standing::Soft => true,
        Standing::Dead | Standing::Busy => return Kept::Nothing,
    };
    let standing = lookup::Standing {
        age: entry.age(explanation.state.services.clock.tick()),
        life: &entry.life,
        soft_purged,
        fields: &entry.fields,
    };
    match lookup::plan(&explanation.exchange.facts, Some(&standing)) {
        Plan::Fresh if entry.kind == Kind::TravelsWhole => Kept::TravelsWhole,
        _ if entry.kind != Kind::Page => Kept::Nothing,
        Plan::Fresh => Kept::Fresh,
        Plan::ServeStaleAndRefresh | Plan::ServeStale => Kept::Usable,
        Plan::Fetch {
            stale_on_error: true,
        } => Kept::OnError,
        Plan::Fetch {
            stale_on_error: false,
        }
        | Plan::OnlyIfCachedMiss => Kept::Nothing,
    }
}

/// The newest order that touches the request's address; tags are known of entries only.
pub(super) fn touching(exchange: &Exchange<'_>) -> Option<Touching> {
    let mut path_query = Vec::new();
    exchange.facts.path_query(&mut path_query);
    let touch = Touch {
        host: exchange.facts.host_id(),
        url: exchange.facts.url_id(),
        path_query: &path_query,
        tags: None,
    };
    exchange.site.core.epochs.newest_touching(0, &touch)
}
