//! Examines the machine: which WordPress can be set up, and which server serves each site now.

use std::path::{Path, PathBuf};

use super::error::SetupError;
use super::ports;
use crate::options::{SetupOptions, TlsOption};
use crate::outcome::{runtime, talk};
use crate::setup::{
    DetectedSite, Detection, Machine, ServerEndpoint, SetupChoices, SiteDraft, TlsPreference,
    WordPressInfo, detect, query_wordpress,
};

/// A WordPress that can be set up.
pub(super) struct SurveyedSite {
    pub(super) draft: SiteDraft,
    /// The server that serves the site now.
    pub(super) current: Option<ServerEndpoint>,
    /// The description of the site, one line each.
    pub(super) lines: Vec<String>,
    pub(super) info: Option<WordPressInfo>,
}

/// A WordPress that cannot be set up.
pub(super) struct SkippedSite {
    pub(super) root: PathBuf,
    pub(super) why: String,
}

/// The findings on the machine.
pub(super) struct SetupFindings {
    pub(super) detection: Detection,
    pub(super) sites: Vec<SurveyedSite>,
    pub(super) skipped: Vec<SkippedSite>,
}

/// Detects the machine's services, and queries each WordPress.
pub(super) fn survey(options: &SetupOptions) -> Result<SetupFindings, SetupError> {
    let mut folders = Vec::new();
    for folder in &options.wordpress {
        let real = folder.canonicalize();
        let real = real.map_err(|cause| SetupError::file("open", folder, &cause))?;
        if !real.join("wp-load.php").is_file() {
            return Err(SetupError::Usage(format!(
                "`{}` is not the folder of a WordPress: it has no wp-load.php",
                real.display()
            )));
        }
        folders.push(real);
    }
    talk("looking for WordPress, web servers, PHP and certificates");
    let detection = detect(&Machine::at("/"), &folders);
    let choices = SetupChoices {
        tls: match options.tls {
            TlsOption::Found => TlsPreference::Found,
            TlsOption::Auto => TlsPreference::Auto,
            TlsOption::Off => TlsPreference::Off,
        },
        php: options.php.clone(),
    };
    let runtime = runtime().map_err(SetupError::Failed)?;
    let (mut sites, mut skipped) = (Vec::new(), Vec::new());
    // If the web server's configuration names a site for a host, that site has precedence over one whose database contains the
    // host.
    let mut candidates: Vec<&DetectedSite> = detection.sites.iter().collect();
    candidates.sort_by_key(|site| site.hosts.is_empty());
    for site in candidates {
        let host = site.hosts.iter().flat_map(|host| &host.names).next();
        let host = host.map_or("localhost", |name| name.trim_start_matches("*."));
        let info = runtime.block_on(query_wordpress(&site.wordpress.root, host));
        let draft = SiteDraft::new(site, info.as_ref().ok(), &detection, &choices);
        let draft = draft.and_then(|draft| match other_owner(&draft, &detection, &sites) {
            Some(other) => Err(format!("its address is that of {}", other.display())),
            None => Ok(draft),
        });
        match draft {
            Ok(draft) => sites.push(SurveyedSite {
                current: current(site, draft.is_https),
                lines: lines(site, &info, &draft),
                draft,
                info: info.ok(),
            }),
            Err(why) => skipped.push(SkippedSite {
                root: site.wordpress.root.clone(),
                why: info
                    .err()
                    .map_or(why.clone(), |wrong| format!("{why} ({wrong})")),
            }),
        }
    }
    Ok(SetupFindings {
        detection,
        sites,
        skipped,
    })
}

/// Another WordPress that has one of the hosts: in the web server's configuration, or because it was handled earlier.
fn other_owner(
    draft: &SiteDraft,
    detection: &Detection,
    sites: &[SurveyedSite],
) -> Option<PathBuf> {
    let names = |site: &DetectedSite, name: &String| {
        let mut names = site.hosts.iter().flat_map(|host| &host.names);
        names.any(|own| own == name)
    };
    let is_own = |name: &String| {
        let mut sites = detection.sites.iter();
        sites.any(|site| site.wordpress.root == draft.root && names(site, name))
    };
    let claimed: Vec<&String> = draft.hosts.iter().filter(|name| !is_own(name)).collect();
    let others = detection.sites.iter();
    let others = others.filter(|site| site.wordpress.root != draft.root);
    let mut served = others.filter(|site| claimed.iter().any(|name| names(site, name)));
    let by_server = served.next().map(|site| site.wordpress.root.clone());
    by_server.or_else(|| {
        let mut earlier = sites.iter().map(|site| &site.draft);
        let same = earlier.find(|other| other.hosts.iter().any(|host| draft.hosts.contains(host)));
        same.map(|other| other.root.clone())
    })
}

/// The current web server's listener for this site, with TLS if visitors use it.
fn current(site: &DetectedSite, is_https: bool) -> Option<ServerEndpoint> {
    let listeners: Vec<_> = site.hosts.iter().flat_map(|host| &host.listen).collect();
    let best = listeners.iter().find(|listen| listen.is_tls == is_https);
    let chosen = best.or(listeners.first())?;
    Some(ServerEndpoint {
        address: chosen.reachable(),
        is_tls: chosen.is_tls,
        is_forwarded_https: is_https && !chosen.is_tls,
    })
}

fn lines(
    site: &DetectedSite,
    info: &Result<WordPressInfo, String>,
    draft: &SiteDraft,
) -> Vec<String> {
    let wordpress = &site.wordpress;
    let version = wordpress.version.as_deref().unwrap_or("of unknown version");
    let mut lines = vec![
        format!("WordPress {version} in {}", wordpress.root.display()),
        format!("  hosts      {}", draft.hosts.join(", ")),
    ];
    match info {
        Ok(info) => {
            lines.push(format!("  PHP        {}", info.php));
            lines.push(format!("  database   {}", info.database));
            if info.has_page_cache {
                lines.push(
                    "  note       another plugin caches pages: switch its page cache off"
                        .to_owned(),
                );
            }
        }
        Err(why) => {
            lines.push(format!("  note       {why}"));
            lines.extend(
                wordpress
                    .database
                    .iter()
                    .map(|name| format!("  database   {name}")),
            );
        }
    }
    let servers = site.hosts.iter().map(|host| host.server.name());
    let mut servers: Vec<&str> = servers.collect();
    servers.dedup();
    if !servers.is_empty() {
        lines.push(format!("  served by  {}", servers.join(", ")));
    }
    lines.extend(
        draft
            .notes
            .iter()
            .map(|note| format!("  choice     {note}")),
    );
    lines
}

impl SetupFindings {
    /// Prints the findings.
    pub(super) fn explain(&self) {
        for line in self.sites.iter().flat_map(|site| &site.lines) {
            talk(line);
        }
        for skipped in &self.skipped {
            talk(&format!(
                "not set up: {}: {}",
                skipped.root.display(),
                skipped.why
            ));
        }
        for owner in ports::foreign(&self.detection) {
            talk(&format!("other server: {}", ports::name(owner)));
        }
    }

    /// Error: no WordPress can be set up.
    pub(super) fn require_sites(&self) -> Result<(), SetupError> {
        if !self.sites.is_empty() {
            return Ok(());
        }
        let why = match self.skipped.as_slice() {
            [] => "no WordPress was found: name its folder with --wordpress DIR".to_owned(),
            [one] => format!("`{}` cannot be set up: {}", one.root.display(), one.why),
            several => format!("none of {} WordPress can be set up", several.len()),
        };
        Err(SetupError::Failed(why))
    }

    /// The root of the site for which Galley runs PHP, as the owner of that folder; `None` if Galley runs no PHP.
    pub(super) fn managed(&self) -> Option<&Path> {
        let mut sites = self.sites.iter();
        let managed = sites.find(|site| site.draft.php == crate::setup::PhpChoice::Managed);
        managed.map(|site| site.draft.root.as_path())
    }
}
