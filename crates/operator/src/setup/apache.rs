//! The virtual hosts in Apache's configuration.
//!
//! Reads only the directives that a first configuration of Galley needs. Conditions (`<IfModule>`) count as true.

use std::path::{Path, PathBuf};

use galley_certs::CertificateFiles;
use galley_import::{Directive, apache_directives};

use super::host::{PhpBackend, VirtualHost, VirtualHostListen, WebServer, host_names};
use super::machine::Machine;
use super::processes::MachineProcess;

/// The virtual hosts of every running Apache, and of the installed configuration.
pub(super) fn virtual_hosts(machine: &Machine, processes: &[MachineProcess]) -> Vec<VirtualHost> {
    let is_apache = |process: &&MachineProcess| matches!(&*process.name, "apache2" | "httpd");
    let running = processes.iter().filter(is_apache);
    let configured = running.filter_map(|process| {
        let folder = process.option("-d").unwrap_or("/etc/apache2");
        Some(Path::new(folder).join(process.option("-f")?))
    });
    machine
        .files_among(configured.chain(INSTALLED.iter().map(PathBuf::from)))
        .iter()
        .flat_map(|file| hosts_of(machine, file))
        .collect()
}

fn hosts_of(machine: &Machine, file: &Path) -> Vec<VirtualHost> {
    let mut reader = HostReader::default();
    reader.directives(&apache_directives(machine, file));
    let main = reader.main;
    if main.root.is_some() {
        reader.done.push(main.clone());
    }
    let done = reader.done.into_iter();
    done.map(|draft| draft.host(&main)).collect()
}

/// The directives of a virtual host, or of the server as a whole.
#[derive(Clone, Default)]
struct HostDraft {
    addresses: Vec<VirtualHostListen>,
    names: Vec<String>,
    root: Option<PathBuf>,
    cert: Option<PathBuf>,
    key: Option<PathBuf>,
    is_tls: bool,
    php: Option<PhpBackend>,
    request_body: Option<u64>,
}

#[derive(Default)]
struct HostReader {
    main: HostDraft,
    current: Option<HostDraft>,
    done: Vec<HostDraft>,
}

impl HostReader {
    fn directives(&mut self, all: &[Directive]) {
        for one in all {
            if one.name() == "<virtualhost" {
                let addresses = one.arguments().iter().filter_map(|text| address(text));
                self.current = Some(HostDraft {
                    addresses: addresses.collect(),
                    ..HostDraft::default()
                });
                self.directives(one.inner());
                self.done.extend(self.current.take());
            } else {
                self.directive(one.name(), one.arguments());
                self.directives(one.inner());
            }
        }
    }

    fn directive(&mut self, name: &str, arguments: &[String]) {
        let is_main = self.current.is_none();
        let draft = self.current.as_mut().unwrap_or(&mut self.main);
        let first = arguments.first().map_or("", String::as_str);
        let path = || first.starts_with('/').then(|| PathBuf::from(first));
        match name {
            "loadmodule" if first.starts_with("php") => {
                self.main.php.get_or_insert(PhpBackend::Module);
            }
            "listen" if is_main => draft.addresses.extend(address(first)),
            "servername" | "serveralias" => {
                let bare = |name: &String| {
                    let name = name
                        .rsplit_once("://")
                        .map_or(name.as_str(), |(_, host)| host);
                    name.split(':').next().unwrap_or_default().to_owned()
                };
                let names = arguments.iter().map(bare);
                draft.names.extend(names.flat_map(|name| host_names(&name)));
            }
            "documentroot" => draft.root = path(),
            "sslcertificatefile" => draft.cert = path(),
            "sslcertificatekeyfile" => draft.key = path(),
            "sslengine" => draft.is_tls = first.eq_ignore_ascii_case("on"),
            "limitrequestbody" => draft.request_body = first.parse().ok().filter(|n| *n > 0),
            // `SetHandler "proxy:unix:/run/php/x.sock|fcgi://localhost"`; ProxyPassMatch has the same targets.
            "sethandler" | "proxypassmatch" | "proxypass" => {
                let target = arguments.iter().find_map(|argument| php_backend(argument));
                // PHP-FPM for all hosts has precedence over a module that is loaded as well.
                if target.is_some() {
                    draft.php = target;
                }
            }
            _ => {}
        }
    }
}

impl HostDraft {
    fn host(self, main: &Self) -> VirtualHost {
        let is_tls = self.is_tls || self.cert.is_some();
        let listen = self
            .addresses
            .iter()
            .map(|listen| VirtualHostListen { is_tls, ..*listen });
        // Debian's default certificate is in one file.
        let key = self.key.or_else(|| self.cert.clone());
        VirtualHost {
            server: WebServer::Apache,
            listen: listen.collect(),
            names: self.names,
            root: self.root.or_else(|| main.root.clone()),
            certificate: self
                .cert
                .zip(key)
                .map(|(cert, key)| CertificateFiles { cert, key }),
            php: self.php.or_else(|| main.php.clone()),
            request_body: self.request_body.or(main.request_body),
        }
    }
}

/// Parses `*:80`, `_default_:443`, `192.0.2.1:80`, `[::1]:80`, `80`.
fn address(text: &str) -> Option<VirtualHostListen> {
    let whole = |ip, port| {
        Some(VirtualHostListen {
            ip,
            port,
            is_tls: false,
        })
    };
    if let Ok(port) = text.parse() {
        return whole(None, port);
    }
    if let Ok(address) = text.parse::<std::net::SocketAddr>() {
        return whole(Some(address.ip()), address.port());
    }
    if let Ok(ip) = text.trim_matches(['[', ']']).parse() {
        return whole(Some(ip), 80);
    }
    let (_, port) = text.rsplit_once(':').unwrap_or(("*", "80"));
    whole(None, port.parse().ok()?)
}

/// Parses `proxy:unix:/run/php.sock|fcgi://localhost` and `fcgi://127.0.0.1:9000/path`.
fn php_backend(target: &str) -> Option<PhpBackend> {
    let target = target.strip_prefix("proxy:").unwrap_or(target);
    if let Some(rest) = target.strip_prefix("unix:") {
        let path = rest.split('|').next().unwrap_or(rest);
        return path.starts_with('/').then(|| PhpBackend::Unix(path.into()));
    }
    let address = target.strip_prefix("fcgi://")?.split('/').next()?;
    let (host, port) = address.rsplit_once(':')?;
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b".-[]:".contains(&b);
    let is_host = !host.is_empty() && host.bytes().all(is_plain);
    (is_host && port.parse::<u16>().is_ok()).then(|| PhpBackend::Tcp(address.to_owned()))
}

/// The main files of Debian, of Fedora, and of a build from source.
const INSTALLED: &[&str] = &[
    "/etc/apache2/apache2.conf",
    "/etc/httpd/conf/httpd.conf",
    "/usr/local/apache2/conf/httpd.conf",
];

#[cfg(test)]
mod tests {
    use super::super::machine::sample::SampleMachine;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn hosts_with_a_module_and_with_php_fpm() {
        let sample = SampleMachine::new(&[
            (
                "etc/apache2/apache2.conf",
                "Define BASE /var/www\nInclude ports.conf\nIncludeOptional mods-enabled/*.load\nIncludeOptional sites-enabled/*.conf\n",
            ),
            (
                "etc/apache2/ports.conf",
                "Listen 80\n<IfModule ssl_module>\n\tListen 443\n</IfModule>\n",
            ),
            (
                "etc/apache2/mods-enabled/php8.2.load",
                "LoadModule php_module /usr/lib/libphp8.2.so\n",
            ),
            (
                "etc/apache2/sites-enabled/a.conf",
                "<VirtualHost *:80>\n ServerName Example.com:80\n ServerAlias www.example.com \\\n  m.example.com\n DocumentRoot \"${BASE}/a\"\n</VirtualHost>\n",
            ),
            (
                "etc/apache2/sites-enabled/b.conf",
                "<VirtualHost 192.0.2.1:443 [::1]:443>\nServerName b.example.com\nDocumentRoot ${BASE}/b\n\
              <FilesMatch \\.php$>\n SetHandler \"proxy:unix:/run/php/b.sock|fcgi://localhost\"\n</FilesMatch>\nSSLEngine on\nSSLCertificateFile /etc/b.pem\nSSLCertificateKeyFile /etc/b.key\n</VirtualHost>\n",
            ),
        ]);
        let hosts = virtual_hosts(&sample.machine(), &[]);
        assert_eq!(hosts.len(), 2);
        assert_eq!(
            hosts[0].names,
            ["example.com", "www.example.com", "m.example.com"]
        );
        assert_eq!(hosts[0].root.as_deref(), Some(Path::new("/var/www/a")));
        assert_eq!(hosts[0].php, Some(PhpBackend::Module));
        assert_eq!(hosts[0].listen[0].reachable().to_string(), "127.0.0.1:80");
        assert_eq!(
            hosts[1].php,
            Some(PhpBackend::Unix("/run/php/b.sock".into()))
        );
        assert!(hosts[1].listen.iter().all(|listen| listen.is_tls));
        assert_eq!(hosts[1].listen.len(), 2);
        assert!(hosts[1].certificate.is_some());
    }

    #[test]
    fn files_that_include_themselves_end() {
        let sample = SampleMachine::new(&[(
            "etc/apache2/apache2.conf",
            "Include *.conf\nInclude apache2.conf\nDocumentRoot /w\n",
        )]);
        assert!(!virtual_hosts(&sample.machine(), &[]).is_empty());
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_without_panic(text in "(?s).{0,200}", lines in "(<VirtualHost|</VirtualHost>|Listen|Define|Include|[a-z$\\{\\}\"' >\n]){0,60}") {
            let sample = SampleMachine::new(&[("etc/apache2/apache2.conf", &format!("{text}\n{lines}"))]);
            let _ = virtual_hosts(&sample.machine(), &[]);
        }
    }
}
