//! Caddy: global options for other ports and another folder, before the sites, which only get other ports.

use std::path::Path;

use crate::caddy::SiteAddress;
use crate::copy::builder::{CopyBuilder, CopyError};
use crate::source::Source;

/// The text of the copy.
pub(super) fn text(
    source: &dyn Source,
    main: &Path,
    builder: &mut CopyBuilder<'_>,
) -> Result<String, CopyError> {
    let missing = || CopyError::NoServer(main.display().to_string());
    let text = source.text(main).ok_or_else(missing)?;
    let options = options(builder)?;
    builder.change("the certificates are some of the test");
    let (comments, rest) = split_comments(&text);
    let (own, sites) = match rest.strip_prefix('{') {
        Some(block) => block.split_once("\n}").unwrap_or((block, "")),
        None => ("", rest),
    };
    let kept: Vec<&str> = own.lines().filter(|line| !is_replaced(line)).collect();
    let (kept, sites) = (kept.join("\n"), with_other_ports(sites, builder)?);
    Ok(format!("{comments}{{\n{options}{kept}\n}}\n{sites}"))
}

/// The global options of the copy.
fn options(builder: &mut CopyBuilder<'_>) -> Result<String, CopyError> {
    let (plain, tls) = (builder.port("80", false)?, builder.port("443", true)?);
    let storage = builder.file("caddy");
    Ok(format!(
        "\tadmin off\n\thttp_port {plain}\n\thttps_port {tls}\n\tdefault_bind 127.0.0.1\n\tlocal_certs\n\tskip_install_trust\n\
         \tstorage file_system \"{storage}\"\n"
    ))
}

/// The sites with other ports in their addresses. Addresses without a port get the ports of the global options.
fn with_other_ports(sites: &str, builder: &mut CopyBuilder<'_>) -> Result<String, CopyError> {
    let mut copied = String::new();
    let mut depth = 0_usize;
    for line in sites.lines() {
        let bare = line.trim();
        let is_of_sites = depth == 0 && !bare.is_empty() && !bare.starts_with(['#', '(', '{', '}']);
        if is_of_sites && !bare.starts_with("import ") {
            for word in bare.split_whitespace() {
                copied.push_str(&address(word, builder)?);
                copied.push(' ');
            }
        } else {
            copied.push_str(line);
        }
        copied.push('\n');
        // A file without braces has one site, whose addresses are in its first line.
        let is_head_alone = is_of_sites && !bare.ends_with(['{', ',']);
        depth += usize::from(bare == "{" || bare.ends_with(" {") || is_head_alone);
        depth -= usize::from(bare == "}" && depth > 0);
    }
    Ok(copied)
}

/// Replaces the port in a word of a site's addresses.
fn address(word: &str, builder: &mut CopyBuilder<'_>) -> Result<String, CopyError> {
    let (bare, comma) = match word.strip_suffix(',') {
        Some(bare) => (bare, ","),
        None => (word, ""),
    };
    let address = SiteAddress::of(bare);
    let Some(port) = address.port else {
        return Ok(word.to_owned());
    };
    let is_tls =
        port == 443 || address.scheme != Some("http") && port != 80 && !address.host.is_empty();
    let port = builder.port(&port.to_string(), is_tls)?;
    let scheme = address
        .scheme
        .map_or(String::new(), |scheme| format!("{scheme}://"));
    Ok(format!(
        "{scheme}{}:{port}{}{comma}",
        address.host, address.path
    ))
}

/// Splits a text before its first word, after comments and empty lines.
fn split_comments(text: &str) -> (&str, &str) {
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let bare = line.trim();
        if !bare.is_empty() && !bare.starts_with('#') {
            at += line.len() - line.trim_start().len();
            break;
        }
        at += line.len();
    }
    text.split_at(at)
}

fn is_replaced(line: &str) -> bool {
    let name = line.split_whitespace().next().unwrap_or_default();
    [
        "admin",
        "http_port",
        "https_port",
        "default_bind",
        "local_certs",
        "skip_install_trust",
        "storage",
        "email",
        "acme_ca",
        "acme_eab",
        "acme_dns",
    ]
    .contains(&name)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::copy::CopyWorkspace;

    #[test]
    fn ports_in_addresses_are_replaced() {
        let workspace = CopyWorkspace {
            folder: PathBuf::from("/t"),
            ports: vec![1001, 1002, 1003],
            cert: PathBuf::from("/t/c"),
            key: PathBuf::from("/t/k"),
        };
        let mut builder = CopyBuilder::new(&workspace);
        let sites = "a.test, http://b.test:81 {\n\tredir https://c.test:443{uri}\n}\n(common) {\n}\nd.test:8443/x {\n}\n:81 {\n}\n";
        assert_eq!(
            with_other_ports(sites, &mut builder).unwrap(),
            "a.test, http://b.test:1001 { \n\tredir https://c.test:443{uri}\n}\n(common) {\n}\nd.test:1002/x { \n}\n:1001 { \n}\n"
        );
        assert_eq!(
            with_other_ports(":82\nroot * /a:1", &mut builder).unwrap(),
            ":1003 \nroot * /a:1\n"
        );
        let tls: Vec<bool> = builder.listeners.iter().map(|one| one.is_tls).collect();
        assert_eq!(tls, [false, true, false]);
        assert!(with_other_ports(":83 {\n}", &mut builder).is_err());
    }

    #[test]
    fn comments_precede_the_options() {
        assert_eq!(split_comments("# a\n\n {\n}"), ("# a\n\n ", "{\n}"));
        assert_eq!(split_comments("a.com {"), ("", "a.com {"));
        assert!(is_replaced("\tadmin localhost:2019") && !is_replaced("\torder a before b"));
    }
}
