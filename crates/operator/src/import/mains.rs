//! The configurations to import: those that the options name, otherwise those in the usual places.

use std::path::{Path, PathBuf};

use galley_import::ServerKind;

use crate::options::ImportOptions;
use crate::setup::Machine;

/// The files that the options name, otherwise those in the usual places. The server that receives visitors' requests is first.
pub(super) fn mains(options: &ImportOptions, machine: &Machine) -> Vec<(ServerKind, PathBuf)> {
    let options_of_kinds = [
        (ServerKind::Nginx, &options.nginx),
        (ServerKind::Caddy, &options.caddy),
        (ServerKind::Varnish, &options.varnish),
        (ServerKind::Apache, &options.apache),
    ];
    let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mains: Vec<_> = options_of_kinds
        .iter()
        .flat_map(|(kind, paths)| paths.iter().map(|path| (*kind, absolute(path))))
        .collect();
    let guessed = options.path.iter();
    let guessed = guessed.map(|path| (kind_of(path), absolute(path)));
    let mains: Vec<_> = mains.into_iter().chain(guessed).collect();
    if !mains.is_empty() {
        return mains;
    }
    DEFAULT_PATHS
        .iter()
        .map(|(kind, path)| (*kind, PathBuf::from(path)))
        .filter(|(_, path)| machine.path(path).is_file())
        .collect()
}

/// The server that a file belongs to, by its name and folders, otherwise by its contents.
fn kind_of(path: &Path) -> ServerKind {
    let whole = path.to_string_lossy().to_ascii_lowercase();
    let name = whole.rsplit('/').next().unwrap_or_default();
    if name.rsplit_once('.').is_some_and(|(_, end)| end == "vcl") {
        return ServerKind::Varnish;
    }
    if name.contains("caddyfile") {
        return ServerKind::Caddy;
    }
    let is_apache = ["apache", "httpd", ".htaccess"]
        .iter()
        .any(|word| whole.contains(word));
    let says_apache =
        || std::fs::read_to_string(path).is_ok_and(|text| text.contains("<VirtualHost"));
    if is_apache || (!whole.contains("nginx") && says_apache()) {
        ServerKind::Apache
    } else {
        ServerKind::Nginx
    }
}

const DEFAULT_PATHS: &[(ServerKind, &str)] = &[
    (ServerKind::Nginx, "/etc/nginx/nginx.conf"),
    (ServerKind::Caddy, "/etc/caddy/Caddyfile"),
    (ServerKind::Varnish, "/etc/varnish/default.vcl"),
    // Varnish is called Vinyl Cache from version 9 on; its packages have this folder, its own build the second.
    (ServerKind::Varnish, "/etc/vinyl-cache/default.vcl"),
    (ServerKind::Varnish, "/etc/vinyl/default.vcl"),
    (ServerKind::Apache, "/etc/apache2/apache2.conf"),
    (ServerKind::Apache, "/etc/httpd/conf/httpd.conf"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_recognized_by_file_names() {
        for (path, kind) in [
            ("/etc/nginx/sites-enabled/a", ServerKind::Nginx),
            ("/etc/apache2/sites-enabled/a.conf", ServerKind::Apache),
            ("/etc/httpd/conf/httpd.conf", ServerKind::Apache),
            ("/var/www/.htaccess", ServerKind::Apache),
            ("/etc/varnish/default.vcl", ServerKind::Varnish),
            ("/etc/vinyl-cache/default.vcl", ServerKind::Varnish),
            ("/etc/vinyl/default.vcl", ServerKind::Varnish),
            ("Caddyfile", ServerKind::Caddy),
            ("/home/me/site.conf", ServerKind::Nginx),
        ] {
            assert_eq!(kind_of(Path::new(path)), kind, "{path}");
        }
    }
}
