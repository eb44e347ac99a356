//! The user of the process and the sandbox of its threads, from the configuration.

use std::path::Path;

use galley_config::{AdminListen, Config, PhpAddress, SiteConfig, UpstreamConfig};

use super::ServerStartError;
use super::listeners::NewListeners;
use galley_sys::sandbox::{Sandbox, SandboxLevel};
use galley_sys::{cgroup, privileges};

/// Creates the folders for sockets that Galley creates after it has become its user.
pub(super) fn make_folders(config: &Config) -> Result<(), ServerStartError> {
    let Some(user) = &config.server.process.user else {
        return Ok(());
    };
    if let AdminListen::Unix(socket) = &config.admin.listen
        && let Some(folder) = socket.parent()
    {
        privileges::folder_for(user, folder).map_err(|cause| of_user(user, cause))?;
    }
    Ok(())
}

/// Gives Galley's control group to the user that Galley becomes, where resource limits of PHP need it. Errors are logged when
/// each PHP starts.
pub(super) fn delegate_group(config: &Config) {
    let is_limited =
        |site: &SiteConfig| site.managed.memory_high.is_some() || site.managed.pids_max.is_some();
    if let Some(user) = &config.server.process.user
        && config.sites.iter().any(is_limited)
        && privileges::is_root()
        && let Ok(account) = privileges::account_of(user, config.server.process.group.as_deref())
    {
        let _ = cgroup::delegate(&account);
    }
}

/// Becomes the user that the configuration names. Must be called while there is one thread.
pub(super) fn drop_root(config: &Config, listeners: &NewListeners) -> Result<(), ServerStartError> {
    let Some(user) = &config.server.process.user else {
        return Ok(());
    };
    let group = config.server.process.group.as_deref();
    privileges::become_user(user, group, listeners.files()).map_err(|cause| of_user(user, cause))
}

fn of_user(user: &str, cause: std::io::Error) -> ServerStartError {
    ServerStartError::User {
        user: user.to_owned(),
        cause,
    }
}

/// The sandbox of front and fetch threads, and the level of protection that this machine supports. `None`: the threads are
/// not confined. `spool`: the folder for request and response bodies in transit.
pub(super) fn sandbox(config: &Config, spool: Option<&Path>) -> (Option<Sandbox>, SandboxLevel) {
    if !config.server.sandbox {
        return (None, SandboxLevel::Off);
    }
    let mut sandbox = Sandbox::default();
    for root in config.sites.iter().filter_map(|site| site.root.as_ref()) {
        sandbox.read(root);
        // Debian and some deployments keep it elsewhere. An unreadable one closes the site.
        let rules = root.join(".htaccess");
        if rules.is_symlink() {
            sandbox.read_target(&rules);
        }
    }
    let folders = |site: &SiteConfig| {
        let internal = site.internal.iter();
        let internal = internal.filter_map(|entry| entry.folder.clone());
        internal
            .chain(site.link_targets.clone())
            .collect::<Vec<_>>()
    };
    for folder in config.sites.iter().flat_map(folders) {
        sandbox.read(&folder);
    }
    // Password files are read again for each comparison, and are often replaced by another file of the same name.
    let sites = config.sites.iter();
    let passwords = sites.flat_map(|site| site.policy.password_files());
    for folder in passwords.filter_map(|(_, file)| file.parent()) {
        sandbox.read(folder);
    }
    if config.sites.iter().any(resolves_names) {
        for path in RESOLVER_PATHS {
            sandbox.read(Path::new(path));
        }
    }
    if let Some(disk) = &config.cache.disk {
        sandbox.write(&disk.path);
    }
    if let Some(spool) = spool {
        // If the folder is removed and created again, it is a different one. It is accessible through its parent folder,
        // unless the parent is a system folder.
        let around = spool
            .parent()
            .filter(|around| around.components().count() > 2);
        let is_own = config.server.spool.folder.is_some();
        sandbox.write(around.filter(|_| is_own).unwrap_or(spool));
    }
    match sandbox.probe() {
        Ok(held) => {
            tracing::info!(held = held.word(), "sandbox enabled");
            (Some(sandbox), held)
        }
        Err(error) => {
            tracing::warn!(%error, "cannot enable the sandbox, so the threads are not confined; set `sandbox = \"off\"` if this is intended");
            (None, SandboxLevel::Not)
        }
    }
}

/// Whether an upstream of a site has a host name that must be resolved.
fn resolves_names(site: &SiteConfig) -> bool {
    let is_name = |host: &str| {
        let bare = host.trim_matches(['[', ']']);
        bare.parse::<std::net::IpAddr>().is_err()
    };
    let mut upstreams = std::iter::once(&site.upstream).chain(&site.further);
    upstreams.any(|upstream| match upstream {
        UpstreamConfig::Http(servers) => servers.iter().any(|server| is_name(&server.host)),
        UpstreamConfig::Php(servers) => servers.iter().any(|server| match &server.address {
            PhpAddress::Tcp(address) => {
                is_name(address.rsplit_once(':').map_or(address, |(host, _)| host))
            }
            PhpAddress::Unix(_) => false,
        }),
        UpstreamConfig::Managed | UpstreamConfig::Program(_) | UpstreamConfig::Files => false,
    })
}

/// The folders that name resolution reads: settings that other programs replace at any time, and parts of the C library.
const RESOLVER_PATHS: &[&str] = &[
    "/etc",
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/run/systemd/resolve",
    "/run/resolvconf",
    "/run/NetworkManager",
];
