//! A configuration made from a WordPress folder only.

use std::net::SocketAddr;
use std::path::Path;

use galley_policy::route::HostPattern;

use crate::check::shown_path;
use crate::diagnostic::{Diagnostics, SourceSpan};
use crate::listen::Listen;
use crate::tree::{Document, SiteTables};
use crate::upstream::UpstreamConfig;
use crate::value::ConfigValue;

/// One site for every host, from `dir`, with managed PHP, on `listen`; all other options have their defaults.
pub(crate) fn for_root(dir: &Path, listen: Option<SocketAddr>) -> Document {
    let mut diagnostics = Diagnostics::default();
    let source = diagnostics.add_source(dir, "");
    let whole = SourceSpan { source, span: None };
    let path = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
    if path.is_dir() && !FILES.iter().any(|name| path.join(name).is_file()) {
        let names = FILES.map(|name| format!("`{name}`")).join(", ");
        let dir = shown_path(dir);
        let message = format!("{dir} does not look like WordPress: it contains none of {names}");
        let help = "name the folder that contains WordPress, or write a configuration file";
        diagnostics.add(&whole, "root", message, help);
    }
    let mut document = Document::new(diagnostics, whole.clone());
    let mut site = SiteTables::new(&whole);
    let every_host = ConfigValue::List(vec![(whole.clone(), ConfigValue::Host(HostPattern::Any))]);
    for (name, value) in [
        ("hosts", every_host),
        ("root", ConfigValue::Path(path)),
        ("php", ConfigValue::Php(UpstreamConfig::Managed)),
    ] {
        site.options.set(name, whole.clone(), Some(value));
    }
    document.sites.push(site);
    if let Some(listen) = listen {
        let listen = ConfigValue::Listen(Listen::Tcp(listen));
        let listen = ConfigValue::List(vec![(whole.clone(), listen)]);
        document.server.set("listen", whole, Some(listen));
    }
    document
}

/// Every WordPress folder contains one of these files; `wp-config.php` may also be one level higher, so it does not suffice.
const FILES: [&str; 3] = ["wp-config.php", "wp-load.php", "index.php"];
