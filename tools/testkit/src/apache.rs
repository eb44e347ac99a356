//! An Apache of its own with mod_php: prefork, one site on a free port of 127.0.0.1, .htaccess files in force.
//!
//! Nothing of the machine's Apache configuration is read. Started by root its children run as `www-data`. It stands for
//! the server that Galley is put in front of, so it tells PHP about https as that server would: by `X-Forwarded-Proto`.

use std::{
    fmt::Write as _,
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use crate::{
    account,
    client::Request,
    error::{Context, TestkitError},
    place,
    process::{Farewell, Service},
};

/// What an Apache is made of.
#[derive(Debug, Clone)]
pub struct ApacheOptions {
    /// Most requests at once: the number of children.
    pub max_request_workers: usize,
    /// How long an idle connection is kept, in seconds.
    pub keep_alive_timeout_s: u32,
    /// Further lines of configuration, at server level.
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
    /// Serves `root` with its files in `dir`. It answers when this returns.
    ///
    /// # Errors
    /// [`TestkitError::Missing`] without the packages, [`TestkitError::Unreachable`] when root gave a directory that the
    /// children cannot enter, [`TestkitError::Ended`] or [`TestkitError::Late`] with the log when it does not start.
    pub fn start(dir: &Path, root: &Path, options: &ApacheOptions) -> Result<Self, TestkitError> {
        fs::create_dir_all(dir).context(format_args!("make {}", dir.display()))?;
        let dir = fs::canonicalize(dir).context(format_args!("find {}", dir.display()))?;
        let root = fs::canonicalize(root).context(format_args!("find {}", root.display()))?;
        account::require_reachable(&dir)?;
        account::require_reachable(&root)?;
        let mut tries = 0;
        loop {
            tries += 1;
            let port = place::free_port()?;
            // Proves that it is ours which answers, should another process have taken the port at the same moment.
            let token = format!("{}-{port}-{tries}", std::process::id());
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
                    if log.contains("could not bind") && tries < 5 => {}
                Err(trouble) => return Err(trouble),
            }
        }
    }

    /// Where it listens.
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

    /// Kills parent and children at once. [`restart`](Self::restart) brings them back.
    pub fn kill(&mut self) {
        self.service.kill();
    }

    /// Starts it again on the same port.
    pub fn restart(&mut self) -> Result<(), TestkitError> {
        self.service.kill();
        self.service = launch(&self.dir, self.port, &self.token)?;
        Ok(())
    }

    /// The whole access log: one line for each answered request, in the combined format.
    pub fn access_log(&self) -> String {
        fs::read_to_string(self.dir.join("access.log")).unwrap_or_default()
    }

    /// The last lines of the error log.
    pub fn log(&self) -> String {
        self.service.log_tail()
    }
}

fn launch(dir: &Path, port: u16, token: &str) -> Result<Service, TestkitError> {
    let mut parent = Command::new(place::program(&["apache2", "httpd"])?);
    parent
        .arg("-DFOREGROUND")
        .arg("-f")
        .arg(dir.join("apache.conf"))
        .current_dir(dir);
    let mut service = Service::spawn(
        "apache2",
        &mut parent,
        &dir.join("error.log"),
        Farewell::Ask(TIMEOUT),
    )?;
    let addr = SocketAddr::from(([127, 0, 0, 1], port));
    service.wait_until("Apache to answer", START_PATIENCE, || {
        let question = Request::get(TOKEN_PATH)
            .host("localhost")
            .timeout(Duration::from_secs(2));
        question
            .send(addr)
            .is_ok_and(|answer| answer.body == token.as_bytes())
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
    let users = account::for_web()
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

/// libphp8.2.so and the like: the newest by name.
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
const START_PATIENCE: Duration = Duration::from_secs(60);
const TIMEOUT: Duration = Duration::from_secs(5);
