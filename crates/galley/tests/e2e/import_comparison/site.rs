//! A site with a small document root, its PHP, and the configuration of an old server.

use std::path::PathBuf;
use std::process::{Command, Output};

use galley_testkit::{FpmOptions, PhpFpm, Scratch};
use serde_json::Value;
use toml::Table;

use super::draft::{Draft, ManualStep};
use crate::support::{binary, output_text};

/// A site and the configuration of its old server.
pub struct OldSite {
    pub scratch: Scratch,
    configuration: PathBuf,
    _php: [PhpFpm; 2],
}

/// Exit code and report of a comparison.
pub struct TryOutcome {
    pub code: Option<i32>,
    pub report: Value,
}

impl OldSite {
    /// `name` and `text` are the configuration file, where `{dir}` is the folder of the test and `{php}` and `{other}` are the sockets
    /// of two PHP-FPM. With `devices` of `different` phones get other pages than computers, with `alike` the same.
    pub fn new(name: &str, text: &str, devices: &str) -> Self {
        let scratch = Scratch::new().unwrap();
        for (name, content) in FILES {
            scratch.write(&format!("root/{name}"), content).unwrap();
        }
        for script in [
            "index.php",
            "wp-login.php",
            "wp-admin/index.php",
            "xmlrpc.php",
        ] {
            scratch.write(&format!("root/{script}"), SCRIPT).unwrap();
        }
        scratch
            .write("root/css/long.css", "a".repeat(4000))
            .unwrap();
        for users in ["users", "others"] {
            scratch
                .write(users, "somebody:{SHA}qUqP5cyxm6YcTAhz05Hph5gvu9M=\n")
                .unwrap();
        }
        let pool = |pool: &str| FpmOptions {
            pool: vec![
                ("env[POOL]".to_owned(), pool.to_owned()),
                ("env[DEVICES]".to_owned(), devices.to_owned()),
            ],
            ..FpmOptions::default()
        };
        let php =
            ["main", "other"].map(|name| PhpFpm::start(&scratch.join(name), &pool(name)).unwrap());
        let socket = |index: usize| php[index].address().trim_start_matches("unix:").to_owned();
        let text = text
            .replace("{dir}", scratch.path().to_str().unwrap())
            .replace("{php}", &socket(0))
            .replace("{other}", &socket(1));
        let configuration = scratch.write(name, text).unwrap();
        Self {
            scratch,
            configuration,
            _php: php,
        }
    }

    /// Draft that the import writes.
    pub fn draft(&self) -> Table {
        let value = self.imported();
        value["configuration"].as_str().unwrap().parse().unwrap()
    }

    /// The draft with the steps for statements that the import reports as not carried, and no others.
    pub fn finished_draft(&self, steps: &[ManualStep]) -> Draft {
        let imported = self.imported();
        let mut draft = Draft::new(self.draft());
        for step in steps {
            let is_lost = |one: &Value| {
                let text = one["statement"].as_str().unwrap();
                one["outcome"] == "not-carried" && text.starts_with(step.statement)
            };
            let statements = imported["statements"].as_array().unwrap();
            assert!(
                statements.iter().any(is_lost),
                "`{}` is not among the statements that are not carried: {statements:#?}",
                step.statement
            );
            draft.apply(&step.edit, self.scratch.path().to_str().unwrap());
        }
        draft
    }

    /// Draft and report of the import as JSON.
    fn imported(&self) -> Value {
        let output = self.import(&["--json"]);
        serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| panic!("{}", output_text(&output)))
    }

    /// Compares the old server with Galley and this draft.
    pub fn try_draft(&self, draft: &Draft) -> TryOutcome {
        let path = self.scratch.write("draft.toml", draft.text()).unwrap();
        self.try_with(&["--draft", path.to_str().unwrap()])
    }

    /// Runs a comparison with these arguments.
    pub fn try_with(&self, arguments: &[&str]) -> TryOutcome {
        let output = self.import(&[&["--try", "--json"], arguments].concat());
        let report = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| panic!("{}", output_text(&output)));
        TryOutcome {
            code: output.status.code(),
            report,
        }
    }

    /// Runs `galley import` on the configuration.
    pub fn import(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(binary());
        command
            .arg("import")
            .args(arguments)
            .arg(&self.configuration);
        command
    }
}

impl TryOutcome {
    /// Differences as text, for messages.
    pub fn lines(&self) -> String {
        let differences = self.report["differences"].as_array().unwrap();
        let line = |one: &Value| {
            let requests = one["requests"].as_array().unwrap().iter();
            let urls: Vec<_> = requests
                .map(|request| request["curl"].as_str().unwrap())
                .take(40)
                .collect();
            format!(
                "{} {} {} -> {}\n    {}\n",
                one["kind"],
                one["field"],
                one["old"],
                one["galley"],
                urls.join("\n    ")
            )
        };
        differences.iter().map(line).collect()
    }
}

/// Front controller and all other scripts. Shows the request and the session of the user.
const SCRIPT: &str = r#"<?php
$path = strtok($_SERVER['REQUEST_URI'], '?');
header('Content-Type: text/html; charset=UTF-8');
if (strpos($path, 'missing') !== false) {
    http_response_code(404);
}
if (strpos($path, '/api/link') === 0) {
    header('Link: </css/plain.css>; rel=preload');
}
$phone = getenv('DEVICES') === 'different' && strpos($_SERVER['HTTP_USER_AGENT'] ?? '', 'Mobile') !== false;
$query = array_diff_key($_GET, ['utm_source' => 1]);
echo "<html><head><title>Page</title></head><body>\n$_SERVER[REQUEST_METHOD] $path\nquery=", http_build_query($query), "\n";
echo 'https=', $_SERVER['HTTPS'] ?? 'off', " host=$_SERVER[HTTP_HOST] pool=", getenv('POOL'), $phone ? " phone\n" : "\n";
foreach ($_COOKIE as $name => $value) {
    if (strncmp($name, 'wordpress_logged_in', 19) === 0) {
        echo "member=$value\n";
    }
}
echo "</body></html>\n";
"#;

const FILES: &[(&str, &str)] = &[
    ("css/plain.css", "a{}"),
    ("css/age.css", "a{}"),
    ("css/charset.css", "a{}"),
    ("img/plain.png", "\u{1}\u{2}"),
    ("img/age.png", "\u{1}\u{2}"),
    ("js/plain.js", "var a;"),
    ("js/no-cache.js", "var a;"),
    ("fonts/a.woff2", "\u{1}"),
    ("files/plain.txt", "hello"),
    ("files/new.txt", "hello"),
    ("files/gone.txt", "hello"),
    ("files/a.json", "{}"),
    ("forbidden.html", "<h1>No entry</h1>"),
    ("elsewhere.html", "<h1>Elsewhere</h1>"),
];
