//! Random servers of nginx on the real nginx and on the real Galley with the imported configuration: where both answer differently, a
//! statement that takes part is reported as not carried.
//!
//! One nginx and one Galley have all servers of a batch, each with a host of its own. `GALLEY_IMPORT_SERVERS=5000` runs the long form,
//! `GALLEY_IMPORT_SEED=7` others; a failure prints both.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]
#![expect(clippy::indexing_slicing, reason = "tests")]

mod apache;
mod apache_generator;
mod generator;
mod others;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use galley_import::{Imported, ServerKind, Source, StatementOutcome, import};
use galley_testkit::client::{Connection, Request, Response};
use galley_testkit::{FpmOptions, Galley, Nginx, PhpFpm, Scratch};
use generator::{Places, REQUESTS, Random, Server, Text};
use regex::Regex;

/// The files of this machine.
struct Disk;

impl Source for Disk {
    fn text(&self, path: &Path) -> Option<String> {
        fs::read_to_string(path).ok()
    }

    fn matching(&self, pattern: &Path) -> Vec<PathBuf> {
        pattern
            .exists()
            .then(|| pattern.to_owned())
            .into_iter()
            .collect()
    }
}

fn number(name: &str, default: usize) -> usize {
    let text = std::env::var(name).unwrap_or_default();
    text.parse().unwrap_or(default)
}

#[test]
fn statements_that_are_carried_or_not_needed_answer_as_in_nginx() {
    compare("GALLEY_IMPORT_SERVERS", 200, BATCH, run);
}

/// Compares as many generated servers as the variable `of` says, in batches.
fn compare(of: &str, usual: usize, batch: usize, run: fn(usize, &mut Random, &mut Totals)) {
    let (count, seed) = (number(of, usual), number("GALLEY_IMPORT_SEED", 1));
    let mut random = Random(seed as u64);
    let mut total = Totals::default();
    let mut left = count;
    while left > 0 && total.faults.len() < MAX_FAULTS {
        let batch = left.min(batch);
        run(batch, &mut random, &mut total);
        left -= batch;
    }
    println!(
        "{count} servers, {} requests: {} equal, {} differ because of statements that are not carried; {} of {} statements are carried or not needed",
        total.requests, total.equal, total.reported, total.settled, total.statements
    );
    assert!(
        total.faults.is_empty(),
        "seed {seed}: {} faults\n{}",
        total.faults.len(),
        total.faults.join("\n\n")
    );
    assert_eq!(total.requests, count * REQUESTS);
    // Most of the generated statements have a counterpart: otherwise this test would show nothing.
    assert!(total.equal * 10 > total.requests * 7 && total.settled * 10 > total.statements * 7);
}

#[derive(Default)]
struct Totals {
    requests: usize,
    equal: usize,
    reported: usize,
    settled: usize,
    statements: usize,
    faults: Vec<String>,
}

/// The servers in one process of each kind.
const BATCH: usize = 250;

const MAX_FAULTS: usize = 12;

fn run(count: usize, random: &mut Random, total: &mut Totals) {
    let scratch = Scratch::new().unwrap();
    files(&scratch, "root");
    let workers = FpmOptions {
        workers: 4,
        ..FpmOptions::default()
    };
    let php = PhpFpm::start(&scratch.join("php"), &workers).unwrap();
    let origin = galley_testkit::free_port().unwrap();
    let places = Places {
        root: scratch.join("root").display().to_string(),
        php: php.address().clone(),
        origin: format!("127.0.0.1:{origin}"),
        users: scratch.join("users").display().to_string(),
        listen: "{listen}".to_owned(),
    };
    let mut text = Text::default();
    let servers: Vec<Server> = (0..count)
        .map(|number| generator::server(random, number, &places, &mut text))
        .collect();
    let behind = format!(
        "server {{ listen 127.0.0.1:{origin}; location / {{ return 200 \"origin $request_uri\"; }} }}\n"
    );
    let nginx = Nginx::start(&scratch.join("nginx"), &format!("{}{behind}", text.text)).unwrap();
    let listen = nginx.addr().to_string();
    let whole = text.text.replace("{listen}", &listen);
    let main = scratch.write("servers.conf", whole).unwrap();
    let imported = import(&Disk, &[(ServerKind::Nginx, main)]);
    let configuration = imported.configuration.replace(&listen, "127.0.0.1:0");
    let galley = Galley::start(&scratch.join("galley"), &configuration).unwrap();
    let shares = imported.shares();
    total.statements += shares.all();
    total.settled += shares.all() - shares.not_carried;
    let mut comparison = Comparison {
        clients: [Client::new(nginx.addr()), Client::new(galley.addr())],
        labels: Labels::of(&imported),
        lines: text.text.lines().collect(),
        root: scratch.join("root"),
    };
    for server in &servers {
        total.requests += server.targets.len();
        if total.faults.len() < MAX_FAULTS
            && let Some(fault) = comparison.server(server, total)
        {
            let rules = site_of(&imported.configuration, &server.host);
            total.faults.push(format!("{fault}\n{rules}"));
        }
    }
}

/// What the comparison of a server needs.
struct Comparison<'t> {
    /// nginx and Galley.
    clients: [Client; 2],
    labels: Labels,
    lines: Vec<&'t str>,
    root: PathBuf,
}

impl Comparison<'_> {
    /// The first difference that no statement explains.
    fn server(&mut self, server: &Server, total: &mut Totals) -> Option<String> {
        for target in &server.targets {
            let answers = self.clients.each_mut();
            let [theirs, ours] = answers.map(|client| client.get(&server.host, target));
            let found = differences(&theirs, &ours, &server.host);
            if found.is_empty() || is_stricter(target, &theirs, &ours, &self.root) {
                total.equal += 1;
                continue;
            }
            let status = theirs.as_ref().map_or(0, |theirs| theirs.status);
            let explains = |one: &&Difference| {
                self.labels
                    .explain(one, server, target, status, &self.lines)
            };
            let Some(unexplained) = found.iter().find(|one| !explains(one)) else {
                total.reported += 1;
                continue;
            };
            let own = self.lines[server.lines.0 - 1..server.lines.1].iter();
            let shown: Vec<&str> = own
                .copied()
                .filter(|line| !line.starts_with("fastcgi_param"))
                .collect();
            return Some(format!(
                "{} {target}: {unexplained:?}\nnginx: {}\nGalley: {}\n{}",
                server.host,
                excerpt(&theirs),
                excerpt(&ours),
                shown.join("\n")
            ));
        }
        None
    }
}

fn site_of(configuration: &str, host: &str) -> String {
    let mut sites = configuration.split("[[site]]");
    let site = sites.find(|site| site.contains(&format!("\"{host}\"")));
    site.unwrap_or_default().trim().to_owned()
}

fn excerpt(response: &Answered) -> String {
    match response {
        None => "closes the connection".to_owned(),
        Some(response) => response.excerpt().replace('\r', ""),
    }
}

/// `None`: the connection ended without a response.
type Answered = Option<Response>;

struct Client {
    addr: SocketAddr,
    connection: Option<Connection>,
}

impl Client {
    fn new(addr: SocketAddr) -> Self {
        Self {
            addr,
            connection: None,
        }
    }

    fn get(&mut self, host: &str, target: &str) -> Answered {
        let request = Request::get(target).host(host);
        for _ in 0..2 {
            let connection = match self.connection.take() {
                Some(connection) => Some(connection),
                None => Connection::open(self.addr).ok(),
            };
            let Some(mut connection) = connection else {
                continue;
            };
            if let Ok(response) = connection.exchange(&request) {
                if response.field("connection") != Some("close") {
                    self.connection = Some(connection);
                }
                return Some(response);
            }
        }
        None
    }
}

/// A part of a response in which both differ.
#[derive(Debug, PartialEq, Eq)]
enum Difference {
    /// Status, target or content.
    Answer,
    /// A field, by its name in lower case.
    Field(String),
}

fn differences(theirs: &Answered, ours: &Answered, host: &str) -> Vec<Difference> {
    let (Some(theirs), Some(ours)) = (theirs, ours) else {
        return vec![Difference::Answer];
    };
    let location = |response: &Response| {
        let own = response.field("location").unwrap_or_default();
        let rest = own.strip_prefix(&format!("http://{host}")).unwrap_or(own);
        // nginx adds its port.
        match rest.strip_prefix(':') {
            Some(rest) => rest
                .trim_start_matches(|c: char| c.is_ascii_digit())
                .to_owned(),
            None => rest.to_owned(),
        }
    };
    let is_same = theirs.status == ours.status
        && location(theirs) == location(ours)
        && (theirs.status != 200 || theirs.body == ours.body);
    if !is_same {
        return vec![Difference::Answer];
    }
    // Galley also adds fields to errors.
    if theirs.status >= 400 {
        return Vec::new();
    }
    let names = [
        "x-a",
        "x-b",
        "x-frame-options",
        "strict-transport-security",
        "cache-control",
    ];
    let values = |response: &Response, name: &str| -> BTreeSet<String> {
        let all = response.all(name).join(", ");
        all.split(',')
            .map(|one| one.trim().to_owned())
            .filter(|one| !one.is_empty())
            .collect()
    };
    let differs = |name: &&str| {
        let (theirs, ours) = (values(theirs, name), values(ours, name));
        // By default Galley has browsers ask again.
        let is_default =
            *name == "cache-control" && theirs.is_empty() && ours.iter().eq(["no-cache"]);
        theirs != ours && !is_default
    };
    names
        .into_iter()
        .filter(differs)
        .map(|name| Difference::Field(name.to_owned()))
        .collect()
}

fn names_field(line: &str, name: &str) -> bool {
    let lower = line.to_ascii_lowercase();
    lower.starts_with(&format!("add_header {name} "))
        || name == "cache-control" && lower.starts_with("expires ")
}

/// Differences that no statement causes: Galley refuses what it never sends, such as hidden files and scripts among uploads; it runs a
/// script that nginx sends as text; it asks WordPress for a folder without an index, which
/// nginx refuses to list; and a rule refuses missing files, and paths that continue after a script, too.
fn is_stricter(target: &str, theirs: &Answered, ours: &Answered, folders: &Path) -> bool {
    let (Some(theirs), Some(ours)) = (theirs, ours) else {
        return false;
    };
    let path = target.split('?').next().unwrap_or_default();
    let is_script = Path::new(path).extension().is_some_and(|end| end == "php");
    let is_never_sent = path.contains("/.git")
        || path.contains("/.ht")
        || ["wp-config.php", ".sql", ".log"]
            .iter()
            .any(|end| path.ends_with(end))
        || is_script && (path.contains("/uploads/") || path.contains("/wp-includes/"));
    let is_source = theirs.status == 200 && theirs.text().starts_with("<?php");
    let is_folder = folders.join(path.trim_start_matches('/')).is_dir() && path != "/";
    let lists = is_folder
        && matches!(
            (theirs.status, path.ends_with('/')),
            (403, true) | (301, false)
        );
    // A rule also refuses what does not exist.
    let is_missing = theirs.status == 404 && matches!(ours.status, 401 | 403);
    let is_behind_script = path.contains(".php/") && matches!(ours.status, 401 | 403);
    is_missing
        || is_behind_script
        || is_never_sent && matches!(ours.status, 403 | 404)
        || is_source
        || lists && ours.status == 404
}

/// The lines of statements that are not carried.
struct Labels(BTreeMap<usize, bool>);

impl Labels {
    fn of(imported: &Imported) -> Self {
        let mut lost = BTreeMap::new();
        for statement in &imported.statements {
            let is_lost = matches!(statement.outcome, StatementOutcome::NotCarried(_));
            *lost.entry(statement.origin.line).or_default() |= is_lost;
        }
        Self(lost)
    }

    /// Whether a statement that takes part in a difference is reported.
    fn explain(
        &self,
        difference: &Difference,
        server: &Server,
        target: &str,
        status: u16,
        lines: &[&str],
    ) -> bool {
        let is_lost = |line: &usize| self.0.get(line) == Some(&true);
        let mut all = taking_part(server, target, status, lines)
            .into_iter()
            .filter(is_lost);
        all.any(|line| match difference {
            Difference::Answer => {
                !lines[line - 1].starts_with("add_header")
                    && !lines[line - 1].starts_with("expires")
            }
            Difference::Field(name) => {
                names_field(lines[line - 1], name) || lines[line - 1].starts_with("location")
            }
        })
    }
}

/// The lines of statements that may apply to a request: those of the server, and of the locations with its path.
fn taking_part(server: &Server, target: &str, status: u16, lines: &[&str]) -> BTreeSet<usize> {
    let path = target.split('?').next().unwrap_or_default();
    let all = |of: &dyn Fn(&&generator::Location) -> bool| -> BTreeSet<usize> {
        let found = server.locations.iter().filter(of);
        found
            .flat_map(|location| location.lines.0..=location.lines.1)
            .collect()
    };
    let inside = all(&|_| true);
    let mut found = all(&|location| !location.is_root() && matches(location, path));
    let falls_back = |line: &usize| lines[line - 1].contains("/index.php");
    let needs_slash = |location: &&generator::Location| {
        let mut inner = (location.lines.0..=location.lines.1).map(|line| lines[line - 1]);
        location.path == format!("{path}/") && inner.any(|line| line.contains("_pass"))
    };
    found.extend(all(&needs_slash));
    if found.is_empty() {
        found = all(&|location| location.is_root());
    }
    if path.ends_with('/') {
        let page = format!("{path}index.html");
        found.extend(all(&|location| {
            !location.is_root() && matches(location, &page)
        }));
    }
    let is_rewritten = (server.lines.0..=server.lines.1)
        .any(|line| lines[line - 1].starts_with("rewrite ^ /index.php"));
    if found.iter().any(falls_back) || path.ends_with('/') || is_rewritten {
        found.extend(all(&|location| {
            !location.is_root() && matches(location, "/index.php")
        }));
    }
    let (mut applies, mut is_in_if) = (true, false);
    for line in (server.lines.0..=server.lines.1).filter(|line| !inside.contains(line)) {
        let text = lines[line - 1];
        match text.split(' ').next().unwrap_or_default() {
            "if" => (applies, is_in_if) = (is_true(text, target), true),
            "}" => (applies, is_in_if) = (true, false),
            "rewrite" if !is_in_if => applies = pattern_of(text, 1).is_match(path),
            _ if !is_in_if => applies = true,
            _ => {}
        }
        let is_of_others = text.starts_with("index") && !path.ends_with('/')
            || text.starts_with("error_page") && !text.contains('=') && status < 300;
        if applies && !is_of_others {
            found.insert(line);
        }
    }
    found
}

fn pattern_of(line: &str, word: usize) -> Regex {
    let word = line.split(' ').nth(word).unwrap_or_default();
    Regex::new(word.trim_end_matches([')', '{']).trim_matches('"')).unwrap()
}

/// Whether an `if` of the generator may be true.
fn is_true(line: &str, target: &str) -> bool {
    let query = target.split_once('?').map_or("", |(_, query)| query);
    match line.split(' ').nth(1).unwrap_or_default() {
        "($request_uri" => pattern_of(line, 3).is_match(target),
        "($uri" => pattern_of(line, 3).is_match(target.split('?').next().unwrap_or_default()),
        "($args" => query.contains("a=b"),
        "($http_user_agent" => false,
        _ => true,
    }
}

/// Whether the paths of a location contain a path, whatever other locations do.
fn matches(location: &generator::Location, path: &str) -> bool {
    match location.modifier {
        "=" => path == location.path,
        "" | "^~" => path.starts_with(&location.path),
        modifier => {
            let flag = if modifier == "~*" { "(?i)" } else { "" };
            // The only look-around of the generator.
            Regex::new(&format!(
                "{flag}{}",
                location.path.replace("(?!private)", "")
            ))
            .unwrap()
            .is_match(path)
        }
    }
}

fn files(scratch: &Scratch, root: &str) {
    for name in FILES {
        scratch
            .write(&format!("{root}/{name}"), format!("content of {name}\n"))
            .unwrap();
    }
    for name in SCRIPTS {
        scratch.write(&format!("{root}/{name}"), SCRIPT).unwrap();
    }
    scratch
        .write("users", "somebody:{SHA}qUqP5cyxm6YcTAhz05Hph5gvu9M=\n")
        .unwrap();
}

/// A script that shows which one it is, and what it was asked for. `index.php` knows a few pages, as WordPress does.
const SCRIPT: &str = r#"<?php
header('Content-Type: text/plain');
$pages = ['/', '/index.php', '/hello-world/', '/hello-world', '/feed/', '/2030/01/', '/author/ann/', '/author/ann', '/wp-json/wp/v2/posts'];
if ($_SERVER['SCRIPT_NAME'] === '/index.php' && !in_array(strtok($_SERVER['REQUEST_URI'], '?'), $pages)) {
    http_response_code(404);
}
echo $_SERVER['SCRIPT_NAME'], ' ', $_SERVER['REQUEST_URI'], "\n";
"#;

const SCRIPTS: &[&str] = &[
    "index.php",
    "wp-login.php",
    "xmlrpc.php",
    "wp-config.php",
    "wp-admin/index.php",
    "private/a.php",
    "wp-content/uploads/a.php",
    "wp-content/plugins/x/a.php",
    "wp-includes/version.php",
];

const FILES: &[&str] = &[
    "readme.html",
    "license.txt",
    "css/a.css",
    "js/a.js",
    "private/secret.txt",
    "private/sub/x.txt",
    "wp-content/uploads/a.jpg",
    "wp-content/themes/t/style.css",
    ".git/config",
    ".htaccess",
    ".well-known/acme.txt",
    "old/a.html",
    "docs/manual.pdf",
    "shop/index.html",
    "backup.sql",
    "error.log",
    "favicon.ico",
];
