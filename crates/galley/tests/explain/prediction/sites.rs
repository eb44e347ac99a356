//! Generated sites: both presets, HTTP and FastCGI upstreams, options and rules.

use std::fmt::Write as _;

use super::random::Random;

/// A generated site.
pub struct GeneratedSite {
    pub host: String,
    /// Its `[[site]]`.
    pub text: String,
    /// Whether a rule of the site requires a password.
    pub has_password: bool,
}

/// Upstreams and files that the sites use.
pub struct SiteResources<'a> {
    /// The HTTP upstream: `http://127.0.0.1:port`.
    pub http: &'a str,
    /// The FastCGI upstream: `127.0.0.1:port`.
    pub fastcgi: &'a str,
    /// A folder with `index.php` and some files.
    pub root: &'a str,
    pub password_file: &'a str,
}

/// Generates [`SITES_PER_KIND`] sites for each combination of preset and upstream.
pub fn generate_sites(random: &mut Random, resources: &SiteResources<'_>) -> Vec<GeneratedSite> {
    let mut sites = Vec::new();
    for preset in ["wordpress", "none"] {
        for is_fastcgi in [false, true] {
            for _ in 0..SITES_PER_KIND {
                let host = format!("s{}.test", sites.len());
                sites.push(site(random, resources, &host, preset, is_fastcgi));
            }
        }
    }
    sites
}

fn site(
    random: &mut Random,
    resources: &SiteResources<'_>,
    host: &str,
    preset: &str,
    is_fastcgi: bool,
) -> GeneratedSite {
    let mut text = format!(
        "[[site]]\nhosts = [\"{host}\"]\npreset = \"{preset}\"\ncron = \"off\"\nlogin_limit = \"off\"\nxmlrpc_limit = \"off\"\n"
    );
    let _ = if is_fastcgi {
        writeln!(
            text,
            "root = \"{}\"\nphp = \"{}\"",
            resources.root, resources.fastcgi
        )
    } else if random.one_in(2) {
        writeln!(
            text,
            "root = \"{}\"\nupstream = [\"{}\"]",
            resources.root, resources.http
        )
    } else {
        writeln!(text, "upstream = [\"{}\"]", resources.http)
    };
    for values in OPTIONS {
        if random.one_in(3) {
            let _ = writeln!(text, "{}", random.choose(values));
        }
    }
    let mut has_password = false;
    for path in ["/y*", "/z*"] {
        for _ in 0..random.below(3) {
            let rule = random.choose(RULES);
            has_password |= rule.contains("PASSWORDS");
            let rule = rule.replace("PASSWORDS", resources.password_file);
            let _ = writeln!(text, "[[site.rule]]\npath = \"{path}\"\n{rule}");
        }
    }
    let _ = writeln!(text, "[site.ttl]\n\"302\" = \"600s\"");
    GeneratedSite {
        host: host.to_owned(),
        text,
        has_password,
    }
}

const SITES_PER_KIND: usize = 2;

/// Options, each with the lines to choose from.
const OPTIONS: &[&[&str]] = &[
    &["bypass_cookies = [\"member*\"]"],
    &["vary_cookies = [\"currency\"]"],
    &["harmless_cookies = [\"PHPSESSID\"]"],
    &["ignore_query = [\"ref\"]", "ignore_query = [\"*\"]"],
    &["device_variants = true"],
    &["esi = true"],
    &["purge_get = true"],
    &["purge_allow = []"],
];

const RULES: &[&str] = &[
    "cache = false",
    "ttl = \"600s\"",
    "ttl = \"600s\"\nignore = [\"cache-control\", \"expires\"]",
    "ignore = [\"cookie\"]",
    "ignore = [\"set-cookie\", \"vary\"]",
    "methods = [\"PROPFIND\"]",
    "methods = [\"GET\"]\ncache = false",
    "redirect = \"/x-m600-t0/\"",
    "stream = true",
    "deny = [\"127.0.0.0/8\"]",
    "allow = [\"10.0.0.0/8\"]",
    "basic_auth = \"PASSWORDS\"",
];
