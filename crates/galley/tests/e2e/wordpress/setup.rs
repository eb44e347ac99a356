//! `galley setup` on a machine where nginx or Apache already serves a WordPress.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use galley_testkit::client::Request;
use galley_testkit::{
    Apache, ApacheOptions, FpmOptions, Galley, Launch, MariaDb, Nginx, Options, PhpFpm,
    SampleContent, Scratch, WordPress, wait_for, wordpress_from_template,
};
use serde_json::Value;

use super::stack::TIMEOUT;

const HOST: &str = "setup.test";

/// A typical WordPress server. The processes stop in the order of the fields.
struct Server {
    nginx: Option<Nginx>,
    fpm: PhpFpm,
    _database: MariaDb,
    wordpress: WordPress,
    scratch: Scratch,
}

impl Server {
    fn start() -> Self {
        let scratch = Scratch::new().unwrap();
        let options = Options {
            url: Some(format!("http://{HOST}")),
            sample: SampleContent::None,
            ..Options::default()
        };
        let (database, wordpress) = wordpress_from_template(scratch.path(), &options).unwrap();
        let fpm = FpmOptions {
            workers: 3,
            ..FpmOptions::default()
        };
        let fpm = PhpFpm::start(&scratch.join("fpm"), &fpm).unwrap();
        Self {
            nginx: None,
            fpm,
            _database: database,
            wordpress,
            scratch,
        }
    }

    /// Starts nginx with additional lines in its `server` block.
    fn start_nginx(&mut self, lines: &str) {
        let http = format!(
            "server {{ listen {{listen}}; server_name {HOST} www.{HOST}; root {}; client_max_body_size 64m; index index.php;\n\
             {lines}\nlocation / {{ try_files $uri $uri/ /index.php$is_args$args; }}\n\
             location ~ \\.php$ {{ fastcgi_pass {}; fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name; include /etc/nginx/fastcgi_params; }} }}",
            self.root(),
            self.fpm.address(),
        );
        self.nginx = Some(Nginx::start(&self.scratch.join("nginx"), &http).unwrap());
    }

    fn root(&self) -> &str {
        self.wordpress.root.to_str().unwrap()
    }

    fn config_path(&self) -> PathBuf {
        self.scratch.join("setup/galley.toml")
    }

    /// Runs `galley setup` for this WordPress with `--output` set to the configuration file.
    fn setup(&self, arguments: &[&str]) -> Output {
        fs::create_dir_all(self.scratch.join("setup")).unwrap();
        let mut all = vec!["--output", self.config_path().to_str().unwrap()]
            .into_iter()
            .map(str::to_owned)
            .collect::<Vec<_>>();
        if !arguments.contains(&"--undo") {
            all.extend(
                [
                    "--wordpress",
                    self.root(),
                    "--listen",
                    "127.0.0.1:0",
                    "--no-service",
                ]
                .map(str::to_owned),
            );
        }
        Command::new(env!("CARGO_BIN_EXE_galley"))
            .arg("setup")
            .args(all)
            .args(arguments)
            .env("RUNTIME_DIRECTORY", self.scratch.join("setup"))
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    /// Returns the names and contents of all files that setup may change.
    fn files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let mut files = Vec::new();
        collect_files(&self.scratch.join("setup"), &mut files);
        collect_files(&self.wordpress.root.join("wp-content/plugins"), &mut files);
        files.sort();
        files
    }
}

fn collect_files(directory: &Path, files: &mut Vec<(PathBuf, Vec<u8>)>) {
    for entry in fs::read_dir(directory).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.push((path.clone(), Vec::new()));
            collect_files(&path, files);
        } else {
            files.push((path.clone(), fs::read(&path).unwrap()));
        }
    }
}

#[track_caller]
fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", stderr_text(output)))
}

fn stderr_text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn setup_imports_an_nginx_site_and_undo_restores_it() {
    let mut server = Server::start();
    server.start_nginx("");
    let before = server.files();

    // A dry run prints the configuration and changes nothing.
    let dry = server.setup(&["--dry-run"]);
    assert_eq!(dry.status.code(), Some(0), "{}", stderr_text(&dry));
    let text = String::from_utf8(dry.stdout).unwrap();
    assert!(
        text.contains(&format!("hosts = [\"{HOST}\", \"www.{HOST}\"]")),
        "{text}"
    );
    assert!(
        text.contains(&format!("php = \"{}\"", server.fpm.address())),
        "{text}"
    );
    assert!(text.contains("in_flight = 3"), "{text}");
    assert!(text.contains("request_body = \"64MiB\""), "{text}");
    assert_eq!(server.files(), before);

    let done = server.setup(&["--yes", "--json"]);
    assert_eq!(done.status.code(), Some(0), "{}", stderr_text(&done));
    let report = json(&done);
    let pages = report["pages"].as_array().unwrap();
    assert!(pages.len() >= 5, "{pages:?}");
    for page in pages {
        assert_eq!(page["same"], true, "{page}");
        assert!(page["current"]["status"].is_u64(), "{page}");
    }
    assert_eq!(pages[0]["galley"]["status"], 200);
    assert_eq!(fs::read_to_string(server.config_path()).unwrap(), text);
    let plugin = server
        .wordpress
        .root
        .join("wp-content/plugins/galley/galley.php");
    assert!(plugin.is_file(), "{report}");

    // Galley serves cached pages with the written configuration, and nginx still runs.
    let binary = Path::new(env!("CARGO_BIN_EXE_galley"));
    let dir = server.scratch.join("setup");
    let mut galley =
        Galley::start_under(binary, &dir, &server.config_path(), &Launch::default()).unwrap();
    wait_for("a hit", TIMEOUT, || {
        let page = Request::get("/").host(HOST).send(galley.addr()).unwrap();
        assert_eq!(page.status, 200);
        page.cache_status() == "galley; hit"
    });
    galley.stop();
    let nginx = server.nginx.as_ref().unwrap().addr();
    assert_eq!(
        Request::get("/").host(HOST).send(nginx).unwrap().status,
        200
    );

    let undone = server.setup(&["--undo", "--yes"]);
    assert_eq!(undone.status.code(), Some(0), "{}", stderr_text(&undone));
    let _ = fs::remove_file(dir.join("galley.stdout"));
    let now = server.files();
    let names = |files: &[(PathBuf, Vec<u8>)]| {
        files
            .iter()
            .map(|(name, _)| name.clone())
            .collect::<Vec<_>>()
    };
    assert!(
        now == before,
        "files after undo: {:?}, before setup: {:?}",
        names(&now),
        names(&before)
    );
    let again = server.setup(&["--undo", "--yes"]);
    assert!(
        stderr_text(&again).contains("nothing to undo"),
        "{}",
        stderr_text(&again)
    );
}

#[test]
fn setup_uses_apache_with_mod_php_as_the_upstream() {
    let server = Server::start();
    let options = ApacheOptions::default();
    let apache = Apache::start(
        &server.scratch.join("apache"),
        &server.wordpress.root,
        &options,
    );
    let apache = apache.unwrap();
    let done = server.setup(&["--yes", "--json", "--no-plugin"]);
    assert_eq!(done.status.code(), Some(0), "{}", stderr_text(&done));
    let report = json(&done);
    let text = report["configuration"].as_str().unwrap();
    assert!(
        text.contains(&format!("upstream = [\"{}\"]", apache.url())),
        "{text}"
    );
    for page in report["pages"].as_array().unwrap() {
        assert_eq!(page["same"], true, "{page}");
        assert!(page["current"]["status"].is_u64(), "{page}");
    }
}

#[test]
fn setup_skips_a_copy_with_the_url_of_another_wordpress() {
    let mut server = Server::start();
    server.start_nginx("");
    // The copy sorts before the directory that nginx serves, and uses the same database.
    let copy = server.scratch.join("copy");
    fs::create_dir_all(copy.join("wp-content")).unwrap();
    for name in ["wp-load.php", "wp-config.php"] {
        fs::copy(server.wordpress.root.join(name), copy.join(name)).unwrap();
    }
    let text = fs::read_to_string(copy.join("wp-config.php")).unwrap();
    assert!(text.contains(HOST), "{text}");
    let done = server.setup(&["--dry-run", "--json", "--wordpress", copy.to_str().unwrap()]);
    assert_eq!(done.status.code(), Some(0), "{}", stderr_text(&done));
    let report = json(&done);
    assert_eq!(report["sites"].as_array().unwrap().len(), 1);
    assert_eq!(report["sites"][0]["root"], server.root());
    let why = report["skipped"][0]["why"].as_str().unwrap();
    assert!(why.contains(server.root()), "{why}");
}

#[test]
fn setup_changes_nothing_when_pages_differ() {
    let mut server = Server::start();
    server.start_nginx("location = /wp-login.php { return 403; }");
    let before = server.files();
    let output = server.setup(&["--yes"]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr_text(&output));
    let text = stderr_text(&output);
    assert!(
        text.contains("DIFFERS") && text.contains("status: `403` today, `200` by Galley"),
        "{text}"
    );
    assert_eq!(server.files(), before);
    let forced = server.setup(&["--yes", "--no-test", "--no-plugin"]);
    assert_eq!(forced.status.code(), Some(0), "{}", stderr_text(&forced));
}

#[test]
fn setup_needs_consent_and_keeps_foreign_configuration_files() {
    let server = Server::start();
    let without_consent = server.setup(&[]);
    assert_eq!(
        without_consent.status.code(),
        Some(2),
        "{}",
        stderr_text(&without_consent)
    );
    assert!(
        stderr_text(&without_consent).contains("--yes"),
        "{}",
        stderr_text(&without_consent)
    );
    assert!(!server.config_path().exists());

    fs::write(server.config_path(), "# mine\n").unwrap();
    let foreign = server.setup(&["--yes"]);
    assert_eq!(foreign.status.code(), Some(2), "{}", stderr_text(&foreign));
    assert_eq!(
        fs::read_to_string(server.config_path()).unwrap(),
        "# mine\n"
    );
    fs::remove_file(server.config_path()).unwrap();

    // Without a running web server there is nothing to compare, but Galley must respond with pages.
    let without_server = server.setup(&[
        "--yes",
        "--json",
        "--no-plugin",
        "--php",
        &server.fpm.address(),
    ]);
    assert_eq!(
        without_server.status.code(),
        Some(0),
        "{}",
        stderr_text(&without_server)
    );
    assert_eq!(json(&without_server)["pages"][0]["current"], Value::Null);
    // A configuration file that setup wrote is overwritten.
    let again = server.setup(&["--yes", "--no-plugin", "--php", &server.fpm.address()]);
    assert_eq!(again.status.code(), Some(0), "{}", stderr_text(&again));
}

#[test]
fn setup_rejects_a_directory_without_wordpress() {
    let scratch = Scratch::new().unwrap();
    let directory = scratch.dir("empty").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_galley"))
        .args(["setup", "--yes", "--wordpress"])
        .arg(&directory)
        .arg("--output")
        .arg(scratch.join("galley.toml"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", stderr_text(&output));
    assert!(
        stderr_text(&output).contains("wp-load.php"),
        "{}",
        stderr_text(&output)
    );
    assert!(!scratch.join("galley.toml").exists());
}

#[test]
fn setup_does_not_take_over_a_service_without_a_public_port() {
    let server = Server::start();
    let output = Command::new(env!("CARGO_BIN_EXE_galley"))
        .args([
            "setup",
            "--yes",
            "--no-service",
            "--wordpress",
            server.root(),
            "--take-over",
            "galley-test-none",
        ])
        .arg("--output")
        .arg(server.scratch.join("galley.toml"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", stderr_text(&output));
    assert!(
        stderr_text(&output).contains("galley-test-none.service"),
        "{}",
        stderr_text(&output)
    );
    assert!(!server.scratch.join("galley.toml").exists());
}
