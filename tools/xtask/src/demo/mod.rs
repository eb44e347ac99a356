//! The demo: a database, a WordPress with a sample site, and Galley in front of it, until Ctrl-C.
//!
//! Everything is in one folder and ends with this process; a second run finds the site as it was left. With `--wp` an
//! existing WordPress is served instead, and no database is started.

mod folder;
mod measure;
mod show;
mod signals;

use std::{
    error::Error,
    fmt::Write as _,
    fs, io,
    net::{IpAddr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use clap::Args;
use galley_testkit::{Cron, Durability, Galley, MariaDb, Options, SampleContent, WordPress};

use self::{folder::Folder, show::Talk, signals::Signals};

/// What ends a task early, in words for a person.
pub(crate) type CommandError = Box<dyn Error>;

#[derive(Args)]
pub(crate) struct Arguments {
    /// Serve this WordPress instead of one of the demo's own; its database must be running
    #[arg(long, value_name = "DIR")]
    wp: Option<PathBuf>,
    /// Folder of the demo [default: demo-data]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Port to listen on
    #[arg(long, default_value_t = 8080)]
    port: u16,
    /// Address to listen on; the demo is open to everybody who can reach it
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1")]
    listen: IpAddr,
    /// The galley program [default: the one in target/debug, or target/release with --release]
    #[arg(long, value_name = "PATH")]
    galley: Option<PathBuf>,
    /// Take the program from target/release
    #[arg(long)]
    release: bool,
}

#[derive(Args)]
pub(crate) struct CleanArguments {
    /// Folder of the demo [default: demo-data]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Runs the demo until a signal asks to end, or Galley ends.
pub(crate) fn run(arguments: &Arguments) -> Result<(), CommandError> {
    let signals = Signals::listen()?;
    let binary = program(arguments)?;
    let addr = SocketAddr::new(arguments.listen, arguments.port);
    require_free(addr)?;
    let folder = Folder::open(arguments.dir.as_deref())?;
    let mut talk = Talk::new();
    let (database, root, accounts) = match &arguments.wp {
        Some(dir) => (None, existing(dir)?, None),
        None => match own_site(&folder, &mut talk, &signals)? {
            Some((database, site)) => (Some(database), site.root.clone(), Some(site)),
            None => return Ok(()),
        },
    };
    let config = folder.path().join("galley.toml");
    fs::write(&config, configuration(addr, &root, folder.path()))
        .map_err(|e| format!("cannot write {}: {e}", config.display()))?;
    // Somebody's own WordPress is served as it is.
    if accounts.is_some() {
        talk.step("putting the plugin into WordPress", SOON);
        put_plugin(&binary, &root, &config, folder.path())?;
    }
    talk.step("starting Galley with PHP", SOON);
    let galley = Galley::start_config(&binary, folder.path(), &config)?;
    talk.step("measuring", MEASURING);
    let measured = measure::measure(galley.addr(), signals.flag());
    talk.done();
    if signals.asked_to_end() {
        return Ok(());
    }
    match measured {
        Ok(measured) => println!("{measured}"),
        Err(trouble) => eprintln!("The measured run failed: {trouble}"),
    }
    println!(
        "{}",
        show::sign(&address(&galley), accounts.as_ref(), &binary, &config)
    );
    signals.wait(|| galley.has_ended());
    let by_itself = galley.has_ended();
    let mut talk = Talk::new();
    talk.step("ending everything", SOON);
    let log = galley.log();
    drop(galley);
    drop(database);
    talk.done();
    if by_itself {
        Err(format!("galley ended by itself; it said:\n{log}").into())
    } else {
        Ok(())
    }
}

/// Removes the demo's folder.
pub(crate) fn clean(arguments: &CleanArguments) -> Result<(), CommandError> {
    for path in Folder::remove(arguments.dir.as_deref())? {
        println!("removed {}", path.display());
    }
    Ok(())
}

/// Database and WordPress of the demo's own; the first time they are made. `None` when a signal came meanwhile.
fn own_site(
    folder: &Folder,
    talk: &mut Talk,
    signals: &Signals,
) -> Result<Option<(MariaDb, WordPress)>, CommandError> {
    talk.step("starting MariaDB", SOON);
    let database = MariaDb::start(&folder.path().join("mariadb"), Durability::Keep)?;
    if signals.asked_to_end() {
        return Ok(None);
    }
    let root = folder.path().join("wordpress");
    if root.exists() {
        talk.step("checking WordPress", SOON);
    } else {
        talk.step("installing WordPress with a sample site", INSTALLING);
    }
    let options = Options {
        password: folder.password()?,
        sample: SampleContent::Full,
        cron: Cron::OnVisits,
        ..Options::default()
    };
    let site = WordPress::install(&root, &database, &options)?;
    Ok((!signals.asked_to_end()).then_some((database, site)))
}

/// What `galley plugin install` does for everybody, with the environment that Galley is then started with.
fn put_plugin(
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
    let said = [output.stdout, output.stderr].concat();
    Err(format!(
        "`galley plugin install` failed:\n{}",
        String::from_utf8_lossy(&said)
    )
    .into())
}

fn existing(dir: &Path) -> Result<PathBuf, CommandError> {
    let root =
        fs::canonicalize(dir).map_err(|e| format!("cannot open `--wp {}`: {e}", dir.display()))?;
    if !root.join("wp-load.php").is_file() {
        return Err(format!(
            "`--wp {}` is not the folder of a WordPress: it has no wp-load.php",
            dir.display()
        )
        .into());
    }
    Ok(root)
}

fn program(arguments: &Arguments) -> Result<PathBuf, CommandError> {
    let profile = if arguments.release {
        "release"
    } else {
        "debug"
    };
    let usual = || {
        let own = std::env::current_exe().ok()?;
        Some(own.parent()?.parent()?.join(profile).join("galley"))
    };
    let path = arguments
        .galley
        .clone()
        .or_else(usual)
        .ok_or("cannot tell where the galley program is: say --galley PATH")?;
    let flag = if arguments.release { " --release" } else { "" };
    fs::canonicalize(&path).map_err(|_| {
        format!(
            "`{}` is not there: build it with `cargo build{flag} -p galley`, or run `make demo`",
            path.display()
        )
        .into()
    })
}

fn require_free(addr: SocketAddr) -> Result<(), CommandError> {
    match TcpListener::bind(addr) {
        Ok(_) => Ok(()),
        Err(e) if e.kind() == io::ErrorKind::AddrInUse => Err(format!(
            "port {} of {} is in use: end what listens there, or choose another port (`make demo PORT=8081`, `cargo xtask demo --port 8081`)",
            addr.port(),
            addr.ip()
        )
        .into()),
        Err(e) => Err(format!("cannot listen on {addr}: {e}").into()),
    }
}

fn configuration(addr: SocketAddr, root: &Path, folder: &Path) -> String {
    let socket = folder.join("admin.sock");
    // Longer paths do not fit a socket: then the admin interface is where galley puts it by default.
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

/// A basic string of TOML.
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

/// The address as a person types it.
fn address(galley: &Galley) -> String {
    galley.url().replace("//127.0.0.1:", "//localhost:")
}

/// How long steps usually take on two cores.
const SOON: Duration = Duration::from_secs(2);
const MEASURING: Duration = Duration::from_secs(3);
const INSTALLING: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_quoted_for_toml() {
        for (text, wanted) in [
            ("/a b", r#""/a b""#),
            (r#"a"b\c"#, r#""a\"b\\c""#),
            ("a\nb", r#""a\u000Ab""#),
        ] {
            assert_eq!(quoted(text), wanted);
        }
    }

    #[test]
    fn a_used_port_is_named() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = taken.local_addr().unwrap();
        let complaint = require_free(addr).unwrap_err().to_string();
        assert!(
            complaint.contains(&addr.port().to_string()) && complaint.contains("--port"),
            "{complaint}"
        );
        drop(taken);
        require_free(addr).unwrap();
    }

    #[test]
    fn a_long_folder_leaves_the_admin_socket_at_its_default() {
        let addr = SocketAddr::from(([127, 0, 0, 1], 8080));
        assert!(
            configuration(addr, Path::new("/w"), Path::new("/short"))
                .contains("unix:/short/admin.sock")
        );
        let long = format!("/{}", "long/".repeat(30));
        assert!(!configuration(addr, Path::new("/w"), Path::new(&long)).contains("[admin]"));
    }
}
