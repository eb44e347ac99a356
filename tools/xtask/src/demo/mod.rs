//! `xtask demo`: runs a database, a WordPress with a sample site, and Galley in front of it, until Ctrl-C.
//!
//! All files are in one folder, and a second run uses the site of the first. All processes stop with this one. With `--wp` the demo serves an
//! existing WordPress instead and starts no database.

mod folder;
mod measure;
mod output;

use std::{
    fmt::Write as _,
    fs, io,
    net::{IpAddr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use clap::Args;
use galley_testkit::{Cron, Durability, Galley, MariaDb, Options, SampleContent, WordPress};

use self::{folder::DemoFolder, output::StepProgress};
use crate::{error::CommandError, interrupt::Interrupt};

#[derive(Args)]
pub(crate) struct Arguments {
    /// Serve this WordPress instead of the sample site; its database must be running
    #[arg(long, value_name = "DIR")]
    wp: Option<PathBuf>,
    /// Folder of the demo [default: demo-data]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Port to listen on
    #[arg(long, default_value_t = 8080)]
    port: u16,
    /// Address to listen on; all clients that can reach it have access
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1")]
    listen: IpAddr,
    /// The galley program [default: the one in target/debug, or target/release with --release]
    #[arg(long, value_name = "PATH")]
    galley: Option<PathBuf>,
    /// Use the program in target/release
    #[arg(long)]
    release: bool,
}

#[derive(Args)]
pub(crate) struct CleanArguments {
    /// Folder of the demo [default: demo-data]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Runs the demo until a signal is received or Galley exits.
pub(crate) fn run(arguments: &Arguments) -> Result<(), CommandError> {
    let interrupt = Interrupt::listen()?;
    let binary = galley_program(arguments)?;
    let addr = SocketAddr::new(arguments.listen, arguments.port);
    require_free(addr)?;
    let folder = DemoFolder::open(arguments.dir.as_deref())?;
    let mut progress = StepProgress::new();
    let (database, root, accounts) = match &arguments.wp {
        Some(dir) => (None, existing_wordpress(dir)?, None),
        None => match start_site(&folder, &mut progress, &interrupt)? {
            Some((database, site)) => (Some(database), site.root.clone(), Some(site)),
            None => return Ok(()),
        },
    };
    let config = folder.path().join("galley.toml");
    fs::write(&config, configuration(addr, &root, folder.path()))
        .map_err(|e| format!("cannot write {}: {e}", config.display()))?;
    // An existing WordPress is not changed.
    if accounts.is_some() {
        progress.step("installing the plugin in WordPress", SHORT);
        install_plugin(&binary, &root, &config, folder.path())?;
    }
    progress.step("starting Galley with PHP", SHORT);
    let galley = Galley::start_config(&binary, folder.path(), &config)?;
    progress.step("measuring", MEASURING);
    let measured = measure::measure(galley.addr(), &interrupt.flag());
    progress.done();
    if interrupt.is_interrupted() {
        return Ok(());
    }
    match measured {
        Ok(measured) => println!("{measured}"),
        Err(error) => eprintln!("The measurement failed: {error}"),
    }
    println!(
        "{}",
        output::summary_box(&address(&galley), accounts.as_ref(), &binary, &config)
    );
    interrupt.wait(|| galley.has_ended());
    let exited_early = galley.has_ended();
    let mut progress = StepProgress::new();
    progress.step("stopping all processes", SHORT);
    let log = galley.log();
    drop(galley);
    drop(database);
    progress.done();
    if exited_early {
        Err(format!("galley exited; its log:\n{log}").into())
    } else {
        Ok(())
    }
}

/// Removes the demo's folder.
pub(crate) fn clean(arguments: &CleanArguments) -> Result<(), CommandError> {
    for path in DemoFolder::remove(arguments.dir.as_deref())? {
        println!("removed {}", path.display());
    }
    Ok(())
}

/// Starts the demo's database and WordPress, and installs them in the first run. `None` if a signal was received.
fn start_site(
    folder: &DemoFolder,
    progress: &mut StepProgress,
    interrupt: &Interrupt,
) -> Result<Option<(MariaDb, WordPress)>, CommandError> {
    progress.step("starting MariaDB", SHORT);
    let database = MariaDb::start(&folder.path().join("mariadb"), Durability::Keep)?;
    if interrupt.is_interrupted() {
        return Ok(None);
    }
    let root = folder.path().join("wordpress");
    if root.exists() {
        progress.step("checking WordPress", SHORT);
    } else {
        progress.step("installing WordPress with a sample site", INSTALLING);
    }
    let options = Options {
        password: folder.password()?,
        sample: SampleContent::Full,
        cron: Cron::OnVisits,
        ..Options::default()
    };
    let site = WordPress::install(&root, &database, &options)?;
    Ok((!interrupt.is_interrupted()).then_some((database, site)))
}

/// Runs `galley plugin install` with the environment in which Galley is started later.
fn install_plugin(
    binary: &Path,
    root: &Path,
    config: &Path,
    folder: &Path,
) -> Result<(), CommandError> {
    let output = Command::new(binary)
        .args(["plugin", "install", "--config"])
        .args([config, root])
        .env("RUNTIME_DIRECTORY", folder)
        .stdin(Stdio::null())
        .output()
        .map_err(|e| format!("cannot run {}: {e}", binary.display()))?;
    if output.status.success() {
        return Ok(());
    }
    let output = [output.stdout, output.stderr].concat();
    Err(format!(
        "`galley plugin install` failed:\n{}",
        String::from_utf8_lossy(&output)
    )
    .into())
}

fn existing_wordpress(dir: &Path) -> Result<PathBuf, CommandError> {
    let root =
        fs::canonicalize(dir).map_err(|e| format!("cannot open `--wp {}`: {e}", dir.display()))?;
    if !root.join("wp-load.php").is_file() {
        return Err(format!(
            "`--wp {}` is not a WordPress folder: it has no wp-load.php",
            dir.display()
        )
        .into());
    }
    Ok(root)
}

fn galley_program(arguments: &Arguments) -> Result<PathBuf, CommandError> {
    let profile = if arguments.release {
        "release"
    } else {
        "debug"
    };
    let default = || {
        let executable = std::env::current_exe().ok()?;
        Some(executable.parent()?.parent()?.join(profile).join("galley"))
    };
    let path = arguments
        .galley
        .clone()
        .or_else(default)
        .ok_or("cannot determine the path of the galley program: give it with --galley PATH")?;
    let flag = if arguments.release { " --release" } else { "" };
    fs::canonicalize(&path).map_err(|_| {
        format!(
            "`{}` does not exist: build it with `cargo build{flag} -p galley`, or run `make demo`",
            path.display()
        )
        .into()
    })
}

fn require_free(addr: SocketAddr) -> Result<(), CommandError> {
    match TcpListener::bind(addr) {
        Ok(_) => Ok(()),
        Err(e) if e.kind() == io::ErrorKind::AddrInUse => Err(format!(
            "port {} of {} is in use: stop the program that listens there, or choose another port (`make demo PORT=8081`, `cargo xtask demo --port 8081`)",
            addr.port(),
            addr.ip()
        )
        .into()),
        Err(e) => Err(format!("cannot listen on {addr}: {e}").into()),
    }
}

fn configuration(addr: SocketAddr, root: &Path, folder: &Path) -> String {
    let socket = folder.join("admin.sock");
    // The path of a Unix socket has a maximum length; above it the admin interface has its default address.
    let fits = socket.as_os_str().len() < 100;
    let admin = if fits {
        format!(
            "[admin]\nlisten = {}\n\n",
            quoted(&format!("unix:{}", socket.display()))
        )
    } else {
        String::new()
    };
    format!(
        "# Written by the demo at each start.\n[server]\nlisten = [{}]\n\n{admin}[log]\naccess = {}\n\n[[site]]\nhosts = [\"*\"]\nroot = {}\nphp = \"managed\"\n",
        quoted(&addr.to_string()),
        quoted(&folder.join("access.log").display().to_string()),
        quoted(&root.display().to_string()),
    )
}

/// A TOML basic string.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            control if control.is_control() => {
                let _ = write!(out, "\\u{:04X}", u32::from(control));
            }
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

/// The URL to type into a browser.
fn address(galley: &Galley) -> String {
    galley.url().replace("//127.0.0.1:", "//localhost:")
}

// Usual durations of steps on two cores.
const SHORT: Duration = Duration::from_secs(2);
const MEASURING: Duration = Duration::from_secs(3);
const INSTALLING: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_quoted_for_toml() {
        for (text, expected) in [
            ("/a b", r#""/a b""#),
            (r#"a"b\c"#, r#""a\"b\\c""#),
            ("a\nb", r#""a\u000Ab""#),
        ] {
            assert_eq!(quoted(text), expected);
        }
    }

    #[test]
    fn the_error_names_a_port_in_use() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let error = require_free(addr).unwrap_err().to_string();
        assert!(
            error.contains(&addr.port().to_string()) && error.contains("--port"),
            "{error}"
        );
        drop(listener);
        require_free(addr).unwrap();
    }

    #[test]
    fn the_admin_address_is_the_default_if_the_socket_path_is_too_long() {
        let addr = SocketAddr::from(([127, 0, 0, 1], 8080));
        assert!(
            configuration(addr, Path::new("/w"), Path::new("/short"))
                .contains("unix:/short/admin.sock")
        );
        let long = format!("/{}", "long/".repeat(30));
        assert!(!configuration(addr, Path::new("/w"), Path::new(&long)).contains("[admin]"));
    }
}
