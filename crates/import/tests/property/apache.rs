//! The same comparison with Apache: random virtual hosts, each with a `.htaccess`, on the real Apache with PHP-FPM and on Galley.
//!
//! `GALLEY_IMPORT_HOSTS=2000` runs the long form.

use std::collections::BTreeMap;
use std::fs;

use galley_import::{Imported, ServerKind, StatementOutcome, import};
use galley_testkit::origin::Origin;
use galley_testkit::{Apache, ApacheOptions, FpmOptions, Galley, PhpFpm, Scratch};

use crate::apache_generator::{ApachePlaces, VirtualHost, virtual_host};
use crate::generator::{Random, Text};
use crate::{
    Client, Difference, Disk, MAX_FAULTS, Totals, compare, differences, excerpt, files,
    is_stricter, site_of,
};

#[test]
fn directives_that_are_carried_or_not_needed_answer_as_in_apache() {
    compare("GALLEY_IMPORT_HOSTS", 100, BATCH, run);
}

/// The hosts of one Apache.
const BATCH: usize = 100;

fn run(count: usize, random: &mut Random, total: &mut Totals) {
    let scratch = Scratch::new().unwrap();
    let workers = FpmOptions {
        workers: 4,
        ..FpmOptions::default()
    };
    let php = PhpFpm::start(&scratch.join("php"), &workers).unwrap();
    let origin = Origin::start(|request, writer| {
        let body = format!("origin {}\n", request.target);
        writer.respond(200, &[("Content-Type", "text/plain")], body.as_bytes());
    })
    .unwrap();
    let address = php.address();
    let places = ApachePlaces {
        roots: scratch.join("roots").display().to_string(),
        php: match address.strip_prefix("unix:") {
            Some(_) => format!("{address}|fcgi://localhost"),
            None => format!("fcgi://{address}"),
        },
        origin: origin.addr().to_string(),
        users: scratch.join("users").display().to_string(),
    };
    files(&scratch, "roots/first");
    let mut text = Text::default();
    let hosts: Vec<VirtualHost> = (0..count)
        .map(|number| virtual_host(random, number, &places, &mut text))
        .collect();
    for (number, host) in hosts.iter().enumerate() {
        files(&scratch, &format!("roots/{number}"));
        fs::write(format!("{}/.htaccess", host.root), &host.htaccess).unwrap();
    }
    let options = ApacheOptions {
        extra: format!("{MODULES}{}", text.text.replace("{listen}", "*:*")),
        ..ApacheOptions::default()
    };
    let apache = Apache::start(
        &scratch.join("apache"),
        &scratch.join("roots/first"),
        &options,
    );
    let apache = apache.unwrap();
    let listen = apache.addr().to_string();
    let whole = text.text.replace("{listen}", &listen);
    let main = scratch.write("hosts.conf", whole).unwrap();
    let imported = import(&Disk, &[(ServerKind::Apache, main.clone())]);
    let configuration = imported.configuration.replace(&listen, "127.0.0.1:0");
    let galley = Galley::start(&scratch.join("galley"), &configuration).unwrap();
    let shares = imported.shares();
    total.statements += shares.all();
    total.settled += shares.all() - shares.not_carried;
    let lost = lost(&imported);
    let mut clients = [Client::new(apache.addr()), Client::new(galley.addr())];
    let lines: Vec<&str> = text.text.lines().collect();
    for host in &hosts {
        total.requests += host.targets.len();
        let compared = ComparedHost {
            host,
            main: main.display().to_string(),
            lines: &lines,
            lost: &lost,
        };
        if total.faults.len() < MAX_FAULTS
            && let Some(fault) = compared.fault(&mut clients, total)
        {
            let rules = site_of(&imported.configuration, &host.host);
            total.faults.push(format!("{fault}\n{rules}"));
        }
    }
}

/// Apache's modules besides those of the testkit, and the host of its own requests.
const MODULES: &str = "LoadModule proxy_module /usr/lib/apache2/modules/mod_proxy.so\n\
LoadModule proxy_fcgi_module /usr/lib/apache2/modules/mod_proxy_fcgi.so\n\
LoadModule proxy_http_module /usr/lib/apache2/modules/mod_proxy_http.so\n\
<VirtualHost *:*>\nServerName localhost\n</VirtualHost>\n";

/// Whether each line of each file has a directive that is not carried.
fn lost(imported: &Imported) -> BTreeMap<(String, usize), bool> {
    let mut lost = BTreeMap::new();
    for one in &imported.statements {
        let key = (one.origin.file.to_string(), one.origin.line);
        *lost.entry(key).or_default() |= matches!(one.outcome, StatementOutcome::NotCarried(_));
    }
    lost
}

struct ComparedHost<'t> {
    host: &'t VirtualHost,
    main: String,
    lines: &'t [&'t str],
    lost: &'t BTreeMap<(String, usize), bool>,
}

impl ComparedHost<'_> {
    /// The first difference that no directive explains.
    fn fault(&self, clients: &mut [Client; 2], total: &mut Totals) -> Option<String> {
        let host = self.host;
        for target in &host.targets {
            let [theirs, ours] = clients
                .each_mut()
                .map(|client| client.get(&host.host, target));
            let mut found = differences(&theirs, &ours, &host.host);
            // Apache adds fields to errors and redirects only with `always`.
            if theirs.as_ref().is_some_and(|theirs| theirs.status != 200) {
                found.retain(|one| *one == Difference::Answer);
            }
            if found.is_empty() || is_stricter(target, &theirs, &ours, host.root.as_ref()) {
                total.equal += 1;
                continue;
            }
            let Some(unexplained) = found.iter().find(|one| !self.explains(one, target)) else {
                total.reported += 1;
                continue;
            };
            let of_host = |one: &&crate::apache_generator::Placed| !one.is_htaccess;
            let own = host.placed.iter().filter(of_host);
            let own: Vec<String> = own
                .map(|one| self.lines[one.lines.0 - 1..one.lines.1].join("\n"))
                .collect();
            return Some(format!(
                "{} {target}: {unexplained:?}\nApache: {}\nGalley: {}\n{}\n-- .htaccess\n{}",
                host.host,
                excerpt(&theirs),
                excerpt(&ours),
                own.join("\n"),
                host.htaccess
            ));
        }
        None
    }

    /// Whether a directive that takes part in a difference is reported.
    fn explains(&self, difference: &Difference, target: &str) -> bool {
        let path = target.split('?').next().unwrap_or_default();
        let pages = [
            path.to_owned(),
            "/index.php".to_owned(),
            format!("{path}index.html"),
            format!("{path}index.php"),
            format!("{path}/"),
        ];
        // Only paths without the name of a file have pages.
        let is_page = !path.rsplit('/').next().unwrap_or_default().contains('.');
        let of_path = &pages[..if is_page { pages.len() } else { 1 }];
        let takes_part =
            |one: &&crate::apache_generator::Placed| of_path.iter().any(|path| one.reach.has(path));
        self.host.placed.iter().filter(takes_part).any(|one| {
            (one.lines.0..=one.lines.1).any(|line| {
                let (file, text) = if one.is_htaccess {
                    let text = self.host.htaccess.lines().nth(line - 1);
                    (format!("{}/.htaccess", self.host.root), text)
                } else {
                    (self.main.clone(), self.lines.get(line - 1).copied())
                };
                let is_lost = self.lost.get(&(file, line)) == Some(&true);
                is_lost && is_about(text.unwrap_or_default(), difference)
            })
        })
    }
}

/// Whether a directive may cause a difference.
fn is_about(line: &str, difference: &Difference) -> bool {
    let lower = line.to_ascii_lowercase();
    let is_field = lower.starts_with("header") || lower.starts_with("expires");
    match difference {
        Difference::Answer => !is_field,
        Difference::Field(name) if name == "cache-control" && lower.starts_with("expires") => true,
        Difference::Field(name) => {
            lower.starts_with("header") && lower.contains(name) || lower.starts_with('<')
        }
    }
}
