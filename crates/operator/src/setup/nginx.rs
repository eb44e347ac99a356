//! The virtual hosts in nginx's configuration.
//!
//! Reads only the directives that a first configuration of Galley needs: `listen`, `server_name`, `root`,
//! `fastcgi_pass`, `upstream`, certificates and `client_max_body_size`. Everything else is skipped.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use galley_certs::CertificateFiles;
use galley_import::{Directive, nginx_directives};

use super::host::{PhpBackend, VirtualHost, VirtualHostListen, WebServer, host_names};
use super::machine::Machine;
use super::processes::MachineProcess;

/// The virtual hosts of every running nginx, and of the installed configuration.
pub(super) fn virtual_hosts(machine: &Machine, processes: &[MachineProcess]) -> Vec<VirtualHost> {
    let running = processes.iter().filter(|process| process.name == "nginx");
    let configured = running.filter_map(|process| process.option("-c").map(PathBuf::from));
    machine
        .files_among(configured.chain(INSTALLED.iter().map(PathBuf::from)))
        .iter()
        .flat_map(|file| hosts_of(machine, file))
        .collect()
}

fn hosts_of(machine: &Machine, file: &Path) -> Vec<VirtualHost> {
    let directives = nginx_directives(machine, file);
    let mut blocks = Vec::new();
    find_blocks(&directives, &Inherited::default(), &mut blocks);
    let mut upstreams = HashMap::new();
    find_upstreams(&directives, &mut upstreams);
    blocks
        .iter()
        .map(|(block, inherited)| host(block, inherited, &upstreams))
        .collect()
}

/// The settings that a `server` inherits from the `http` block.
#[derive(Clone, Default)]
struct Inherited {
    root: Option<String>,
    request_body: Option<u64>,
}

impl Inherited {
    fn with(&self, block: &[Directive]) -> Self {
        let last = |name: &str| {
            let mut directives = block.iter().rev();
            let last = directives.find(|directive| directive.name() == name)?;
            last.arguments().first().map(String::as_str)
        };
        Self {
            root: last("root")
                .map(str::to_owned)
                .or_else(|| self.root.clone()),
            request_body: last("client_max_body_size")
                .and_then(size)
                .or(self.request_body),
        }
    }
}

fn find_blocks<'a>(
    all: &'a [Directive],
    inherited: &Inherited,
    found: &mut Vec<(&'a [Directive], Inherited)>,
) {
    let inherited = inherited.with(all);
    for directive in all {
        match directive.name() {
            "http" => find_blocks(directive.inner(), &inherited, found),
            "server" if !directive.inner().is_empty() => {
                found.push((directive.inner(), inherited.with(directive.inner())));
            }
            _ => {}
        }
    }
}

fn find_upstreams<'a>(all: &'a [Directive], found: &mut HashMap<&'a str, &'a str>) {
    for directive in all {
        if directive.name() == "upstream" {
            let mut servers = directive.inner().iter();
            if let Some(server) = servers.find(|inner| inner.name() == "server") {
                found.insert(directive.argument(0), server.argument(0));
            }
        } else if directive.name() == "http" {
            find_upstreams(directive.inner(), found);
        }
    }
}

fn host(
    block: &[Directive],
    inherited: &Inherited,
    upstreams: &HashMap<&str, &str>,
) -> VirtualHost {
    let path = |name: &'static str| named(block, name).find_map(|one| absolute(one.argument(0)));
    let certificate = path("ssl_certificate").zip(path("ssl_certificate_key"));
    let names = named(block, "server_name").flat_map(Directive::arguments);
    let root = inherited.root.as_deref().and_then(absolute);
    VirtualHost {
        server: WebServer::Nginx,
        listen: listeners(block),
        names: names.flat_map(|name| host_names(name)).collect(),
        root: root.or_else(|| location_root(block)),
        certificate: certificate.map(|(cert, key)| CertificateFiles { cert, key }),
        php: fastcgi(block, upstreams),
        request_body: inherited.request_body,
    }
}

fn named<'b>(block: &'b [Directive], name: &'static str) -> impl Iterator<Item = &'b Directive> {
    block.iter().filter(move |one| one.name() == name)
}

/// The listeners of a host; port 80 if it has no `listen`.
fn listeners(block: &[Directive]) -> Vec<VirtualHostListen> {
    let is_tls = named(block, "ssl").any(|one| one.argument(0) == "on");
    if named(block, "listen").next().is_none() {
        return vec![VirtualHostListen {
            ip: None,
            port: 80,
            is_tls,
        }];
    }
    named(block, "listen")
        .filter_map(|one| address(one.arguments(), is_tls))
        .collect()
}

/// The root in `location /`, for configurations that have it only there.
fn location_root(block: &[Directive]) -> Option<PathBuf> {
    let mut locations = block.iter().filter(|one| one.name() == "location");
    let location = locations.find(|one| one.argument(0) == "/")?;
    let mut roots = location.inner().iter().filter(|one| one.name() == "root");
    roots.find_map(|one| absolute(one.argument(0)))
}

/// The first `fastcgi_pass` in the block or in nested blocks.
fn fastcgi(block: &[Directive], upstreams: &HashMap<&str, &str>) -> Option<PhpBackend> {
    block.iter().find_map(|one| {
        if one.name() == "fastcgi_pass" {
            let target = one.argument(0);
            return php_backend(upstreams.get(target).copied().unwrap_or(target));
        }
        fastcgi(one.inner(), upstreams)
    })
}

fn php_backend(target: &str) -> Option<PhpBackend> {
    if let Some(path) = target.strip_prefix("unix:") {
        return absolute(path.trim_end_matches(':')).map(PhpBackend::Unix);
    }
    let (host, port) = target.rsplit_once(':')?;
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b".-[]:".contains(&b);
    let is_host = !host.is_empty() && host.bytes().all(is_plain);
    (is_host && port.parse::<u16>().is_ok()).then(|| PhpBackend::Tcp(target.to_owned()))
}

/// Parses `listen [address:]port [ssl] ...`; ignores unix sockets, which are not for visitors.
fn address(words: &[String], is_tls: bool) -> Option<VirtualHostListen> {
    let text = words.first()?;
    let is_tls = is_tls || words.iter().skip(1).any(|word| word == "ssl");
    let whole = |ip, port| Some(VirtualHostListen { ip, port, is_tls });
    if let Ok(port) = text.parse() {
        return whole(None, port);
    }
    if let Some(port) = text.strip_prefix("*:") {
        return whole(None, port.parse().ok()?);
    }
    if let Ok(address) = text.parse::<std::net::SocketAddr>() {
        return whole(Some(address.ip()), address.port());
    }
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    if let Ok(ip) = bare.parse() {
        return whole(Some(ip), 80);
    }
    let port = match text.strip_prefix("localhost")?.strip_prefix(':') {
        Some(port) => port.parse().ok()?,
        None => 80,
    };
    whole(Some(std::net::Ipv4Addr::LOCALHOST.into()), port)
}

/// An absolute path without variables.
fn absolute(path: &str) -> Option<PathBuf> {
    (path.starts_with('/') && !path.contains('$')).then(|| PathBuf::from(path))
}

/// Parses a size such as `64m`; `None` for 0, which means no limit.
fn size(text: &str) -> Option<u64> {
    let lower = text.to_ascii_lowercase();
    let (number, unit) = match lower.strip_suffix(['k', 'm', 'g']) {
        Some(number) => (number, lower.chars().last()?),
        None => (lower.as_str(), ' '),
    };
    let factor: u64 = match unit {
        'k' => 1 << 10,
        'm' => 1 << 20,
        'g' => 1 << 30,
        _ => 1,
    };
    number
        .parse::<u64>()
        .ok()?
        .checked_mul(factor)
        .filter(|bytes| *bytes > 0)
}

/// The main files of packages, of builds from source, and of `OpenResty`.
const INSTALLED: &[&str] = &[
    "/etc/nginx/nginx.conf",
    "/usr/local/nginx/conf/nginx.conf",
    "/usr/local/etc/nginx/nginx.conf",
    "/usr/local/openresty/nginx/conf/nginx.conf",
];

#[cfg(test)]
mod tests {
    use super::super::machine::sample::SampleMachine;
    use super::super::processes;
    use super::*;
    use proptest::prelude::*;

    const MAIN: &str = "events {}\nhttp {\n  client_max_body_size 64m;\n  upstream php { server unix:/run/php/www.sock; }\n\
        include sites-enabled/*;\n}\n";
    const SITE: &str = r#"
        # the redirect
        server { listen 80; listen [::]:80; server_name example.com www.example.com; return 301 https://$host$request_uri; }
        server {
            listen 443 ssl http2; listen [::]:443 ssl http2;
            server_name "example.com" .www.example.com _;
            root /var/www/example.com;
            ssl_certificate /etc/letsencrypt/live/example.com/fullchain.pem;
            ssl_certificate_key /etc/letsencrypt/live/example.com/privkey.pem;
            location ~ \.php$ { try_files $uri =404; fastcgi_param X "a;}b"; fastcgi_pass php; }
        }"#;

    #[test]
    fn a_site_with_tls_and_php() {
        let sample = SampleMachine::new(&[
            ("etc/nginx/nginx.conf", MAIN),
            ("etc/nginx/sites-enabled/example.com", SITE),
        ]);
        let hosts = virtual_hosts(&sample.machine(), &[]);
        assert_eq!(hosts.len(), 2);
        let site = &hosts[1];
        assert_eq!(
            site.names,
            ["example.com", "www.example.com", "*.www.example.com"]
        );
        assert_eq!(
            site.root.as_deref(),
            Some(Path::new("/var/www/example.com"))
        );
        assert_eq!(site.php, Some(PhpBackend::Unix("/run/php/www.sock".into())));
        assert_eq!(site.request_body, Some(64 << 20));
        let listen: Vec<_> = site
            .listen
            .iter()
            .map(|l| (l.reachable().to_string(), l.is_tls))
            .collect();
        assert_eq!(
            listen,
            [
                ("127.0.0.1:443".to_owned(), true),
                ("[::1]:443".to_owned(), true)
            ]
        );
        let key = site.certificate.as_ref().map(|files| files.key.clone());
        assert_eq!(
            key,
            Some("/etc/letsencrypt/live/example.com/privkey.pem".into())
        );
        assert_eq!(hosts[0].php, None);
    }

    #[test]
    fn a_running_nginx_names_its_own_file() {
        let sample = SampleMachine::new(&[
            ("proc/9/comm", "nginx\n"),
            (
                "proc/9/cmdline",
                "nginx: master process nginx -c /srv/n.conf",
            ),
            (
                "srv/n.conf",
                "http { server { root /srv/w; location / { } include more; } }",
            ),
            (
                "srv/more",
                "listen 127.0.0.1:8081; fastcgi_pass 127.0.0.1:9000;",
            ),
        ]);
        let machine = sample.machine();
        let hosts = virtual_hosts(&machine, &processes::all(&machine));
        assert_eq!(hosts.len(), 1);
        assert_eq!(hosts[0].listen[0].reachable().to_string(), "127.0.0.1:8081");
        assert_eq!(
            hosts[0].php,
            Some(PhpBackend::Tcp("127.0.0.1:9000".to_owned()))
        );
    }

    #[test]
    fn files_that_include_themselves_end() {
        let sample = SampleMachine::new(&[(
            "etc/nginx/nginx.conf",
            "include *.conf; include nginx.conf; http { server { root /w; } }",
        )]);
        assert!(!virtual_hosts(&sample.machine(), &[]).is_empty());
    }

    proptest! {
        #[test]
        fn any_tokens_are_parsed_without_panic(text in "(server|http|listen|root|[{};'\"#\\\\$ \n]|/w|443){0,80}") {
            let sample = SampleMachine::new(&[("etc/nginx/nginx.conf", &text)]);
            let _ = virtual_hosts(&sample.machine(), &[]);
        }
    }
}
