//! Checks for `galley check` whether this machine meets the requirements of a start, without changing anything.
//!
//! Sockets are bound and closed again without listening; files and folders are only read. A socket that a running Galley with
//! the same configuration holds is not an error. Checks that need another user are skipped. Both are reported as notes.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use galley_config::{
    AdminListen, Config, Listen, LogTarget, MachineFinding, OptionPath, Program, SiteConfig,
    UpstreamConfig,
};

use super::ServerStartError;
use super::quic::{MissingQuic, QUIC_LIST};
use super::{cluster, reach, refusal};
use galley_access::Countries;
use galley_sys::reach::UserIdentity;
use galley_sys::sockets;
use galley_sys::{account, privileges};

/// Whether a Galley runs with this configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunningGalley {
    /// No Galley responds.
    No,
    /// A Galley responds at the admin address, and listens at these URLs.
    At(Vec<String>),
    /// A server responds at the admin address, but does not report where it listens.
    Somewhere,
}

/// The problems that a start would have.
#[derive(Debug, Default)]
pub struct Preflight {
    /// Problems that would prevent the start and are errors in the configuration.
    pub wrong: Vec<MachineFinding>,
    /// Problems that would prevent the start on this machine in its present state.
    pub refused: Vec<MachineFinding>,
    /// Skipped checks, and problems that would not prevent the start.
    pub notes: Vec<MachineFinding>,
    /// Upstreams that cannot be reached now.
    pub unreachable: Vec<MachineFinding>,
}

impl Preflight {
    /// All problems that would prevent the start.
    pub fn all(&self) -> Vec<MachineFinding> {
        self.wrong.iter().chain(&self.refused).cloned().collect()
    }
}

/// Checks the requirements of a start. Blocks on the disk.
pub fn preflight(config: &Config, running: &RunningGalley) -> Preflight {
    let mut preflight = Preflight::default();
    let who = who(config, running, &mut preflight);
    php_users(config, &mut preflight);
    listeners(config, running, &mut preflight);
    admin(config, running, &who, &mut preflight);
    folders(config, &who, &mut preflight);
    logs(config, &who, &mut preflight);
    countries(config, &mut preflight);
    preflight.notes.extend(cluster::examine(config));
    for (index, site) in config.sites.iter().enumerate() {
        programs(index, site, &mut preflight);
        root(index, site, &mut preflight);
    }
    preflight
}

/// As `preflight`, with problems that never prevent a start and take long to find: links out of roots, and upstreams that accept no
/// connection. Blocks on connections to upstreams, too. For `galley check`.
pub fn inspect(config: &Config, running: &RunningGalley) -> Preflight {
    let mut inspection = preflight(config, running);
    let who = who(config, running, &mut Preflight::default());
    inspection.unreachable = reach::unreachable(config, &who);
    for (index, site) in config.sites.iter().enumerate() {
        links(index, site, &mut inspection);
    }
    inspection
}

/// The user of the process: the one that the configuration names, otherwise that of the running Galley, otherwise the current one.
fn who(config: &Config, running: &RunningGalley, found: &mut Preflight) -> UserIdentity {
    let mut who = UserIdentity::this();
    if let AdminListen::Unix(socket) = &config.admin.listen
        && *running != RunningGalley::No
        && let Some(account) = galley_sys::owner(socket).and_then(|name| account::named(&name))
    {
        who = UserIdentity::becoming(account);
    }
    if let Some(user) = &config.server.process.user {
        match privileges::account_of(user, config.server.process.group.as_deref()) {
            Ok(account) => who = UserIdentity::becoming(account),
            Err(cause) => found.wrong.push(refusal::of_user(config, user, &cause)),
        }
    }
    who
}

fn php_users(config: &Config, found: &mut Preflight) {
    for (index, site) in config.sites.iter().enumerate() {
        if let Some(user) = &site.managed.user
            && site.upstream.is_managed()
            && let Err(cause) = privileges::account_of(user, None)
        {
            found.wrong.push(MachineFinding {
                at: OptionPath::Site(index, "php_user"),
                value: user.clone(),
                why: format!("but {cause}"),
                help: "name the user who owns the site's files".to_owned(),
            });
        }
    }
}

fn listeners(config: &Config, running: &RunningGalley, found: &mut Preflight) {
    let plain = config.sites.iter().flat_map(|site| &site.listen);
    let secure = config.sites.iter().flat_map(|site| &site.listen_tls);
    let quic = config.all_quic_listeners();
    let listeners: BTreeSet<(&'static str, &Listen)> = plain
        .map(|one| ("listen", one))
        .chain(secure.map(|one| ("listen_tls", one)))
        .chain(quic.iter().map(|one| (QUIC_LIST, one)))
        .collect();
    for (list, listen) in listeners {
        let tried = match listen {
            Listen::Tcp(address) if list == QUIC_LIST => sockets::is_udp_free(*address),
            Listen::Tcp(address) => sockets::is_free(*address),
            Listen::Unix(path) => sockets::is_path_free(path),
            // Only processes that systemd has started have them.
            Listen::Passed(_) => Ok(()),
        };
        let Err(cause) = tried else { continue };
        let finding = refusal::listener(config, listen, list, &cause);
        let note = |why: &str, help: &str| MachineFinding {
            why: why.to_owned(),
            help: help.to_owned(),
            ..finding.clone()
        };
        match cause.kind() {
            io::ErrorKind::AddrInUse if running.holds(listen) => found.notes.push(note(
                "where the running Galley of this configuration listens",
                "nothing to do: the next start takes it over",
            )),
            io::ErrorKind::PermissionDenied if !privileges::is_root() => found.notes.push(note(
                "where this user may not listen, so it was not tested",
                "run `galley check` as the user that starts Galley",
            )),
            _ if list == QUIC_LIST && config.server.listen_quic.is_none() => {
                found.notes.push(without_quic(listen, cause));
            }
            _ => found.refused.push(finding),
        }
    }
}

/// The note about a TLS listener whose UDP port cannot be used.
fn without_quic(listen: &Listen, cause: io::Error) -> MachineFinding {
    let missing = MissingQuic {
        listen: listen.clone(),
        cause,
    };
    MachineFinding {
        at: OptionPath::Server(QUIC_LIST),
        value: listen.to_string(),
        why: format!(
            "where UDP cannot be used, so there is no HTTP/3: {}",
            missing.cause
        ),
        help: missing.remedy(),
    }
}

impl RunningGalley {
    /// Whether the running Galley listens at this address, or at another address with the same port.
    fn holds(&self, listen: &Listen) -> bool {
        match self {
            Self::No => false,
            Self::Somewhere => true,
            Self::At(urls) => urls.iter().any(|url| is_at(url, listen)),
        }
    }
}

fn is_at(url: &str, listen: &Listen) -> bool {
    let address = url.split_once("://").map_or(url, |(_, address)| address);
    match listen {
        Listen::Tcp(wanted) => address
            .parse::<SocketAddr>()
            .is_ok_and(|held| held.port() == wanted.port()),
        Listen::Unix(_) | Listen::Passed(_) => url == listen.to_string(),
    }
}

fn admin(config: &Config, running: &RunningGalley, who: &UserIdentity, found: &mut Preflight) {
    let listen = &config.admin.listen;
    if *running != RunningGalley::No {
        return;
    }
    let tried = match listen {
        AdminListen::Off => return,
        AdminListen::Tcp(address) => std::net::TcpListener::bind(address).map(drop),
        AdminListen::Unix(path) => galley_admin::is_free(path, who.uid()).and_then(|()| {
            // The start creates the folder if it runs as root.
            let folder = path.parent().unwrap_or(Path::new("/"));
            if folder.exists() || !privileges::is_root() {
                may_make(who, path)
            } else {
                Ok(())
            }
        }),
    };
    if let Err(cause) = tried {
        found
            .refused
            .push(refusal::of_admin(&listen.to_string(), &cause));
    }
}

/// Checks the country database.
fn countries(config: &Config, found: &mut Preflight) {
    let Some(path) = &config.server.geoip else {
        return;
    };
    if let Err(cause) = Countries::open(path) {
        let path = path.clone();
        let refused = ServerStartError::Countries { path, cause };
        found.refused.extend(refused.finding(config));
    }
}

fn folders(config: &Config, who: &UserIdentity, found: &mut Preflight) {
    let mut refuse = |at, path: &Path, result: io::Result<()>, help: &str| {
        if let Err(cause) = result {
            let why = format!("which cannot be written: {cause}");
            found
                .refused
                .push(MachineFinding::of_path(at, path, why, help));
        }
    };
    let remedy = "give Galley's user write access, or name another";
    if let Some(spool) = &config.server.spool.folder {
        refuse(
            OptionPath::Server("spool"),
            spool,
            who.may_write(spool),
            remedy,
        );
    }
    for (index, site) in config.sites.iter().enumerate() {
        if let Some(folder) = &site.purge_directory {
            let at = OptionPath::Site(index, "purge_directory");
            refuse(at, folder, may_make_folder(who, folder), remedy);
        }
        if let Some(folder) = &site.nginx_cache_path {
            let at = OptionPath::Site(index, "nginx_cache_path");
            refuse(at, folder, may_make_folder(who, folder), remedy);
        }
    }
    if let Some(acme) = &config.acme
        && let Err(cause) = may_keep_keys(who, &acme.storage)
    {
        let why = format!("which cannot be used: {cause}");
        let finding =
            MachineFinding::of_path(OptionPath::Acme("storage"), &acme.storage, why, remedy);
        // If root runs the check, the service may run as another user that only the service manager knows.
        let is_known = who.uid() != 0 || cause.kind() != io::ErrorKind::PermissionDenied;
        let list = if is_known {
            &mut found.refused
        } else {
            &mut found.notes
        };
        list.push(finding);
    }
    if let Some(disk) = &config.cache.disk
        && let Err(cause) = may_make_folder(who, &disk.path)
    {
        // Galley serves without the disk cache.
        let at = OptionPath::Cache("disk");
        let (why, list) = match cause.kind() {
            io::ErrorKind::NotADirectory => ("which is not a folder".to_owned(), &mut found.wrong),
            io::ErrorKind::Unsupported => (
                format!("which cannot hold a cache: {cause}"),
                &mut found.wrong,
            ),
            _ => (
                format!("which cannot be written: {cause}"),
                &mut found.notes,
            ),
        };
        let help = match cause.kind() {
            io::ErrorKind::NotADirectory | io::ErrorKind::Unsupported => {
                "name a folder, which Galley creates if it does not exist, or leave the option out"
            }
            _ => remedy,
        };
        let why = format!("{why}, so no page would survive a restart");
        list.push(MachineFinding::of_path(at, &disk.path, why, help));
    }
}

/// Links below the root of a site that lead out of it.
fn links(index: usize, site: &SiteConfig, found: &mut Preflight) {
    let Some(root) = &site.root else {
        return;
    };
    let leading = galley_files::links_out_of(root, &site.link_targets);
    found.notes.extend(leading.into_iter().map(|(folder, link)| {
        let (link, folder) = (link.display(), folder.display());
        MachineFinding {
            at: OptionPath::Site(index, "root"),
            value: root.display().to_string(),
            why: format!("in which the link `{link}` leads to `{folder}`: visitors get 404 for the files there"),
            help: format!("name the folder if it is for visitors: `link_targets = [\"{folder}\"]`"),
        }
    }));
}

fn may_keep_keys(who: &UserIdentity, folder: &Path) -> io::Result<()> {
    match fs::symlink_metadata(folder) {
        Ok(found) if !found.is_dir() => Err(io::ErrorKind::NotADirectory.into()),
        Ok(found) if found.uid() != who.uid() || found.mode() & 0o022 != 0 => Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "it belongs to another user, or others may write to it",
        )),
        _ => may_make(who, folder),
    }
}

fn may_make_folder(who: &UserIdentity, path: &Path) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(found) if !found.is_dir() => Err(io::ErrorKind::NotADirectory.into()),
        // A link to nothing: no folder can be created there.
        Err(_) if fs::symlink_metadata(path).is_ok() => Err(io::ErrorKind::NotADirectory.into()),
        _ => may_make(who, path),
    }
}

/// Whether the user may create a file at this path or, if it exists, write to it.
fn may_make(who: &UserIdentity, path: &Path) -> io::Result<()> {
    let mut near = path;
    // A link to a missing file counts as existing.
    while fs::symlink_metadata(near).is_err() {
        near = match near.parent() {
            Some(above) => above,
            None => break,
        };
    }
    if near != path && !near.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    // An existing file that is not a folder is a socket, which the start replaces.
    let is_socket = near == path && !near.is_dir();
    let near = near.parent().filter(|_| is_socket).unwrap_or(near);
    who.may_write(near)
}

fn logs(config: &Config, who: &UserIdentity, found: &mut Preflight) {
    let of_sites = config.sites.iter().enumerate();
    let of_sites = of_sites.filter_map(|(index, site)| {
        Some((OptionPath::SiteLog(index, "access"), site.access.as_ref()?))
    });
    let targets = [
        (OptionPath::Log("error"), &config.log.error),
        (OptionPath::Log("access"), &config.log.access),
    ];
    for (at, target) in targets.into_iter().chain(of_sites) {
        let LogTarget::File(file) = target else {
            continue;
        };
        let folder = file.parent().unwrap_or(Path::new("/"));
        let place = if file.exists() { file } else { folder };
        if let Err(cause) = who.may_write(place) {
            let why = format!("which cannot be written: {cause}");
            let help = "give Galley's user write access, or name another";
            found
                .refused
                .push(MachineFinding::of_path(at, file, why, help));
        }
    }
}

/// Checks that the root of a site with PHP is not a folder inside a WordPress.
fn root(index: usize, site: &SiteConfig, found: &mut Preflight) {
    let Some(root) = site.root.as_deref() else {
        return;
    };
    let is_wordpress =
        |folder: &Path| folder.join("wp-load.php").is_file() && folder.join("wp-includes").is_dir();
    if site.upstream == UpstreamConfig::Files || is_wordpress(root) {
        return;
    }
    let is_of_wordpress = |folder: &&Path| {
        let below = root.strip_prefix(folder);
        is_wordpress(folder)
            && below.is_ok_and(|below| OWN.iter().any(|own| below.starts_with(own)))
    };
    if let Some(wordpress) = root.ancestors().skip(1).find(is_of_wordpress) {
        let wordpress = wordpress.display();
        let at = OptionPath::Site(index, "root");
        let why = format!(
            "which is a folder inside the WordPress in `{wordpress}`, so no page would be found"
        );
        let help = format!("write `root = \"{wordpress}\"`");
        found
            .wrong
            .push(MachineFinding::of_path(at, root, why, &help));
    }
}

/// WordPress's own folders. Another folder below a WordPress may be another site.
const OWN: [&str; 3] = ["wp-content", "wp-admin", "wp-includes"];

/// Checks the programs that Galley starts. Missing PHP modules are checked elsewhere.
fn programs(index: usize, site: &SiteConfig, found: &mut Preflight) {
    let upstreams = site.further.iter().chain([&site.upstream]);
    let commands = upstreams.filter_map(|upstream| match upstream {
        UpstreamConfig::Program(Program { command, .. }) => command.first(),
        _ => None,
    });
    for command in commands {
        if let Err(cause) = privileges::is_program(Path::new(command)) {
            found.refused.push(MachineFinding {
                at: OptionPath::Site(index, "php_command"),
                value: command.clone(),
                why: format!("which cannot be started: {cause}"),
                help: "name an executable file by its whole path".to_owned(),
            });
        }
    }
}
