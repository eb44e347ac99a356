//! The site to which a WordPress belongs, the address by which its PHP reaches the admin interface, and the token for it.

use std::fs;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use galley_certs::file;
use galley_config::{
    AdminListen, Config, MAX_TOKEN_FILE, SiteConfig, UpstreamConfig, default_token_file,
};
use galley_policy::route::{HostPattern, names_site};

use super::PluginError;
use super::folder::{FileOwner, random_hex, user};
use crate::options::PluginOptions;
use crate::outcome::{DEFAULT_CONFIG, configuration};

/// The connection of a WordPress to its Galley.
pub(super) struct PluginTarget {
    /// `unix:/path` or `http://address:port`.
    pub(super) address: String,
    pub(super) token: String,
    pub(super) token_file: PathBuf,
    /// Whether the token file was created just now, so that a running server does not know it.
    pub(super) is_new: bool,
    /// The host for running WordPress.
    pub(super) host: String,
    /// The user of the site's PHP, from the configuration.
    pub(super) php_user: Option<String>,
}

/// Finds the target from the options, or from the configuration that they name; creates the token file if it does not exist.
pub(super) fn target(options: &PluginOptions, root: &Path) -> Result<PluginTarget, PluginError> {
    if let Some(address) = &options.admin.admin {
        let Some(file) = options.admin.token_file.clone() else {
            return Err(PluginError::Usage(
                "--admin needs --token-file: the file with the site's token".to_owned(),
            ));
        };
        return Ok(PluginTarget {
            address: address.clone(),
            token: read_token(&file)?,
            token_file: file,
            is_new: false,
            host: options.site.clone().unwrap_or_else(|| LOCAL.to_owned()),
            php_user: None,
        });
    }
    let path = options.admin.config.as_deref();
    let path = path.unwrap_or(Path::new(DEFAULT_CONFIG));
    let config = configuration(path).map_err(PluginError::Config)?;
    let site = find_site(&config, root, options.site.as_deref(), path)?;
    let address = match &config.admin.listen {
        AdminListen::Off => {
            return Err(PluginError::Failed(format!(
                "the admin interface is off in `{}`, and the plugin needs it: set `[admin] listen`",
                path.display()
            )));
        }
        AdminListen::Tcp(address) => {
            let mut address = *address;
            if address.ip().is_unspecified() {
                address.set_ip(std::net::Ipv4Addr::LOCALHOST.into());
            }
            format!("http://{address}")
        }
        AdminListen::Unix(path) => format!("unix:{}", path.display()),
    };
    let given = options
        .admin
        .token_file
        .clone()
        .or_else(|| site.token_file.clone());
    let (token_file, is_new) = match given {
        Some(file) => (file, false),
        None => (make_token(&config, site)?, true),
    };
    Ok(PluginTarget {
        token: read_token(&token_file)?,
        address,
        token_file,
        is_new,
        host: site
            .hosts
            .iter()
            .find_map(HostPattern::exact)
            .unwrap_or(LOCAL)
            .to_owned(),
        php_user: match site.upstream {
            UpstreamConfig::Managed | UpstreamConfig::Program(_) => site.managed.user.clone(),
            UpstreamConfig::Php(_) | UpstreamConfig::Http(_) | UpstreamConfig::Files => None,
        },
    })
}

/// The site with this name or host, or any site, that has this root. Sites on different listeners may share a host, and a single
/// site with the host may know the folder by another path.
fn find_site<'c>(
    config: &'c Config,
    root: &Path,
    name: Option<&str>,
    path: &Path,
) -> Result<&'c SiteConfig, PluginError> {
    let is_named =
        |site: &&SiteConfig| name.is_none_or(|name| names_site(name, &site.name, &site.hosts));
    let by_name: Vec<&SiteConfig> = config.sites.iter().filter(is_named).collect();
    let with_root = by_name.iter().copied().filter(|site| has_root(site, root));
    let by_root: Vec<&SiteConfig> = with_root.collect();
    match (by_root.as_slice(), by_name.as_slice()) {
        ([one], _) => Ok(one),
        ([], [only]) if name.is_some() || only.root.is_none() => Ok(only),
        ([], []) => {
            let names: Vec<_> = config.sites.iter().map(|s| s.name.as_str()).collect();
            Err(PluginError::Usage(format!(
                "no site `{}` in `{}`; the sites are `{}`",
                name.unwrap_or_default(),
                path.display(),
                names.join("`, `")
            )))
        }
        (several, _) => {
            let number = if several.is_empty() {
                "no"
            } else {
                "more than one"
            };
            let with_name = name.map_or_else(String::new, |name| {
                format!(" with the name or host `{name}`")
            });
            let (path, root) = (path.display(), root.display());
            Err(PluginError::Usage(format!(
                "{number} site{with_name} in `{path}` has the root `{root}`: {}",
                if name.is_some() {
                    "name its token with --token-file, and the server with --admin"
                } else {
                    "say which one with --site NAME"
                }
            )))
        }
    }
}

fn has_root(site: &SiteConfig, root: &Path) -> bool {
    let own_root = site.root.as_ref().and_then(|root| root.canonicalize().ok());
    own_root.is_some_and(|own_root| own_root == root)
}

fn read_token(file: &Path) -> Result<String, PluginError> {
    let text = file::read_text(file, MAX_TOKEN_FILE).map_err(|unread| {
        PluginError::Failed(format!("the token file is `{}`, {unread}", file.display()))
    })?;
    let token = text.trim();
    let is_plain = token.bytes().all(|byte| byte.is_ascii_graphic());
    if token.is_empty() || !is_plain {
        return Err(PluginError::Failed(format!(
            "`{}` holds no token: one word of letters and digits",
            file.display()
        )));
    }
    Ok(token.to_owned())
}

/// Creates the token file at the default path, for the user that runs Galley.
fn make_token(config: &Config, site: &SiteConfig) -> Result<PathBuf, PluginError> {
    let folder = config.files.first().and_then(|file| file.parent());
    let Some(folder) = folder else {
        let why = "the configuration has no file";
        return Err(PluginError::Usage(why.to_owned()));
    };
    let file = default_token_file(folder, &site.name);
    let tokens = file.parent().unwrap_or(folder);
    let owner = server_user(config);
    let failed = |cause: std::io::Error| PluginError::file("write", &file, &cause);
    if !tokens.exists() {
        fs::DirBuilder::new()
            .mode(0o700)
            .create(tokens)
            .map_err(failed)?;
        chown(tokens, owner).map_err(failed)?;
    }
    let token = random_hex(TOKEN_BYTES).map_err(failed)?;
    let mut options = fs::OpenOptions::new();
    let made = options.write(true).create_new(true).mode(0o600).open(&file);
    let mut made = made.map_err(failed)?;
    std::io::Write::write_all(&mut made, format!("{token}\n").as_bytes()).map_err(failed)?;
    chown(&file, owner).map_err(failed)?;
    Ok(file)
}

/// The user that runs Galley, by the owner of its admin socket; `None` if it is the current user or unknown.
fn server_user(config: &Config) -> Option<FileOwner> {
    let AdminListen::Unix(socket) = &config.admin.listen else {
        return None;
    };
    let metadata = fs::symlink_metadata(socket).ok()?;
    let owner = FileOwner {
        uid: metadata.uid(),
        gid: metadata.gid(),
    };
    rustix::process::geteuid().is_root().then_some(owner)
}

fn chown(path: &Path, owner: Option<FileOwner>) -> std::io::Result<()> {
    match owner {
        Some(owner) => std::os::unix::fs::lchown(path, Some(owner.uid), Some(owner.gid)),
        None => Ok(()),
    }
}

/// The user that runs PHP, which must be able to read the connection file; `None` for the current user, because only root can
/// change owners.
///
/// `content`: the owner of WordPress's content folder. If PHP can write there, that is PHP's user.
pub(super) fn php_user(
    target: &PluginTarget,
    content: FileOwner,
) -> Result<Option<FileOwner>, PluginError> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    if let Some(name) = &target.php_user {
        let account = user(name);
        return account.map(Some).ok_or_else(|| {
            PluginError::Failed(format!("there is no user `{name}` on this machine"))
        });
    }
    if content.uid != 0 {
        return Ok(Some(content));
    }
    Ok(user(WEB_USER))
}

/// The first folder in the path of a unix socket that this user cannot enter.
pub(super) fn closed_folder(address: &str, owner: Option<FileOwner>) -> Option<PathBuf> {
    let (socket, owner) = (Path::new(address.strip_prefix("unix:")?), owner?);
    let is_closed = |folder: &&Path| {
        fs::metadata(folder).is_ok_and(|found| {
            let bit = match (found.uid() == owner.uid, found.gid() == owner.gid) {
                (true, _) => 0o100,
                (false, true) => 0o010,
                (false, false) => 0o001,
            };
            owner.uid != 0 && found.mode() & bit == 0
        })
    };
    let mut folders = socket.ancestors().skip(1);
    folders.find(is_closed).map(Path::to_owned)
}

/// The host if none is known.
const LOCAL: &str = "localhost";

/// The user for web content on Debian and Alpine.
const WEB_USER: &str = "www-data";

/// The length of a new token in bytes.
const TOKEN_BYTES: usize = 32;
