//! What to measure: `bench/scenarios.toml` as types.
//!
//! An unknown key is an error. Whether the words in braces have a meaning is seen when they are filled in.

use std::{collections::BTreeMap, fmt, fs, path::Path};

use serde::Deserialize;

use crate::demo::Complaint;

/// Everything that one run needs to know.
#[derive(Debug)]
pub(super) struct Plan {
    /// Host that all clients name and that WordPress believes to be.
    pub(super) host: String,
    /// Connections that each client keeps open.
    pub(super) connections: u32,
    /// Children of Apache, workers of PHP-FPM.
    pub(super) php_workers: u32,
    /// Name of the contender whose CPU per request is 1.
    pub(super) baseline: String,
    pub(super) pages: Vec<Page>,
    /// Values of Accept-Encoding; empty: the field is not sent.
    pub(super) accept_encoding: Vec<String>,
    pub(super) length: Length,
    pub(super) is_quick: bool,
    pub(super) apache: Apache,
    pub(super) contenders: Vec<Contender>,
    pub(super) clients: Vec<Client>,
    /// Name of a program and the command that prints its version.
    pub(super) versions: BTreeMap<String, Vec<String>>,
}

/// A page of the sample site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Page {
    Front,
    Post,
}

/// How long it all takes.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Length {
    pub(super) rounds: u32,
    /// Of each measurement.
    pub(super) seconds: u32,
}

/// What Apache is told beyond what every WordPress needs.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Apache {
    pub(super) keep_alive_timeout_s: u32,
    /// Lines of configuration, with words.
    pub(super) extra: String,
}

/// A way to serve the site.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Contender {
    /// Short and unique, for paths and `--only`.
    pub(super) name: String,
    /// For the table.
    pub(super) title: String,
    /// Who composes the pages.
    pub(super) backend: Backend,
    /// The program in front of it, with words; none: the backend itself answers clients.
    #[serde(default)]
    pub(super) command: Vec<String>,
    /// The program's configuration file beside the scenarios, with words.
    pub(super) config: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Backend {
    /// Apache with mod_php.
    Apache,
    PhpFpm,
}

/// A way to ask.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Client {
    /// For the table.
    pub(super) name: String,
    /// Whose output it is.
    pub(super) output: Output,
    /// The command line, with words; `{{fields}}` alone stands for a `-H` with each field.
    pub(super) command: Vec<String>,
    /// The protocol version that the program speaks.
    pub(super) version: String,
    /// Behind the path, with its question mark, or empty.
    pub(super) query: String,
    /// Fields it is told to send, whole lines.
    pub(super) fields: Vec<String>,
    /// Fields it sends by itself.
    pub(super) adds: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Output {
    Ab,
    Wrk,
}

/// The file as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    host: String,
    connections: u32,
    php_workers: u32,
    baseline: String,
    pages: Vec<Page>,
    accept_encoding: Vec<String>,
    full: Length,
    quick: Length,
    apache: Apache,
    contender: Vec<Contender>,
    client: Vec<Client>,
    versions: BTreeMap<String, Vec<String>>,
}

impl Plan {
    /// Reads the file; `only` names the contenders to keep, or none for all.
    pub(super) fn load(path: &Path, quick: bool, only: &[String]) -> Result<Self, Complaint> {
        let text = fs::read_to_string(path)
            .map_err(|error| format!("cannot read `{}`: {error}", path.display()))?;
        Self::parse(&text, quick, only)
            .map_err(|error| format!("`{}`: {error}", path.display()).into())
    }

    fn parse(text: &str, quick: bool, only: &[String]) -> Result<Self, Complaint> {
        let file: File = toml::from_str(text)?;
        let known = |name: &String| file.contender.iter().any(|other| other.name == *name);
        if let Some(stranger) = only.iter().find(|name| !known(name)) {
            return Err(format!("no contender is called `{stranger}`").into());
        }
        let mut contenders = file.contender;
        contenders.retain(|one| only.is_empty() || only.contains(&one.name));
        Ok(Self {
            host: file.host,
            connections: file.connections,
            php_workers: file.php_workers,
            baseline: file.baseline,
            pages: file.pages,
            accept_encoding: file.accept_encoding,
            length: if quick { file.quick } else { file.full },
            is_quick: quick,
            apache: file.apache,
            contenders,
            clients: file.client,
            versions: file.versions,
        })
    }
}

impl fmt::Display for Page {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Front => "front page",
            Self::Post => "post",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHIPPED: &str = include_str!("../../../../bench/scenarios.toml");

    impl Plan {
        /// The plan of `bench/scenarios.toml`, for tests of others.
        pub(in super::super) fn shipped() -> Self {
            Self::parse(SHIPPED, false, &[]).unwrap()
        }
    }

    #[test]
    fn the_shipped_file_is_understood() {
        let plan = Plan::parse(SHIPPED, true, &[]).unwrap();
        assert!(plan.length.rounds == 1 && plan.is_quick);
        assert!(plan.contenders.iter().any(|one| one.name == plan.baseline));
        let one = Plan::parse(SHIPPED, false, &["galley".to_owned()]).unwrap();
        assert_eq!((one.contenders.len(), one.length.rounds), (1, 3));
    }

    #[test]
    fn strangers_are_refused() {
        let misspelled = SHIPPED.replacen("connections", "conections", 1);
        let rows = [
            (misspelled.as_str(), "galley", "conections"),
            (SHIPPED, "varnich", "varnich"),
        ];
        for (text, only, wanted) in rows {
            let complaint = Plan::parse(text, false, &[only.to_owned()]).unwrap_err();
            assert!(complaint.to_string().contains(wanted), "{complaint}");
        }
    }
}
