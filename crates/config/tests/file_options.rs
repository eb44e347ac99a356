//! Options that name a file: a file that is not regular or far too large is rejected immediately, without reading it.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use galley_config::load;

/// Every option with a file to read, with `$` for the path.
const OPTIONS: &[(&str, &str, &str)] = &[
    ("", "include = [\"$\"]", "include"),
    ("[admin]\ntoken_file = \"$\"", "", "admin.token_file"),
    (
        "[cluster]\nengine = \"redis://a\"\nkey_file = \"$\"",
        "",
        "cluster.key_file",
    ),
    ("[acme]\nca = \"$\"", "tls = \"auto\"", "acme.ca"),
    (
        "[acme]\naccount_id = \"x\"\naccount_key_file = \"$\"",
        "tls = \"auto\"",
        "acme.account_key_file",
    ),
    ("", "token_file = \"$\"", "site.token_file"),
    ("", "purge_secret_file = \"$\"", "site.purge_secret_file"),
    ("", "error_page = \"$\"", "site.error_page"),
    (
        "",
        "[site.error_pages]\n404 = \"$\"",
        "site.error_pages.404",
    ),
    ("", "basic_auth = \"$\"", "site.basic_auth"),
    (
        "",
        "[[site.rule]]\npath = \"/a\"\nbasic_auth = \"$\"",
        "site.rule.basic_auth",
    ),
    ("", "tls = { cert = \"$\", key = \"$\" }", "site.tls"),
    ("", "tls = { cert = \"CERT\", key = \"$\" }", "site.tls"),
    (
        "",
        "upstream = [\"https://127.0.0.1:1\"]\nupstream_tls = { ca = \"$\" }",
        "site.upstream_tls",
    ),
];

/// A folder with each kind of file that must not be read.
struct UnreadableFiles(tempfile::TempDir);

impl UnreadableFiles {
    fn new() -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        fs::create_dir(folder.path("www")).unwrap();
        fs::create_dir(folder.path("folder")).unwrap();
        let status = Command::new("mkfifo").arg(folder.path("pipe")).status();
        assert!(status.unwrap().success());
        // A sparse file, too large to read.
        let large = File::create(folder.path("large")).unwrap();
        large.set_len(1 << 40).unwrap();
        let mode = fs::Permissions::from_mode(0o600);
        fs::set_permissions(folder.path("large"), mode.clone()).unwrap();
        fs::set_permissions(folder.path("pipe"), mode).unwrap();
        let key = rcgen::generate_simple_self_signed(["a.test".to_owned()]).unwrap();
        fs::write(folder.path("cert.pem"), key.cert.pem()).unwrap();
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

/// The errors of a configuration file as one text. A hang is a failure.
fn errors_of(file: &Path) -> String {
    let (done, result) = mpsc::channel();
    let path = file.to_owned();
    thread::spawn(move || {
        let text = match load(&path) {
            Ok(_) => "no error".to_owned(),
            Err(errors) => {
                let text = errors
                    .iter()
                    .map(|error| format!("{}: {} ({})\n", error.option, error.message, error.help));
                text.collect()
            }
        };
        done.send(text)
    });
    result
        .recv_timeout(Duration::from_secs(60))
        .unwrap_or_else(|_| panic!("{} is read forever", file.display()))
}

#[test]
fn files_that_are_not_regular_are_rejected_without_reading() {
    let folder = UnreadableFiles::new();
    let device = PathBuf::from("/dev/zero");
    let kinds = [
        (
            folder.path("pipe"),
            "which is a named pipe, not a regular file",
        ),
        (device, "which is a device, not a regular file"),
        (
            folder.path("folder"),
            "which is a folder, not a regular file",
        ),
        (folder.path("large"), "which is larger than "),
    ];
    for (head, site, option) in OPTIONS {
        for (path, why) in &kinds {
            let (top, site) = match site.strip_prefix("include") {
                Some(_) => (*site, ""),
                None => ("", *site),
            };
            let text = format!(
                "{top}\n[server]\nlisten = [\"127.0.0.1:8080\"]\nlisten_tls = [\"127.0.0.1:8443\"]\n{head}\n[[site]]\nhosts = [\"a.test\"]\nroot = \"www\"\n{site}\n"
            );
            let text = text
                .replace('$', path.to_str().unwrap())
                .replace("CERT", folder.path("cert.pem").to_str().unwrap());
            let file = folder.path("galley.toml");
            fs::write(&file, text).unwrap();
            let errors = errors_of(&file);
            let line = errors
                .lines()
                .find(|line| line.starts_with(&format!("{option}: ")));
            let line = line.unwrap_or_else(|| panic!("{option} {}: {errors}", path.display()));
            let is_large = line.contains("whose token is longer than") && path.ends_with("large");
            assert!(
                is_large || line.contains(&format!("`{}`, {why}", path.display())),
                "{option}: {line}"
            );
        }
    }
}

#[test]
fn the_configuration_itself_must_be_a_regular_file() {
    let folder = UnreadableFiles::new();
    for (path, why) in [
        (
            folder.path("pipe"),
            "which is a named pipe, not a regular file",
        ),
        (
            PathBuf::from("/dev/zero"),
            "which is a device, not a regular file",
        ),
        (
            folder.path("folder"),
            "which is a folder, not a regular file",
        ),
        (folder.path("large"), "which is larger than 4MiB"),
    ] {
        let errors = errors_of(&path);
        assert_eq!(
            errors,
            format!(
                ": the configuration file is `{}`, {why} (name a file that exists and that this user may read)\n",
                path.display()
            )
        );
    }
}
