//! A request that is sent to both servers.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr};

/// A request that is sent to both servers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct TryVisit {
    pub(super) method: VisitMethod,
    pub(super) is_tls: bool,
    pub(super) host: String,
    /// Path and query.
    pub(super) target: String,
    /// Fields besides `Host`.
    pub(super) fields: Vec<VisitField>,
    /// The visitor's address.
    pub(super) from: IpAddr,
}

/// The request method. Methods that change data are never sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum VisitMethod {
    Get,
    Head,
}

/// A field of a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct VisitField {
    pub(super) name: &'static str,
    pub(super) value: String,
}

impl TryVisit {
    /// A `GET` request from this machine.
    pub(super) fn get(host: &str, is_tls: bool, target: &str) -> Self {
        Self {
            method: VisitMethod::Get,
            is_tls,
            host: host.to_owned(),
            target: target.to_owned(),
            fields: Vec::new(),
            from: HERE,
        }
    }

    pub(super) fn with(&self, name: &'static str, value: &str) -> Self {
        let mut visit = self.clone();
        visit.fields.push(VisitField {
            name,
            value: value.to_owned(),
        });
        visit
    }

    pub(super) fn head(&self) -> Self {
        Self {
            method: VisitMethod::Head,
            ..self.clone()
        }
    }

    pub(super) fn from(&self, address: IpAddr) -> Self {
        Self {
            from: address,
            ..self.clone()
        }
    }

    pub(super) fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    pub(super) fn scheme(&self) -> &'static str {
        if self.is_tls { "https" } else { "http" }
    }

    pub(super) fn url(&self) -> String {
        format!("{}://{}{}", self.scheme(), self.host, self.target)
    }

    /// Whether the target is valid in a request line.
    pub(super) fn is_fit(&self) -> bool {
        self.target.starts_with('/')
            && self.target.len() <= MAX_TARGET
            && self
                .target
                .bytes()
                .all(|byte| byte.is_ascii_graphic() && byte != b'#')
            && self.target.parse::<http::uri::PathAndQuery>().is_ok()
    }

    /// The request as a command for the public site. It does not contain passwords of the test.
    pub(super) fn curl(&self) -> String {
        let mut line = String::from("curl -i");
        if self.method == VisitMethod::Head {
            line = String::from("curl -I");
        }
        if self.from != HERE && self.from.is_loopback() {
            let _ = write!(line, " --interface {}", self.from);
        }
        for field in &self.fields {
            if field.name == "authorization" {
                line.push_str(" -u NAME:PASSWORD");
            } else {
                let _ = write!(
                    line,
                    " -H {}",
                    shell(&format!("{}: {}", field.name, field.value))
                );
            }
        }
        let _ = write!(line, " {}", shell(&self.url()));
        if self.from != HERE && !self.from.is_loopback() {
            let _ = write!(line, "  # from {}", self.from);
        }
        line
    }
}

impl VisitMethod {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
        }
    }
}

/// Quotes a word for a shell.
fn shell(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// The default address of visitors.
pub(super) const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
/// The maximum length of a target that servers accept.
const MAX_TARGET: usize = 4_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_visit_is_printed_as_a_shell_command() {
        let visit = TryVisit::get("a.test", true, "/x?y='1'");
        assert_eq!(visit.curl(), "curl -i 'https://a.test/x?y='\\''1'\\'''");
        let visit = visit
            .head()
            .with("range", "bytes=0-1")
            .from([127, 0, 0, 2].into());
        assert_eq!(
            visit.curl(),
            "curl -I --interface 127.0.0.2 -H 'range: bytes=0-1' 'https://a.test/x?y='\\''1'\\'''"
        );
        let visit = TryVisit::get("a.test", false, "/").with("authorization", "Basic secret");
        assert_eq!(visit.curl(), "curl -i -u NAME:PASSWORD 'http://a.test/'");
        for (target, is_fit) in [
            ("/a b", false),
            ("a", false),
            ("/a#b", false),
            ("/a?b=%20", true),
        ] {
            assert_eq!(
                TryVisit::get("a", false, target).is_fit(),
                is_fit,
                "{target}"
            );
        }
    }
}
