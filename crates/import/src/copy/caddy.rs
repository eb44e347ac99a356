//! Caddy: its own options for other ports and another folder, before the sites as they are.

use std::path::Path;

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
    let (plain, tls) = (builder.port("80", false)?, builder.port("443", true)?);
    let storage = builder.file("caddy");
    let options = format!(
        "\tadmin off\n\thttp_port {plain}\n\thttps_port {tls}\n\tdefault_bind 127.0.0.1\n\tlocal_certs\n\tskip_install_trust\n\
         \tstorage file_system {storage:?}\n"
    );
    builder.change("the certificates are some of the test");
    let (comments, rest) = split_comments(&text);
    let Some(block) = rest.strip_prefix('{') else {
        return Ok(format!("{comments}{{\n{options}}}\n{rest}"));
    };
    let (own, sites) = block.split_once("\n}").unwrap_or((block, ""));
    let kept: Vec<&str> = own.lines().filter(|line| !is_replaced(line)).collect();
    Ok(format!(
        "{comments}{{\n{options}{}\n}}{sites}",
        kept.join("\n")
    ))
}

/// What stands before the first word.
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
    use super::*;

    #[test]
    fn comments_come_before_options() {
        assert_eq!(split_comments("# a\n\n {\n}"), ("# a\n\n ", "{\n}"));
        assert_eq!(split_comments("a.com {"), ("", "a.com {"));
        assert!(is_replaced("\tadmin localhost:2019") && !is_replaced("\torder a before b"));
    }
}
