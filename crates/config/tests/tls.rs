//! Certificates in the configuration: errors that prevent startup, and warnings.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use galley_config::{Config, TlsVersion, load};
use rcgen::{CertificateParams, KeyPair, date_time_ymd};

struct CertificateFolder(tempfile::TempDir);

impl CertificateFolder {
    fn new() -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        fs::create_dir(folder.0.path().join("www")).unwrap();
        folder.issue("good", &["example.com", "*.example.com"], 2090);
        folder
    }

    /// Writes `NAME.pem` and `NAME.key`, valid until the year `ends`.
    fn issue(&self, name: &str, hosts: &[&str], ends: i32) {
        self.issue_until(name, hosts, date_time_ymd(ends, 1, 1).into());
    }

    fn issue_until(&self, name: &str, hosts: &[&str], ends: SystemTime) {
        let ends = ends.duration_since(UNIX_EPOCH).unwrap();
        let hosts: Vec<String> = hosts.iter().map(|&host| host.to_owned()).collect();
        let mut params = CertificateParams::new(hosts).unwrap();
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(1970, 1, 1) + ends;
        let key = KeyPair::generate().unwrap();
        let cert = params.self_signed(&key).unwrap();
        self.write(&format!("{name}.pem"), &cert.pem(), 0o644);
        self.write(&format!("{name}.key"), &key.serialize_pem(), 0o600);
    }

    fn write(&self, name: &str, text: &str, mode: u32) {
        let path = self.0.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn load(&self, text: &str) -> Result<Config, String> {
        self.write("galley.toml", text, 0o644);
        let file = self.0.path().join("galley.toml");
        load(&file).map_err(|errors| errors.to_string())
    }

    /// Loads a site for `example.com` with a TLS listener and this line.
    fn site(&self, line: &str) -> Result<Config, String> {
        self.load(&format!(
            "[server]\nlisten_tls = [\"127.0.0.1:8443\"]\n[[site]]\nhosts = [\"example.com\", \"a.example.com\"]\nroot = \"www\"\n{line}\n"
        ))
    }
}

#[test]
fn a_certificate_and_its_listener_are_loaded() {
    let folder = CertificateFolder::new();
    let config = folder
        .site("tls = { cert = \"good.pem\", key = \"good.key\" }")
        .unwrap();
    assert_eq!(config.warnings, []);
    assert_eq!(config.server.tls_min_version, TlsVersion::V12);
    let [site] = config.sites.as_slice() else {
        panic!()
    };
    assert_eq!(site.listen_tls, config.server.listen_tls);
    let [files] = site.certificates.as_slice() else {
        panic!()
    };
    assert_eq!(
        files.cert,
        folder.0.path().canonicalize().unwrap().join("good.pem")
    );
    let several = "tls = [{ cert = \"good.pem\", key = \"good.key\" }, { cert = \"other.pem\", key = \"other.key\" }]";
    folder.issue("other", &["example.com"], 2090);
    assert_eq!(folder.site(several).unwrap().sites[0].certificates.len(), 2);
    // A site without a certificate has no TLS listener.
    let plain = folder.load(
        "[server]\nlisten_tls = [\"127.0.0.1:8443\"]\n[[site]]\nhosts = [\"a.test\"]\nroot = \"www\"\n\
         [[site]]\nhosts = [\"example.com\"]\nroot = \"www\"\ntls = { cert = \"good.pem\", key = \"good.key\" }\n",
    );
    assert!(plain.unwrap().sites[0].listen_tls.is_empty());
}

#[test]
fn unusable_certificates_are_rejected_with_a_position() {
    let folder = CertificateFolder::new();
    folder.issue("other", &["example.com"], 2090);
    folder.write("noise.pem", "-----BEGIN CERTIFICATE-----\nnoise\n", 0o644);
    let key = fs::read_to_string(folder.0.path().join("good.key")).unwrap();
    folder.write("open.key", &key, 0o644);
    for (line, words) in [
        (
            "tls = { cert = \"none.pem\", key = \"good.key\" }",
            "cannot be read",
        ),
        (
            "tls = { cert = \"noise.pem\", key = \"good.key\" }",
            "no certificate in PEM form",
        ),
        (
            "tls = { cert = \"good.pem\", key = \"other.key\" }",
            "does not belong to the certificate",
        ),
        (
            "tls = { cert = \"good.pem\", key = \"open.key\" }",
            "chmod 640",
        ),
        ("tls = { cert = \"good.pem\" }", "has no `key`"),
        (
            "tls = { cert = \"good.pem\", keys = \"good.key\" }",
            "did you mean `key`?",
        ),
        (
            "tls = { cert = 1, key = \"good.key\" }",
            "expected a string",
        ),
        ("tls = \"good.pem\"", "expected"),
        ("tls = []", "expected"),
        (
            "listen_tls = [\"127.0.0.1:9443\"]",
            "the site has no certificate",
        ),
    ] {
        let error = folder.site(line).unwrap_err();
        assert!(error.contains(words), "{line}: {error}");
        assert!(error.contains("galley.toml:6:"), "{line}: {error}");
    }
    let tls = "tls = { cert = \"good.pem\", key = \"good.key\" }";
    let site = format!("[[site]]\nhosts = [\"example.com\"]\nroot = \"www\"\n{tls}\n");
    let error = folder.load(&site).unwrap_err();
    assert!(error.contains("has no TLS listener"), "{error}");
    let error = folder.load(&format!(
        "[server]\nlisten_tls = [\"0.0.0.0:8080\"]\n{site}"
    ));
    assert!(error.unwrap_err().contains("listen without TLS"));
    let without_certificates = "[server]\nlisten_tls = [\"0.0.0.0:443\"]\n[[site]]\nhosts = [\"a.test\"]\nroot = \"www\"\n";
    assert!(
        folder
            .load(without_certificates)
            .unwrap_err()
            .contains("no site has a certificate")
    );
}

#[test]
fn expired_and_foreign_certificates_are_warnings() {
    let folder = CertificateFolder::new();
    folder.issue("expired", &["example.com", "*.example.com"], 2021);
    folder.issue("foreign", &["example.com", "example.org"], 2090);
    let soon = SystemTime::now() + Duration::from_secs(5 * 86_400 + 3_600);
    folder.issue_until("ending", &["example.com", "*.example.com"], soon);
    for (name, words) in [
        ("expired", "which expired "),
        ("ending", "which expires in 5 days"),
        (
            "foreign",
            "is valid for `example.com`, `example.org`, but not for `a.example.com`",
        ),
    ] {
        let line = format!("tls = {{ cert = \"{name}.pem\", key = \"{name}.key\" }}");
        let config = folder.site(&line).unwrap();
        let [warning] = config.warnings.as_slice() else {
            panic!("{:?}", config.warnings)
        };
        assert!(warning.message.contains(words), "{warning}");
        assert!(
            warning.spot.ends_with("galley.toml:6") && !warning.help.is_empty(),
            "{warning}"
        );
        assert_eq!(warning.option, "site.tls");
    }
}

#[test]
fn upstreams_over_tls_have_default_port_and_authority() {
    let folder = CertificateFolder::new();
    let site = |lines: &str| folder.load(&format!("[[site]]\nhosts = [\"a.test\"]\n{lines}\n"));
    let config = site("upstream = [\"https://apache.internal\", \"http://b.test\"]").unwrap();
    let text = format!("{:?}", config.sites[0].upstream);
    assert!(
        text.contains("port: 443, tls: true") && text.contains("port: 80, tls: false"),
        "{text}"
    );
    let upstream = "upstream = [\"https://apache.internal\"]";
    let with_name = format!("{upstream}\nupstream_tls = {{ name = \"b\", ca = \"good.pem\" }}");
    let tls = site(&with_name).unwrap().sites[0].upstream_tls.clone();
    assert_eq!((tls.name.as_deref(), tls.verify), (Some("b"), true));
    assert!(tls.ca.unwrap().ends_with(Path::new("good.pem")));
    let unverified = site(&format!("{upstream}\nupstream_tls = {{ verify = false }}")).unwrap();
    assert!(
        unverified.warnings[0]
            .message
            .contains("impersonates the upstream")
    );
    for (lines, words) in [
        (
            "upstream = [\"http://b.test\"]\nupstream_tls = { name = \"b\" }",
            "no `upstream` begins with `https://`",
        ),
        (
            "upstream = [\"https://b.test\"]\nupstream_tls = { ca = \"none.pem\" }",
            "cannot be read",
        ),
        (
            "upstream = [\"https://b.test\"]\nupstream_tls = { ca = \"good.pem\", verify = false }",
            "remove one of the two",
        ),
        (
            "upstream = [\"https://b.test\"]\nupstream_tls = { verify = 1 }",
            "`true` or `false`",
        ),
        (
            "upstream = [\"https://b.test/x\"]",
            "write `https://b.test`",
        ),
    ] {
        let error = site(lines).unwrap_err();
        assert!(error.contains(words), "{lines}: {error}");
    }
}
