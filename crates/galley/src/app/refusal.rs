//! Errors that prevent the start: the option that cannot be satisfied on this machine, and the remedy.

use std::io;
use std::path::PathBuf;

use galley_certs::file::FileError;
use galley_config::{Config, Listen, LogTarget, MachineFinding, OptionPath, SiteConfig};

use galley_access::CountryFileError;
use galley_telemetry::errors::UnopenedTarget;

/// The reason why the server did not start.
#[derive(Debug, thiserror::Error)]
pub enum ServerStartError {
    /// A listener could not be opened.
    #[error("cannot listen on `{listen}`: {cause}")]
    Listen {
        /// The listener.
        listen: Listen,
        /// The list that names it: `listen`, `listen_tls` or `listen_quic`.
        list: &'static str,
        /// The error of the system.
        cause: io::Error,
    },
    /// The process could not give up root.
    #[error("cannot become the user `{user}` of `server.user`: {cause}")]
    User {
        /// The user.
        user: String,
        /// The error of the system.
        cause: io::Error,
    },
    /// PHP cannot run as other users.
    #[error("cannot keep root privileges for PHP as other users than `server.user`: {cause}")]
    Privileged {
        /// The error of the system.
        cause: io::Error,
    },
    /// The admin listener could not be opened.
    #[error("cannot open the admin interface on `{address}`: {cause}")]
    Admin {
        /// The address or socket.
        address: String,
        /// The error of the system.
        cause: io::Error,
    },
    /// The URL of the cluster's engine cannot be used.
    #[error("`cluster.engine` cannot be used: {cause}")]
    Cluster {
        /// The reason.
        cause: String,
    },
    /// A log file could not be opened.
    #[error("cannot open the log `{target}`: {cause}")]
    Log {
        /// The file.
        target: LogTarget,
        /// The error of the system.
        cause: io::Error,
    },
    /// A token file could not be read.
    #[error("the token file is `{path}`, {cause}")]
    Token {
        /// The file.
        path: PathBuf,
        /// The reason.
        cause: FileError,
    },
    /// The country database cannot be used.
    #[error("cannot use the database of countries `{path}`: {cause}")]
    Countries {
        /// The file.
        path: PathBuf,
        /// The reason.
        cause: CountryFileError,
    },
    /// The folder for bodies in transit cannot be written.
    #[error("cannot write to the spool folder `{path}`: {cause}")]
    Spool {
        /// The folder.
        path: PathBuf,
        /// The error of the system.
        cause: io::Error,
    },
    /// An error page could not be read.
    #[error("the error page is `{path}`, {cause}")]
    ErrorPage {
        /// The file.
        path: PathBuf,
        /// The reason.
        cause: FileError,
    },
    /// A site's root could not be opened.
    #[error("cannot open the root `{path}` of site `{site}`: {cause}")]
    Root {
        /// The site.
        site: String,
        /// The folder.
        path: PathBuf,
        /// The error of the system.
        cause: io::Error,
    },
    /// The cache folder cannot be used.
    #[error("cannot use the cache folder `{path}`: {cause}")]
    Disk {
        /// The folder.
        path: PathBuf,
        /// The error.
        cause: galley_purging::StorageOpenError,
    },
    /// A site's purge folder cannot be created or watched.
    #[error("cannot use the purge folder `{path}` of site `{site}`: {cause}")]
    PurgeFolder {
        /// The site.
        site: String,
        /// The folder.
        path: PathBuf,
        /// The error of the system.
        cause: io::Error,
    },
    /// A site's folder of page markers cannot be created or watched.
    #[error("cannot use the folder `{path}` of site `{site}`: {cause}")]
    MarkerFolder {
        /// The site.
        site: String,
        /// The folder.
        path: PathBuf,
        /// The error of the system.
        cause: io::Error,
    },
    /// Managed PHP did not start.
    #[error("cannot start PHP for site `{site}`: {cause}")]
    Php {
        /// The site.
        site: String,
        /// The error.
        cause: galley_php::PhpStartError,
    },
    /// A site's certificate cannot be used.
    #[error("the certificate of site `{site}` cannot be used: {trouble}")]
    Certificate {
        /// The site.
        site: String,
        /// The file and its problem.
        trouble: String,
    },
    /// The TLS settings for a site's upstream cannot be used.
    #[error("site `{site}`: {cause}")]
    UpstreamTls {
        /// The site.
        site: String,
        /// The problem.
        cause: galley_tls::UpstreamTlsError,
    },
    /// TLS itself is not usable.
    #[error("TLS cannot be used: {0}")]
    Tls(rustls::Error),
    /// The certificate storage cannot be used.
    #[error("`[acme]` cannot be used: {0}")]
    Acme(io::Error),
    /// A thread or runtime could not be started.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] io::Error),
}

impl From<UnopenedTarget> for ServerStartError {
    fn from(unopened: UnopenedTarget) -> Self {
        Self::Log {
            target: unopened.target,
            cause: unopened.cause,
        }
    }
}

impl ServerStartError {
    /// The error as a finding about the responsible option; `None` if no option is responsible.
    pub fn finding(&self, config: &Config) -> Option<MachineFinding> {
        let (at, value, why, help) = match self {
            Self::Listen {
                listen,
                list,
                cause,
            } => return Some(listener(config, listen, list, cause)),
            Self::User { user, cause } => return Some(of_user(config, user, cause)),
            Self::Admin { address, cause } => return Some(of_admin(address, cause)),
            Self::Php { site, cause } => return Some(of_php(config, number(config, site), cause)),
            Self::Log { .. }
            | Self::Token { .. }
            | Self::Countries { .. }
            | Self::Spool { .. }
            | Self::ErrorPage { .. }
            | Self::Root { .. }
            | Self::Disk { .. }
            | Self::PurgeFolder { .. }
            | Self::MarkerFolder { .. } => return self.of_path(config),
            Self::Cluster { cause } => (
                OptionPath::Cluster("engine"),
                "the URL of the engine".to_owned(),
                format!("which cannot be used: {cause}"),
                "write `redis://host:6379`, `rediss://host:6379` or `redis+unix:///path`",
            ),
            Self::Privileged { cause } => (
                OptionPath::Server("user"),
                config.server.process.user.clone().unwrap_or_default(),
                format!("and PHP cannot be started as other users: {cause}"),
                "let `php_user` of all sites be that user, or start Galley as root",
            ),
            Self::Certificate { site, trouble } => (
                OptionPath::Site(number(config, site), "tls"),
                site.clone(),
                format!("whose certificate cannot be used: {trouble}"),
                "name a certificate and the key that belongs to it",
            ),
            Self::UpstreamTls { site, cause } => (
                OptionPath::Site(number(config, site), "upstream_tls"),
                site.clone(),
                format!("whose upstream cannot be used over TLS: {cause}"),
                "name a file with the certificate of the authority, in PEM form",
            ),
            Self::Acme(cause) => {
                let storage = config.acme.as_ref().map(|acme| acme.storage.display());
                (
                    OptionPath::Acme("storage"),
                    storage.map_or_else(String::new, |path| path.to_string()),
                    format!("which cannot be used: {cause}"),
                    "name a folder that belongs to the user that Galley runs as",
                )
            }
            Self::Tls(_) | Self::Thread(_) => return None,
        };
        Some(MachineFinding {
            at,
            value,
            why,
            help: help.to_owned(),
        })
    }

    /// The finding for an option that names a file or a folder.
    fn of_path(&self, config: &Config) -> Option<MachineFinding> {
        const READ: &str = "give Galley's user read access";
        const WRITE: &str = "give Galley's user write access, or name another";
        let unwritable = |cause: &io::Error| format!("which cannot be written: {cause}");
        let (at, path, why, help) = match self {
            Self::Log { target, cause } => {
                let LogTarget::File(file) = target else {
                    return None;
                };
                (at_log(config, target), file, unwritable(cause), WRITE)
            }
            Self::Token { path, cause } => (at_token(config, path), path, cause.to_string(), READ),
            Self::Countries { path, cause } => (
                OptionPath::Server("geoip"),
                path,
                format!("which cannot be used: {cause}"),
                "name a readable file in MaxMind's format, such as `GeoLite2-Country.mmdb`",
            ),
            Self::Spool { path, cause } => {
                (OptionPath::Server("spool"), path, unwritable(cause), WRITE)
            }
            Self::ErrorPage { path, cause } => {
                let site = at_error_page(config, path);
                let at = OptionPath::Site(site, "error_page");
                (at, path, cause.to_string(), READ)
            }
            Self::Root { site, path, cause } => (
                OptionPath::Site(number(config, site), "root"),
                path,
                format!("which cannot be opened: {cause}"),
                "give Galley's user read access to the folder, and execute access to the folders above it",
            ),
            Self::Disk { path, cause } => (
                OptionPath::Cache("disk"),
                path,
                format!("which cannot be used: {cause}"),
                "stop the other process, or name another folder",
            ),
            Self::MarkerFolder { site, path, cause } => (
                OptionPath::Site(number(config, site), "nginx_cache_path"),
                path,
                format!("which cannot be created or watched: {cause}"),
                WRITE,
            ),
            Self::PurgeFolder { site, path, cause } => (
                OptionPath::Site(number(config, site), "purge_directory"),
                path,
                format!("which cannot be created or watched: {cause}"),
                WRITE,
            ),
            Self::Listen { .. }
            | Self::User { .. }
            | Self::Admin { .. }
            | Self::Cluster { .. }
            | Self::Php { .. }
            | Self::Privileged { .. }
            | Self::Certificate { .. }
            | Self::UpstreamTls { .. }
            | Self::Acme(_)
            | Self::Tls(_)
            | Self::Thread(_) => return None,
        };
        Some(MachineFinding::of_path(at, path, why, help))
    }

    /// Whether the configuration is wrong, as opposed to the present state of the machine.
    pub fn is_configuration(&self) -> bool {
        matches!(self, Self::User { cause, .. } if cause.kind() == io::ErrorKind::NotFound)
    }
}

/// The finding for a listener that cannot be opened.
pub(super) fn listener(
    config: &Config,
    listen: &Listen,
    list: &'static str,
    cause: &io::Error,
) -> MachineFinding {
    let is_here = |site: &SiteConfig| match list {
        "listen_tls" => site.listen_tls.contains(listen),
        _ => site.listen.contains(listen),
    };
    let (why, help) = match cause.kind() {
        io::ErrorKind::AddrInUse => (
            format!("where another program listens: {cause}"),
            if list == super::quic::QUIC_LIST {
                super::quic::OTHER_UDP
            } else if config.files.is_empty() {
                "stop the other program (`ss -ltnp` shows it), or name another address: `galley run --root DIR --listen ADDRESS`"
            } else {
                "stop the other program (`ss -ltnp` shows it), or write another address"
            }
            .to_owned(),
        ),
        io::ErrorKind::AddrNotAvailable => (
            "an address that this machine does not have".to_owned(),
            "write one of those that `ip address` shows, or `0.0.0.0` for all".to_owned(),
        ),
        io::ErrorKind::PermissionDenied => (
            format!("where this user may not listen: {cause}"),
            "start Galley as root with `server.user`, give it the capability CAP_NET_BIND_SERVICE, or write a port from 1024".to_owned(),
        ),
        _ => (
            format!("where Galley cannot listen: {cause}"),
            match listen {
                Listen::Passed(_) => "name a socket of the systemd unit that starts Galley: its `FileDescriptorName`, or its place from 0",
                Listen::Unix(_) => "write a path in a folder that exists and that Galley may write to",
                Listen::Tcp(_) => "write another address",
            }
            .to_owned(),
        ),
    };
    MachineFinding {
        at: OptionPath::Listener {
            site: config.sites.iter().position(is_here).unwrap_or_default(),
            list,
            listen: listen.clone(),
        },
        value: listen.to_string(),
        why,
        help,
    }
}

/// The finding for a user or a group that Galley cannot become.
pub(super) fn of_user(config: &Config, user: &str, cause: &io::Error) -> MachineFinding {
    let group =
        config.server.process.group.as_deref().filter(|_| {
            cause.kind() == io::ErrorKind::NotFound && cause.to_string().contains("group")
        });
    let name = group.unwrap_or(user);
    let option = if group.is_some() { "group" } else { "user" };
    let (why, help) = if cause.kind() == io::ErrorKind::NotFound {
        let make = if group.is_some() {
            "groupadd --system"
        } else {
            "useradd --system --no-create-home"
        };
        (
            format!("but {cause}"),
            format!("name an existing one, or create it: `{make} {name}`"),
        )
    } else {
        (
            format!("which Galley cannot become: {cause}"),
            "start Galley as root, or leave `user` out".to_owned(),
        )
    };
    MachineFinding {
        at: OptionPath::Server(option),
        value: name.to_owned(),
        why,
        help,
    }
}

/// The finding for an admin listener that cannot be opened.
pub(super) fn of_admin(address: &str, cause: &io::Error) -> MachineFinding {
    let why = format!("which cannot be opened: {cause}");
    let help = match cause.kind() {
        io::ErrorKind::AddrInUse => {
            "stop the other program, or write another address: each Galley needs one of its own"
        }
        io::ErrorKind::AddrNotAvailable => {
            "write `127.0.0.1` and a port, or a socket: `unix:/run/galley/admin.sock`"
        }
        _ => {
            "name a socket in a folder that belongs to the user that Galley runs as, such as `unix:/run/galley/admin.sock`"
        }
    };
    MachineFinding {
        at: OptionPath::Admin("listen"),
        value: address.to_owned(),
        why,
        help: help.to_owned(),
    }
}

/// The finding for PHP, or another program, that does not start.
pub fn of_php(config: &Config, site: usize, cause: &galley_php::PhpStartError) -> MachineFinding {
    let binary = config
        .sites
        .get(site)
        .and_then(|site| site.managed.binary.as_ref());
    let (name, value) = match binary {
        Some(path) => ("php_binary", path.display().to_string()),
        None => ("php", "managed".to_owned()),
    };
    let help = match cause {
        galley_php::PhpStartError::Apart => "restart Galley: `systemctl restart galley`",
        _ => "correct the error that PHP reports, or name another program with `php_binary`",
    };
    MachineFinding {
        at: OptionPath::Site(site, name),
        value,
        why: format!("which cannot be started: {}", with_sources(cause)),
        help: help.to_owned(),
    }
}

/// An error and its causes, in one line.
fn with_sources(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(next) = source {
        text.push_str(": ");
        text.push_str(&next.to_string());
        source = next.source();
    }
    text
}

fn number(config: &Config, name: &str) -> usize {
    let is_it = |site: &SiteConfig| site.name == name;
    config.sites.iter().position(is_it).unwrap_or_default()
}

fn at_log(config: &Config, target: &LogTarget) -> OptionPath {
    let of_site = config
        .sites
        .iter()
        .position(|site| site.access.as_ref() == Some(target));
    let own_error = config
        .sites
        .iter()
        .position(|site| site.errors.as_ref() == Some(target));
    if *target == config.log.error {
        OptionPath::Log("error")
    } else if *target == config.log.access {
        OptionPath::Log("access")
    } else if let Some(site) = own_error {
        OptionPath::SiteLog(site, "error")
    } else {
        OptionPath::SiteLog(of_site.unwrap_or_default(), "access")
    }
}

fn at_token(config: &Config, path: &PathBuf) -> OptionPath {
    let names_path = |file: Option<&PathBuf>| file == Some(path);
    let secret = config
        .sites
        .iter()
        .position(|site| names_path(site.purge_secret_file.as_ref()));
    let token = config
        .sites
        .iter()
        .position(|site| names_path(site.token_file.as_ref()));
    match (token, secret) {
        _ if names_path(config.admin.token_file.as_ref()) => OptionPath::Admin("token_file"),
        (None, Some(site)) => OptionPath::Site(site, "purge_secret_file"),
        (site, _) => OptionPath::Site(site.unwrap_or_default(), "token_file"),
    }
}

fn at_error_page(config: &Config, path: &PathBuf) -> usize {
    let names = |site: &SiteConfig| {
        let mut pages = site.error_pages.iter().map(|(_, page)| page);
        site.error_page.as_ref() == Some(path) || pages.any(|page| page == path)
    };
    config.sites.iter().position(names).unwrap_or_default()
}
