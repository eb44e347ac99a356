//! Keys that identify the addresses on which a server listens.

/// `80` for all addresses with this port, `192.0.2.1:80` for one address. `None` for a unix socket.
pub(crate) fn listen_key(text: &str, default_port: &str) -> Option<String> {
    if text.starts_with("unix:") {
        return None;
    }
    let is_port = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_port(text) {
        return Some(text.to_owned());
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if is_port(port) => (host, port),
        Some((host, "*")) => (host, default_port),
        _ => (text, default_port),
    };
    let is_any = ["", "*", "_default_", "0.0.0.0", "[::]"].contains(&host);
    Some(if is_any {
        port.to_owned()
    } else {
        format!("{host}:{port}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_keys() {
        for (text, wanted) in [
            ("80", Some("80")),
            ("*:8080", Some("8080")),
            ("[::]:443", Some("443")),
            ("_default_:443", Some("443")),
            ("*", Some("80")),
            ("192.0.2.1", Some("192.0.2.1:80")),
            ("[::1]:81", Some("[::1]:81")),
            ("unix:/a", None),
        ] {
            assert_eq!(listen_key(text, "80").as_deref(), wanted, "{text}");
        }
    }
}
