//! Builds the configuration of a test site and starts its servers.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use galley_testkit::origin::Origin;
use galley_testkit::{FpmListen, FpmOptions, Galley, PhpFpm, Scratch};

use super::page::TEST_PAGE;
use super::site::TestSite;

/// Host of the test site.
pub const HOST: &str = "example.test";

/// The server binary under test.
pub fn binary() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_galley"))
}

/// Writes a token file in the folder of a test site, and returns its path.
pub fn token_file(builder: &SiteBuilder, name: &str, token: &str) -> String {
    let path = builder.scratch.write(name, token).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    path.display().to_string()
}

/// Configuration and files of a test site that has not started yet.
pub struct SiteBuilder {
    pub scratch: Scratch,
    upstream: Upstream,
    fpm: FpmOptions,
    server: String,
    admin: String,
    cache: String,
    log: String,
    site: String,
    more: String,
}

enum Upstream {
    None,
    Fpm,
    Line(String),
}

impl SiteBuilder {
    fn new(upstream: Upstream) -> Self {
        let scratch = Scratch::new().unwrap();
        scratch.dir("root").unwrap();
        let notes = scratch.dir("notes").unwrap();
        fs::set_permissions(notes, fs::Permissions::from_mode(0o777)).unwrap();
        Self {
            scratch,
            upstream,
            fpm: FpmOptions::default(),
            server: String::new(),
            admin: String::new(),
            cache: "memory = \"64MiB\"\n".to_owned(),
            log: String::new(),
            site: String::new(),
            more: String::new(),
        }
    }

    /// A site of static files.
    pub fn files() -> Self {
        Self::new(Upstream::None)
    }

    /// A site with a separate PHP-FPM and [`TEST_PAGE`] as front controller.
    pub fn php() -> Self {
        Self::new(Upstream::Fpm).file("index.php", TEST_PAGE)
    }

    /// A site with this line: `php = "..."` or `upstream = [...]`.
    pub fn upstream_line(line: &str) -> Self {
        Self::new(Upstream::Line(line.to_owned()))
    }

    /// A site with a scripted origin and this preset.
    pub fn origin(origin: &Origin, preset: &str) -> Self {
        Self::upstream_line(&format!("upstream = [\"{}\"]", origin.url()))
            .site(&format!("preset = \"{preset}\""))
    }

    /// Adds lines to `[server]`.
    pub fn server(mut self, lines: &str) -> Self {
        let _ = writeln!(self.server, "{lines}");
        self
    }

    /// Adds lines to `[admin]`, which replace the default Unix socket.
    pub fn admin(mut self, lines: &str) -> Self {
        let _ = writeln!(self.admin, "{lines}");
        self
    }

    /// Sets the lines of `[cache]`, by default 64 MiB of memory. `{dir}` is the folder of the test.
    pub fn cache(mut self, lines: &str) -> Self {
        lines.clone_into(&mut self.cache);
        self
    }

    /// Adds a disk cache, so that pages survive a restart.
    pub fn disk(self) -> Self {
        self.cache("memory = \"64MiB\"\ndisk = \"{dir}/cache\"")
    }

    /// Adds lines to `[log]`. Without `access` among them the access log is `access.log`.
    pub fn log(mut self, lines: &str) -> Self {
        let _ = writeln!(self.log, "{lines}");
        self
    }

    /// Adds lines to `[[site]]`.
    pub fn site(mut self, lines: &str) -> Self {
        let _ = writeln!(self.site, "{lines}");
        self
    }

    /// Adds lines after `[[site]]`: rules, lifetimes, more sites. `{php}` is the address of PHP-FPM, `{root}` the document root.
    pub fn more(mut self, lines: &str) -> Self {
        let _ = writeln!(self.more, "{lines}");
        self
    }

    /// Adds a file below the document root.
    pub fn file(self, name: &str, content: impl AsRef<[u8]>) -> Self {
        self.scratch
            .write(&format!("root/{name}"), content)
            .unwrap();
        self
    }

    /// Sets the number of workers of PHP-FPM.
    pub fn workers(mut self, workers: usize) -> Self {
        self.fpm.workers = workers;
        self
    }

    /// Has PHP-FPM listen on a TCP port.
    pub fn tcp(mut self) -> Self {
        self.fpm.listen = FpmListen::Tcp;
        self
    }

    /// Adds a setting of `php.ini`.
    pub fn ini(mut self, name: &str, value: &str) -> Self {
        self.fpm.ini.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Starts PHP-FPM if the site uses it, and returns the server's configuration.
    pub fn prepare(self) -> (Scratch, Option<PhpFpm>, String) {
        let fpm = match self.upstream {
            Upstream::Fpm => Some(PhpFpm::start(&self.scratch.join("fpm"), &self.fpm).unwrap()),
            Upstream::None | Upstream::Line(_) => None,
        };
        let dir = self.scratch.path().display();
        let address = fpm.as_ref().map(PhpFpm::address).unwrap_or_default();
        let upstream = match &self.upstream {
            Upstream::None => String::new(),
            Upstream::Fpm => format!("php = \"{address}\""),
            Upstream::Line(line) => line.clone(),
        };
        let admin = match self.admin.as_str() {
            "" => format!("listen = \"unix:{dir}/galley/admin.sock\"\n"),
            lines => lines.to_owned(),
        };
        let Self {
            server,
            cache,
            log,
            site,
            more,
            ..
        } = &self;
        let listen = if server.contains("listen =") {
            ""
        } else {
            "listen = [\"127.0.0.1:0\"]\n"
        };
        let access = if log.contains("access =") {
            String::new()
        } else {
            format!("access = \"{dir}/access.log\"\n")
        };
        let hosts = if site.contains("hosts =") {
            String::new()
        } else {
            format!("hosts = [\"{HOST}\"]\n")
        };
        let text = format!(
            "[server]\n{listen}{server}\n[admin]\n{admin}\n[cache]\n{cache}\n[log]\n{access}{log}\n\
             [[site]]\n{hosts}root = \"{dir}/root\"\n{upstream}\n{site}\n{more}"
        );
        let text = text
            .replace("{dir}", &dir.to_string())
            .replace("{php}", &address)
            .replace("{root}", &format!("{dir}/root"));
        (self.scratch, fpm, text)
    }

    /// Starts PHP-FPM and Galley.
    pub fn start(self) -> TestSite {
        let (scratch, fpm, text) = self.prepare();
        let galley = Galley::start_binary(binary(), &scratch.join("galley"), &text).unwrap();
        TestSite {
            galley,
            fpm,
            scratch,
        }
    }
}
