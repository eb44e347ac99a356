//! The servers that are compared, each with the best settings for the suite: storing and revalidation are on, and default lifetimes are
//! off, because the tests set explicit ones.

use std::{
    fs,
    net::SocketAddr,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{error::CommandError, program::Program};

/// A server that can be selected by name.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Server {
    Galley,
    Nginx,
    Varnish,
    Httpd,
    Traffic,
}

impl Server {
    pub(super) const ALL: [Self; 5] = [
        Self::Galley,
        Self::Nginx,
        Self::Varnish,
        Self::Httpd,
        Self::Traffic,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Galley => "galley",
            Self::Nginx => "nginx",
            Self::Varnish => "varnish",
            Self::Httpd => "httpd",
            Self::Traffic => "trafficserver",
        }
    }

    /// Its name with the version that its program prints.
    pub(super) fn title(self, galley: &Path) -> String {
        let (program, argument): (&Path, &str) = match self {
            Self::Galley => (galley, "--version"),
            Self::Nginx => (Path::new("nginx"), "-v"),
            Self::Varnish => (Path::new("varnishd"), "-V"),
            Self::Httpd => (Path::new("apache2"), "-v"),
            Self::Traffic => (Path::new("traffic_server"), "--version"),
        };
        let path = std::env::var("PATH").unwrap_or_default();
        let output = Command::new(program)
            .arg(argument)
            .env("PATH", format!("{path}:/usr/sbin"))
            .output();
        let text = output
            .map(|o| [o.stdout, o.stderr].concat())
            .unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        let version = text
            .split(|c: char| c.is_whitespace() || "/-()".contains(c))
            .find(|word| word.contains('.') && word.starts_with(|c: char| c.is_ascii_digit()))
            .unwrap_or_default();
        format!("{} {version}", self.name()).trim().to_owned()
    }

    /// Starts it with `origin` as its upstream.
    pub(super) fn start(
        self,
        galley: &Path,
        dir: &Path,
        origin: SocketAddr,
    ) -> Result<(Program, SocketAddr), CommandError> {
        let dir = &fs::canonicalize(dir)?;
        let port = galley_testkit::free_port()?;
        let addr = SocketAddr::from(([127, 0, 0, 1], port));
        let fill = |text: &str| {
            text.replace("{dir}", &dir.display().to_string())
                .replace("{port}", &port.to_string())
                .replace("{origin}", &origin.to_string())
                .replace("{origin_port}", &origin.port().to_string())
        };
        let write = |name: &str, text: &str| -> Result<PathBuf, CommandError> {
            let file = dir.join(name);
            fs::write(&file, fill(text))?;
            Ok(file)
        };
        let command = match self {
            Self::Galley => {
                let file = write("galley.toml", include_str!("settings/galley.toml"))?;
                let mut command = Command::new(fs::canonicalize(galley)?);
                command.args(["run", "--config"]).arg(file);
                command
            }
            Self::Nginx => {
                open_folder(&dir.join("cache"))?;
                let file = write("nginx.conf", include_str!("settings/nginx.conf"))?;
                let mut command = Command::new("nginx");
                command
                    .arg("-e")
                    .arg(dir.join("error.log"))
                    .arg("-p")
                    .arg(dir);
                command.arg("-c").arg(file);
                command
            }
            Self::Varnish => {
                let file = write("varnish.vcl", include_str!("settings/varnish.vcl"))?;
                let mut command = Command::new("varnishd");
                command.args(["-F", "-j", "none", "-s", "malloc,64m"]);
                for setting in ["default_ttl=0", "default_grace=0", "default_keep=3600"] {
                    command.args(["-p", setting]);
                }
                command.arg("-a").arg(addr.to_string());
                command.arg("-n").arg(dir.join("work")).arg("-f").arg(file);
                command
            }
            Self::Httpd => {
                open_folder(&dir.join("cache"))?;
                let file = write("httpd.conf", include_str!("settings/httpd.conf"))?;
                let mut command = Command::new("apache2");
                command
                    .arg("-DFOREGROUND")
                    .arg("-d")
                    .arg(dir)
                    .arg("-f")
                    .arg(file);
                command
            }
            Self::Traffic => traffic_server(dir, &fill)?,
        };
        let mut server = Program::spawn(&command, dir.join("server.log"))?;
        server.wait_until_listening(addr)?;
        Ok((server, addr))
    }
}

/// Creates a folder that workers of any user can write to.
fn open_folder(path: &Path) -> Result<(), CommandError> {
    fs::create_dir_all(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o777))?;
    Ok(())
}

/// Creates the folders of Traffic Server with its own tool and returns the command.
fn traffic_server(dir: &Path, fill: &dyn Fn(&str) -> String) -> Result<Command, CommandError> {
    let root = dir.join("root");
    let output = Command::new("traffic_layout")
        .args(["init", "--force", "--copy-style=soft", "--path"])
        .arg(&root)
        .env(
            "PATH",
            format!("{}:/usr/sbin", std::env::var("PATH").unwrap_or_default()),
        )
        .output()?;
    if !output.status.success() {
        return Err(format!(
            "traffic_layout: {}",
            String::from_utf8_lossy(&output.stderr)
        )
        .into());
    }
    let runroot = root.join("runroot.yaml");
    let text = fs::read_to_string(&runroot)?;
    let folder = |name: &str| -> Option<PathBuf> {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(&format!("{name}: ")))?;
        Some(PathBuf::from(line.trim().trim_matches('"')))
    };
    let conf = folder("sysconfdir").ok_or("traffic_layout printed no configuration folder")?;
    for name in ["cachedir", "runtimedir", "logdir", "localstatedir"] {
        if let Some(folder) = folder(name) {
            open_folder(&folder)?;
        }
    }
    fs::write(
        conf.join("records.config"),
        fill(include_str!("settings/records.config")),
    )?;
    fs::write(conf.join("remap.config"), fill("map / http://{origin}/\n"))?;
    fs::write(conf.join("storage.config"), fill("{dir}/root/cache 64M\n"))?;
    open_folder(&root.join("cache"))?;
    let mut command = Command::new("traffic_server");
    command.arg(format!("--run-root={}", runroot.display()));
    Ok(command)
}
