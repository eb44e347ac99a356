//! `galley setup` on a machine where nginx and PHP-FPM serve a WordPress.

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

/// A WordPress as many servers have it. Parts end in the order of their fields.
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

    /// Starts nginx with further lines of its `server`.
    fn nginx(&mut self, lines: &str) {
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

    fn output(&self) -> PathBuf {
        self.scratch.join("setup/galley.toml")
    }

    /// Runs `galley setup` for this WordPress and this file.
    fn setup(&self, arguments: &[&str]) -> Output {
        fs::create_dir_all(self.scratch.join("setup")).unwrap();
        let mut all = vec!["--output", self.output().to_str().unwrap()]
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

    /// Names and texts of all files beside the configuration.
    fn files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let mut files = Vec::new();
        collect(&self.scratch.join("setup"), &mut files);
        collect(&self.wordpress.root.join("wp-content/plugins"), &mut files);
        files.sort();
        files
    }
}

fn collect(folder: &Path, files: &mut Vec<(PathBuf, Vec<u8>)>) {
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.push((path.clone(), Vec::new()));
            collect(&path, files);
        } else {
            files.push((path.clone(), fs::read(&path).unwrap()));
        }
    }
}

#[track_caller]
fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", talk(output)))
}

fn talk(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_site_of_nginx_is_found_compared_served_and_restored() {
    let mut server = Server::start();
    server.nginx("");
    let before = server.files();

    // A dry run prints the configuration, and changes nothing.
    let dry = server.setup(&["--dry-run"]);
    assert_eq!(dry.status.code(), Some(0), "{}", talk(&dry));
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
    assert!(text.contains("request_body = \"67108864B\""), "{text}");
    assert_eq!(server.files(), before);

    let done = server.setup(&["--yes", "--json"]);
    assert_eq!(done.status.code(), Some(0), "{}", talk(&done));
    let report = json(&done);
    let pages = report["pages"].as_array().unwrap();
    assert!(pages.len() >= 5, "{pages:?}");
    for page in pages {
        assert_eq!(page["same"], true, "{page}");
        assert!(page["current"]["status"].is_u64(), "{page}");
    }
    assert_eq!(pages[0]["galley"]["status"], 200);
    assert_eq!(fs::read_to_string(server.output()).unwrap(), text);
    let plugin = server
        .wordpress
        .root
        .join("wp-content/plugins/galley/galley.php");
    assert!(plugin.is_file(), "{report}");

    // What it has written serves, from the cache, and nginx still runs.
    let binary = Path::new(env!("CARGO_BIN_EXE_galley"));
    let dir = server.scratch.join("setup");
    let mut galley =
        Galley::start_under(binary, &dir, &server.output(), &Launch::default()).unwrap();
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
    assert_eq!(undone.status.code(), Some(0), "{}", talk(&undone));
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
        "{:?} is not {:?}",
        names(&now),
        names(&before)
    );
    let again = server.setup(&["--undo", "--yes"]);
    assert!(talk(&again).contains("nothing to undo"), "{}", talk(&again));
}

#[test]
fn an_apache_that_runs_php_stays_behind_galley() {
    let server = Server::start();
    let options = ApacheOptions::default();
    let apache = Apache::start(
        &server.scratch.join("apache"),
        &server.wordpress.root,
        &options,
    );
    let apache = apache.unwrap();
    let done = server.setup(&["--yes", "--json", "--no-plugin"]);
    assert_eq!(done.status.code(), Some(0), "{}", talk(&done));
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
fn a_copy_that_claims_the_address_of_another_wordpress_is_left_out() {
    let mut server = Server::start();
    server.nginx("");
    // Sorted before the one that nginx serves, with the same database.
    let copy = server.scratch.join("copy");
    fs::create_dir_all(copy.join("wp-content")).unwrap();
    for name in ["wp-load.php", "wp-config.php"] {
        fs::copy(server.wordpress.root.join(name), copy.join(name)).unwrap();
    }
    let text = fs::read_to_string(copy.join("wp-config.php")).unwrap();
    assert!(text.contains(HOST), "{text}");
    let done = server.setup(&["--dry-run", "--json", "--wordpress", copy.to_str().unwrap()]);
    assert_eq!(done.status.code(), Some(0), "{}", talk(&done));
    let report = json(&done);
    assert_eq!(report["sites"].as_array().unwrap().len(), 1);
    assert_eq!(report["sites"][0]["root"], server.root());
    let why = report["skipped"][0]["why"].as_str().unwrap();
    assert!(why.contains(server.root()), "{why}");
}

#[test]
fn a_server_whose_pages_differ_is_left_as_it_is() {
    let mut server = Server::start();
    server.nginx("location = /wp-login.php { return 403; }");
    let before = server.files();
    let output = server.setup(&["--yes"]);
    assert_eq!(output.status.code(), Some(1), "{}", talk(&output));
    let said = talk(&output);
    assert!(
        said.contains("DIFFERS") && said.contains("status: `403` today, `200` by Galley"),
        "{said}"
    );
    assert_eq!(server.files(), before);
    let forced = server.setup(&["--yes", "--no-test", "--no-plugin"]);
    assert_eq!(forced.status.code(), Some(0), "{}", talk(&forced));
}

#[test]
fn nothing_is_done_without_consent_and_over_an_own_file() {
    let server = Server::start();
    let silent = server.setup(&[]);
    assert_eq!(silent.status.code(), Some(2), "{}", talk(&silent));
    assert!(talk(&silent).contains("--yes"), "{}", talk(&silent));
    assert!(!server.output().exists());

    fs::write(server.output(), "# mine\n").unwrap();
    let own = server.setup(&["--yes"]);
    assert_eq!(own.status.code(), Some(2), "{}", talk(&own));
    assert_eq!(fs::read_to_string(server.output()).unwrap(), "# mine\n");
    fs::remove_file(server.output()).unwrap();

    // Without a web server there is nothing to compare with: Galley's own pages must be there.
    let alone = server.setup(&[
        "--yes",
        "--json",
        "--no-plugin",
        "--php",
        &server.fpm.address(),
    ]);
    assert_eq!(alone.status.code(), Some(0), "{}", talk(&alone));
    assert_eq!(json(&alone)["pages"][0]["current"], Value::Null);
    // Again: the file is its own.
    let again = server.setup(&["--yes", "--no-plugin", "--php", &server.fpm.address()]);
    assert_eq!(again.status.code(), Some(0), "{}", talk(&again));
}

#[test]
fn a_folder_without_a_wordpress_is_refused() {
    let scratch = Scratch::new().unwrap();
    let folder = scratch.dir("empty").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_galley"))
        .args(["setup", "--yes", "--wordpress"])
        .arg(&folder)
        .arg("--output")
        .arg(scratch.join("galley.toml"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", talk(&output));
    assert!(talk(&output).contains("wp-load.php"), "{}", talk(&output));
    assert!(!scratch.join("galley.toml").exists());
}

#[test]
fn a_service_that_has_no_port_of_visitors_is_not_taken_over() {
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
    assert_eq!(output.status.code(), Some(2), "{}", talk(&output));
    assert!(
        talk(&output).contains("galley-test-none.service"),
        "{}",
        talk(&output)
    );
    assert!(!server.scratch.join("galley.toml").exists());
}
