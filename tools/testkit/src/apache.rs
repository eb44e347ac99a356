//! Runs a private Apache with mod_php: prefork, one site on a free port of 127.0.0.1, `.htaccess` files enabled.
//!
//! It does not read the machine's Apache configuration. Its children run as `www-data` if root starts it. It represents the
//! server behind Galley, so it derives PHP's `HTTPS` from `X-Forwarded-Proto`.

use std::{
    fmt::Write as _,
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use crate::{
    account, addresses,
    client::Request,
    error::{Context, TestkitError},
    process::{Service, StopMode},
    programs,
};

/// The configuration of an [`Apache`].
#[derive(Debug, Clone)]
pub struct ApacheOptions {
    /// Maximum concurrent requests: the number of children.
    pub max_request_workers: usize,
    /// Timeout of an idle connection in seconds.
    pub keep_alive_timeout_s: u32,
    /// Additional configuration lines at server level.
    pub extra: String,
}

impl Default for ApacheOptions {
    fn default() -> Self {
        Self {
            max_request_workers: 8,
            keep_alive_timeout_s: 15,
            extra: String::new(),
        }
    }
}

/// A running Apache.
#[derive(Debug)]
pub struct Apache {
    service: Service,
    dir: PathBuf,
    port: u16,
    token: String,
}

impl Apache {
    /// Starts a server for `root`, with its own files in `dir`, and waits until it responds.
    ///
    /// # Errors
    /// [`TestkitError::Missing`] if the packages are not installed, [`TestkitError::Unreachable`] if this process runs as root
    /// and the children cannot enter a directory, [`TestkitError::Ended`] or [`TestkitError::Timeout`] with the log if it does
    /// not start.
    pub fn start(dir: &Path, root: &Path, options: &ApacheOptions) -> Result<Self, TestkitError> {
        fs::create_dir_all(dir).context(format_args!("create {}", dir.display()))?;
        let dir = fs::canonicalize(dir).context(format_args!("find {}", dir.display()))?;
        let root = fs::canonicalize(root).context(format_args!("find {}", root.display()))?;
        account::require_reachable(&dir)?;
        account::require_reachable(&root)?;
        let mut attempts = 0;
        loop {
            attempts += 1;
            let port = addresses::free_port()?;
            // Distinguishes our server from another process that may have taken the port first.
            let token = format!("{}-{port}-{attempts}", std::process::id());
            fs::write(dir.join("token.txt"), &token).context("write Apache's token")?;
            fs::write(
                dir.join("apache.conf"),
                configuration(&dir, &root, port, options)?,
            )
            .context("write apache.conf")?;
            match launch(&dir, port, &token) {
                Ok(service) => {
                    return Ok(Self {
                        service,
                        dir,
                        port,
                        token,
                    });
                }
                Err(TestkitError::Ended { log, .. })
                    if log.contains("could not bind") && attempts < 5 => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The address of the listener.
    pub fn addr(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    /// `http://127.0.0.1:port`, without a slash at the end.
    pub fn url(&self) -> String {
        format!("http://{}", self.addr())
    }

    /// Process id of the parent.
    pub fn pid(&self) -> u32 {
        self.service.pid()
    }

    /// Kills parent and children with SIGKILL. [`restart`](Self::restart) starts them again.
    pub fn kill(&mut self) {
        self.service.kill();
    }

    /// Restarts the server on the same port.
    pub fn restart(&mut self) -> Result<(), TestkitError> {
        self.service.kill();
        self.service = launch(&self.dir, self.port, &self.token)?;
        Ok(())
    }

    /// The access log: one line for each response, in the combined format.
    pub fn access_log(&self) -> String {
        fs::read_to_string(self.dir.join("access.log")).unwrap_or_default()
    }

    /// The last lines of the error log.
    pub fn log(&self) -> String {
        self.service.log_tail()
    }
}

fn launch(dir: &Path, port: u16, token: &str) -> Result<Service, TestkitError> {
    let mut parent = Command::new(programs::find(&["apache2", "httpd"])?);
    parent
        .arg("-DFOREGROUND")
        .arg("-f")
        .arg(dir.join("apache.conf"))
        .current_dir(dir);
    let mut service = Service::spawn(
        "apache2",
        &mut parent,
        &dir.join("error.log"),
        StopMode::Terminate(TIMEOUT),
    )?;
    let addr = SocketAddr::from(([127, 0, 0, 1], port));
    service.wait_until("Apache to respond", START_TIMEOUT, || {
        let request = Request::get(TOKEN_PATH)
            .host("localhost")
            .timeout(Duration::from_secs(2));
        request
            .send(addr)
            .is_ok_and(|response| response.body == token.as_bytes())
    })?;
    Ok(service)
}

fn configuration(
    dir: &Path,
    root: &Path,
    port: u16,
    options: &ApacheOptions,
) -> Result<String, TestkitError> {
    let mut modules = String::new();
    for name in MODULES {
        let _ = writeln!(
            modules,
            "LoadModule {name}_module {MODULE_DIR}/mod_{name}.so"
        );
    }
    let php = php_module()?;
    let php = php.display();
    let users = account::web_user()
        .map(|user| format!("User {0}\nGroup #{1}\n", user.name, user.gid))
        .unwrap_or_default();
    let (dir, root) = (dir.display(), root.display());
    let ApacheOptions {
        max_request_workers,
        keep_alive_timeout_s,
        extra,
    } = options;
    Ok(format!(
        r#"ServerRoot "{dir}"
ServerName localhost
Listen 127.0.0.1:{port}
PidFile "{dir}/apache.pid"
DefaultRuntimeDir "{dir}"
{modules}LoadModule php_module {php}
{users}StartServers 2
MinSpareServers 1
MaxSpareServers {max_request_workers}
ServerLimit {max_request_workers}
MaxRequestWorkers {max_request_workers}
KeepAlive On
KeepAliveTimeout {keep_alive_timeout_s}
MaxKeepAliveRequests 0
ErrorLog "{dir}/error.log"
LogFormat "%h %l %u %t \"%r\" %>s %b \"%{{Referer}}i\" \"%{{User-Agent}}i\"" combined
CustomLog "{dir}/access.log" combined
TypesConfig /etc/mime.types
DocumentRoot "{root}"
DirectoryIndex index.php index.html
Alias "{TOKEN_PATH}" "{dir}/token.txt"
<Directory "{root}">
    Options FollowSymLinks
    AllowOverride All
    Require all granted
</Directory>
<Files "token.txt">
    Require all granted
</Files>
<Files ".ht*">
    Require all denied
</Files>
<FilesMatch "\.php$">
    SetHandler application/x-httpd-php
</FilesMatch>
SetEnvIf X-Forwarded-Proto "^https$" HTTPS=on
php_admin_value sendmail_path /bin/true
{extra}
"#
    ))
}

/// The file of the PHP module, such as `libphp8.2.so`: the last by name.
fn php_module() -> Result<PathBuf, TestkitError> {
    let entries = fs::read_dir(MODULE_DIR).map_err(|_| TestkitError::Missing {
        program: "apache2".to_owned(),
    })?;
    let is_php = |path: &PathBuf| {
        path.file_name()
            .and_then(|name| name.to_str())
            .is_some_and(|name| name.starts_with("libphp"))
    };
    let mut found: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(is_php)
        .collect();
    found.sort();
    found.pop().ok_or_else(|| TestkitError::Missing {
        program: "libapache2-mod-php".to_owned(),
    })
}

const MODULE_DIR: &str = "/usr/lib/apache2/modules";
const MODULES: &[&str] = &[
    "mpm_prefork",
    "authn_core",
    "authn_file",
    "authz_core",
    "authz_host",
    "authz_user",
    "auth_basic",
    "access_compat",
    "alias",
    "dir",
    "env",
    "expires",
    "filter",
    "deflate",
    "headers",
    "mime",
    "remoteip",
    "rewrite",
    "setenvif",
];
const TOKEN_PATH: &str = "/.galley-testkit-token";
const START_TIMEOUT: Duration = Duration::from_secs(60);
const TIMEOUT: Duration = Duration::from_secs(5);
