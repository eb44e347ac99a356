//! Caddy and Varnish: requests to the real server and to Galley with the imported configuration. Where both answer differently, a
//! statement that takes part is reported as not carried.

use std::fmt::Write as _;
use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use galley_import::{Imported, ServerKind, StatementOutcome, import};
use galley_testkit::client::Response;
use galley_testkit::origin::Origin;
use galley_testkit::{FpmOptions, Galley, PhpFpm, Scratch, free_port};

use crate::{Answered, Client, Difference, Disk, differences, excerpt, files, is_stricter};

/// Sites of Caddy, one for each kind of statement: the statements, and the paths that they are about.
const SITES: &[(&str, &[&str])] = &[
    (
        "@b path /private/* /xmlrpc.php *.sql\nrespond @b 403",
        &["/private/", "/xmlrpc.php", "sql"],
    ),
    (
        "respond /private/* 403\nredir /private/a* /elsewhere",
        &["/private"],
    ),
    (
        "redir /old/* https://b.test/new 301\nredir /old/a /x",
        &["/old"],
    ),
    ("header X-A one\nheader /css/* X-B \"two words\"", &["/"]),
    ("handle /private/* {\n\trespond 403\n}", &["/private"]),
    (
        "handle /private/* {\n\theader X-A one\n\tfile_server\n}\nrespond /private/secret.txt 403",
        &["/private"],
    ),
    (
        "@s path_regexp ^/wp-content/uploads/.*\\.php$\nrespond @s 403",
        &["uploads"],
    ),
    (
        "@x {\n\tpath /docs/*\n\theader X-A b\n}\nrespond @x 403",
        &["/docs"],
    ),
    ("reverse_proxy /api/* {origin}", &["/api"]),
    (
        "handle_path /api/* {\n\treverse_proxy {origin}\n}",
        &["/api"],
    ),
    ("error /secret/* 404\nabort /old/a", &["/secret", "/old"]),
    ("header -X-A\nheader X-Frame-Options SAMEORIGIN", &["/"]),
];

const TARGETS: &[&str] = &[
    "/",
    "/hello-world/",
    "/?p=12",
    "/wp-login.php",
    "/xmlrpc.php",
    "/XMLRPC.php",
    "/private/secret.txt",
    "/PRIVATE/x",
    "/private/a",
    "/private/a.php",
    "/private",
    "/old/a",
    "/old/b?c=d",
    "/old",
    "/css/a.css",
    "/docs/manual.pdf",
    "/api/x",
    "/api/",
    "/api",
    "/backup.sql",
    "/wp-content/uploads/a.php",
    "/wp-content/uploads/a.jpg",
    "/secret/x",
    "/secret",
    "/feed/",
    "/missing.css",
    "/shop/",
    "/.well-known/acme.txt",
];

#[test]
fn directives_of_caddy_that_are_carried_answer_as_in_caddy() {
    let Some(program) = installed("caddy") else {
        return;
    };
    let scratch = Scratch::new().unwrap();
    files(&scratch, "root");
    let php = PhpFpm::start(&scratch.join("php"), &FpmOptions::default()).unwrap();
    let origin = origin();
    let port = free_port().unwrap();
    let socket = php.address().replacen("unix:", "unix/", 1);
    let root = scratch.join("root").display().to_string();
    let mut text = String::new();
    for (number, (own, _)) in SITES.iter().enumerate() {
        let own = own.replace("{origin}", &origin.addr().to_string());
        let _ = write!(
            text,
            "http://h{number}.test:{port} {{\n\troot * {root}\n{own}\n\tphp_fastcgi {socket}\n\tfile_server\n}}\n"
        );
    }
    let main = scratch.write("sites/Caddyfile", &text).unwrap();
    let whole = format!(
        "{{\n\tadmin off\n\tauto_https off\n\tstorage file_system {root}/../caddy\n}}\n{text}"
    );
    let copy = scratch.write("Caddyfile", whole).unwrap();
    let mut command = Command::new(program);
    command
        .arg("run")
        .arg("--adapter")
        .arg("caddyfile")
        .arg("--config")
        .arg(copy);
    let caddy = Running::start(command.env("HOME", scratch.path()), port, scratch.path());
    let imported = import(&Disk, &[(ServerKind::Caddy, main)]);
    let configuration = imported
        .configuration
        .replace(&format!("0.0.0.0:{port}"), "127.0.0.1:0");
    let galley = Galley::start(&scratch.join("galley"), &configuration).unwrap();
    let mut clients = [Client::new(caddy.addr), Client::new(galley.addr())];
    let mut compared = Compared::new(&imported, root.as_ref());
    let mut line = 1;
    for (number, (own, paths)) in SITES.iter().enumerate() {
        let last = line + own.lines().count() + 4;
        for target in TARGETS {
            let host = format!("h{number}.test");
            compared.request(&mut clients, (&host, target), (line, last), paths);
        }
        line = last + 1;
    }
    compared.finish("Caddy", SITES.len() * TARGETS.len());
}

/// Statements of `vcl_recv` and of other subroutines, and the paths that they are about.
const PROGRAMS: &[(&str, &[&str])] = &[
    (
        "sub vcl_recv {\nif (req.url ~ \"^/private\") { return (synth(403, \"no\")); }\n}",
        &["/private"],
    ),
    (
        "sub vcl_recv {\nif (req.url ~ \"[.]sql$\") { return (synth(403, \"no\")); }\n}",
        &["sql"],
    ),
    (
        "sub vcl_recv {\nif (req.url ~ \"^/old/\") { return (pass); }\nif (req.url ~ \"^/old\") { return (synth(403)); }\n}",
        &["/old"],
    ),
    (
        "acl office { \"192.0.2.0\"/24; }\nsub vcl_recv {\nif (req.url ~ \"^/docs\" && client.ip !~ office) { return (synth(403)); }\n}",
        &["/docs"],
    ),
    (
        "sub vcl_recv {\nif (req.http.cookie ~ \"wordpress_logged_in\") { return (pass); }\n}",
        &[],
    ),
];

#[test]
fn statements_of_vcl_that_are_carried_answer_as_in_varnish() {
    let Some(program) = installed("varnishd") else {
        return;
    };
    for (own, paths) in PROGRAMS {
        let scratch = Scratch::new().unwrap();
        let origin = origin();
        let port = free_port().unwrap();
        let text = format!(
            "vcl 4.1;\nbackend default {{ .host = \"127.0.0.1\"; .port = \"{}\"; }}\n{own}\n",
            origin.addr().port()
        );
        let main = scratch.write("default.vcl", &text).unwrap();
        let mut command = Command::new(program);
        command
            .args(["-F", "-j", "none", "-a", &format!("127.0.0.1:{port}"), "-f"])
            .arg(&main);
        command.arg("-n").arg(scratch.join("varnish"));
        let varnish = Running::start(&mut command, port, scratch.path());
        let imported = import(&Disk, &[(ServerKind::Varnish, main)]);
        let listen = format!(
            "[server]\nlisten = [\"127.0.0.1:0\"]\n{}",
            imported.configuration
        );
        let galley = Galley::start(&scratch.join("galley"), &listen).unwrap();
        let mut clients = [Client::new(varnish.addr), Client::new(galley.addr())];
        let mut compared = Compared::new(&imported, scratch.path());
        for target in TARGETS {
            compared.request(
                &mut clients,
                ("a.test", target),
                (1, text.lines().count()),
                paths,
            );
        }
        compared.finish("Varnish", TARGETS.len());
    }
}

/// The program, or `None` with a line that says so.
fn installed(name: &str) -> Option<&'static Path> {
    let paths: &[&str] = match name {
        "caddy" => &["/usr/bin/caddy"],
        _ => &["/usr/sbin/varnishd", "/usr/bin/varnishd"],
    };
    let found = paths.iter().map(Path::new).find(|path| path.exists());
    if found.is_none() {
        println!("SKIPPED: {name} is not installed");
    }
    found
}

fn origin() -> Origin {
    Origin::start(|request, writer| {
        let body = format!("origin {}\n", request.target);
        let fields = [("Content-Type", "text/plain"), ("X-B", "of the origin")];
        writer.respond(200, &fields, body.as_bytes());
    })
    .unwrap()
}

/// A server that ends with the test.
struct Running {
    child: Child,
    addr: SocketAddr,
}

impl Running {
    fn start(command: &mut Command, port: u16, folder: &Path) -> Self {
        let log = fs::File::create(folder.join("server.log")).unwrap();
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        let mut child = command.spawn().unwrap();
        let addr = SocketAddr::from(([127, 0, 0, 1], port));
        let deadline = Instant::now() + Duration::from_secs(120);
        while TcpStream::connect(addr).is_err() {
            let log = || fs::read_to_string(folder.join("server.log")).unwrap_or_default();
            assert!(child.try_wait().unwrap().is_none(), "it ended: {}", log());
            assert!(Instant::now() < deadline, "it does not answer: {}", log());
            std::thread::sleep(Duration::from_millis(50));
        }
        Self { child, addr }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Compared<'i> {
    imported: &'i Imported,
    root: &'i Path,
    requests: usize,
    equal: usize,
    faults: Vec<String>,
}

impl<'i> Compared<'i> {
    fn new(imported: &'i Imported, root: &'i Path) -> Self {
        Self {
            imported,
            root,
            requests: 0,
            equal: 0,
            faults: Vec::new(),
        }
    }

    /// Sends a request to both. `lines`: those of the statements that may take part, about `paths`.
    fn request(
        &mut self,
        clients: &mut [Client; 2],
        (host, target): (&str, &str),
        lines: (usize, usize),
        paths: &[&str],
    ) {
        self.requests += 1;
        let [theirs, ours] = clients.each_mut().map(|client| client.get(host, target));
        let mut found = differences(&theirs, &ours, host);
        // Header rules also apply to errors and redirects.
        if theirs.as_ref().is_some_and(|theirs| theirs.status != 200) {
            found.retain(|one| *one == Difference::Answer);
        }
        if found.is_empty()
            || is_stricter(target, &theirs, &ours, self.root)
            || is_page(target, &theirs, &ours)
        {
            self.equal += 1;
            return;
        }
        let is_lost = self.imported.statements.iter().any(|one| {
            (lines.0..=lines.1).contains(&one.origin.line)
                && matches!(one.outcome, StatementOutcome::NotCarried(_))
        });
        if !(is_lost && paths.iter().any(|path| target.contains(path))) {
            self.faults.push(format!(
                "{host} {target}: {found:?}\ntheirs: {}\nours: {}\n{}",
                excerpt(&theirs),
                excerpt(&ours),
                self.imported.configuration
            ));
        }
    }

    fn finish(self, name: &str, wanted: usize) {
        println!("{name}: {} requests, {} equal", self.requests, self.equal);
        assert!(self.faults.is_empty(), "{}", self.faults.join("\n\n"));
        assert_eq!(self.requests, wanted);
        assert!(self.equal * 2 >= self.requests);
    }
}

/// Whether Galley sends the page of a folder, or both have no file: Caddy's `php_fastcgi` asks index.php for folders without one, and for scripts that do not exist.
fn is_page(target: &str, theirs: &Answered, ours: &Answered) -> bool {
    let status = |answered: &Answered| answered.as_ref().map_or(0, |answer| answer.status);
    let is_folder = |path: &str| !path.rsplit('/').next().unwrap_or_default().contains('.');
    let is_index = |answered: &Answered| {
        let text = answered.as_ref().map(Response::text);
        text.is_some_and(|text| text.contains("/index.html"))
    };
    is_folder(target) && is_index(ours)
        || is_folder(target) && matches!((status(theirs), status(ours)), (404 | 308, 404 | 301))
}
