//! Detects everything on a machine that `galley setup` needs to know.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::certbot::{self, CertbotCertificate};
use super::host::VirtualHost;
use super::listeners::{self, PortOwner};
use super::machine::Machine;
use super::php_fpm::{self, FpmPool};
use super::wordpress::DetectedWordPress;
use super::{apache, nginx, processes};

/// A WordPress with the virtual hosts that serve its folder.
#[derive(Clone, Debug)]
pub struct DetectedSite {
    /// The WordPress.
    pub wordpress: DetectedWordPress,
    /// The virtual hosts with this root; those with PHP first.
    pub hosts: Vec<VirtualHost>,
}

/// The findings on a machine.
#[derive(Clone, Debug)]
pub struct Detection {
    /// Each WordPress once.
    pub sites: Vec<DetectedSite>,
    /// The pools of PHP-FPM.
    pub pools: Vec<FpmPool>,
    /// Whether a PHP-FPM program is installed that Galley could run.
    pub has_fpm_program: bool,
    /// The owners of ports 80 and 443.
    pub ports: Vec<PortOwner>,
    /// The certificates of certbot.
    pub certificates: Vec<CertbotCertificate>,
    /// Whether the package with its units and folders is installed.
    pub has_package: bool,
}

/// Examines a machine. `named`: consider only the WordPress in these folders. Blocks on the disk.
pub fn detect(machine: &Machine, named: &[PathBuf]) -> Detection {
    let processes = processes::all(machine);
    let mut hosts = nginx::virtual_hosts(machine, &processes);
    hosts.extend(apache::virtual_hosts(machine, &processes));
    let folders: BTreeSet<PathBuf> = if named.is_empty() {
        let served = hosts.iter().filter_map(|host| host.root.clone());
        let usual = DEFAULT_PATHS
            .iter()
            .flat_map(|p| machine.matching(Path::new(p)));
        let folders = served
            .chain(usual)
            .filter(|folder| machine.is_folder(folder));
        folders.map(|folder| real(machine, &folder)).collect()
    } else {
        named.iter().cloned().collect()
    };
    let sites = folders
        .iter()
        .filter_map(|folder| DetectedWordPress::at(machine, folder))
        // Debian's package is useful only with a configuration in /etc/wordpress.
        .filter(|found| found.config.is_some() || !named.is_empty())
        .map(|wordpress| {
            let is_own = |host: &&VirtualHost| {
                let root = host.root.as_ref();
                root.is_some_and(|root| real(machine, root) == real(machine, &wordpress.root))
            };
            let mut of_site: Vec<VirtualHost> = hosts.iter().filter(is_own).cloned().collect();
            of_site.sort_by_key(|host| host.php.is_none());
            DetectedSite {
                wordpress,
                hosts: of_site,
            }
        })
        .collect();
    Detection {
        sites,
        pools: php_fpm::pools(machine, &processes),
        has_fpm_program: PROGRAMS
            .iter()
            .any(|p| !machine.matching(Path::new(p)).is_empty()),
        ports: listeners::owners(machine, &processes, &[80, 443]),
        certificates: certbot::certificates(machine),
        has_package: UNITS.iter().any(|unit| machine.is_file(Path::new(unit))),
    }
}

/// The folder with links resolved, as a path of the machine.
fn real(machine: &Machine, folder: &Path) -> PathBuf {
    let top = machine.path(Path::new("/"));
    let canonical = machine.path(folder).canonicalize();
    let inner = canonical.ok().and_then(|canonical| {
        let top = top.canonicalize().ok()?;
        canonical
            .strip_prefix(top)
            .ok()
            .map(|inner| Path::new("/").join(inner))
    });
    inner.unwrap_or_else(|| folder.to_owned())
}

/// The usual folders of WordPress on distributions, control panels and images.
const DEFAULT_PATHS: &[&str] = &[
    "/var/www",
    "/var/www/*",
    "/var/www/*/*",
    "/srv/www/*",
    "/srv/www/*/*",
    "/srv/http",
    "/srv/http/*",
    "/home/*/public_html",
    "/home/*/www",
    "/home/*/htdocs/*",
    "/usr/share/nginx/html",
    "/usr/share/wordpress",
    "/opt/bitnami/wordpress",
];

const PROGRAMS: &[&str] = &[
    "/usr/sbin/php-fpm*",
    "/usr/local/sbin/php-fpm*",
    "/usr/bin/php-fpm*",
];

const UNITS: &[&str] = &[
    "/usr/lib/systemd/system/galley.service",
    "/lib/systemd/system/galley.service",
    "/etc/systemd/system/galley.service",
];

#[cfg(test)]
mod tests {
    use super::super::machine::sample::SampleMachine;
    use super::*;

    #[test]
    fn a_machine_with_nginx_and_two_wordpresses() {
        let sample = SampleMachine::new(&[
            (
                "etc/nginx/nginx.conf",
                "http { server { listen 80; server_name a.com; root /srv/sites/a; location / { fastcgi_pass 127.0.0.1:9000; } }\
              server { listen 81; server_name a.com; root /srv/sites/a; return 301 /; } }",
            ),
            ("srv/sites/a/wp-load.php", ""),
            ("srv/sites/a/wp-config.php", ""),
            ("var/www/b/wp-load.php", ""),
            ("var/www/b/wp-config.php", ""),
            ("usr/share/wordpress/wp-load.php", ""),
            ("usr/sbin/php-fpm8.2", ""),
        ]);
        // The same folder under another name.
        sample.link("var/www/a", "../../srv/sites/a");
        let found = detect(&sample.machine(), &[]);
        let roots: Vec<_> = found
            .sites
            .iter()
            .map(|s| (s.wordpress.root.to_str().unwrap(), s.hosts.len()))
            .collect();
        assert_eq!(roots, [("/srv/sites/a", 2), ("/var/www/b", 0)]);
        assert!(found.sites[0].hosts[0].php.is_some());
        assert!(found.has_fpm_program && !found.has_package);
        let one = detect(&sample.machine(), &["/var/www/b".into()]);
        assert_eq!(one.sites.len(), 1);
        assert_eq!(
            detect(&sample.machine(), &["/var/www".into()]).sites.len(),
            0
        );
    }

    #[test]
    fn an_empty_machine_has_nothing() {
        let sample = SampleMachine::new(&[]);
        let found = detect(&sample.machine(), &[]);
        assert!(found.sites.is_empty() && found.ports.is_empty() && found.pools.is_empty());
        assert!(sample.root().exists());
    }
}
