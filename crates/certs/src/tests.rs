//! Tests with generated certificates in valid and invalid files, and with arbitrary bytes.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use proptest::prelude::*;
use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use rustls::pki_types::PrivateKeyDer;

use super::*;

/// Creates a self-signed certificate for `names` in `dir`.
fn make(dir: &Path, names: &[&str]) -> CertificateFiles {
    let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(names).unwrap();
    params.not_before = date_time_ymd(2026, 1, 1);
    params.not_after = date_time_ymd(2026, 4, 1);
    let cert = params.self_signed(&key).unwrap();
    let files = CertificateFiles {
        cert: dir.join("cert.pem"),
        key: dir.join("key.pem"),
    };
    fs::write(&files.cert, cert.pem()).unwrap();
    fs::write(&files.key, key.serialize_pem()).unwrap();
    fs::set_permissions(&files.key, fs::Permissions::from_mode(0o640)).unwrap();
    files
}

#[test]
fn names_and_dates_of_a_certificate_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let names = ["Example.com", "*.example.com", "192.0.2.1", "::1"];
    let certificate = read(&make(dir.path(), &names)).unwrap();
    let names: Vec<&str> = certificate.names.iter().collect();
    assert_eq!(
        names,
        ["example.com", "*.example.com", "192.0.2.1", "[::1]"]
    );
    let day = Duration::from_secs(86_400);
    let (from, to) = (certificate.not_before, certificate.not_after);
    for (now, validity) in [
        (from - day, DateValidity::Early),
        (from, DateValidity::Good),
        (to - 11 * day, DateValidity::Good),
        (to - 9 * day, DateValidity::Ending),
        (to, DateValidity::Over),
    ] {
        assert_eq!(certificate.date_validity(now), validity);
    }
}

#[test]
fn a_wildcard_matches_one_label() {
    let names = CertificateNames::new(["example.com", "*.Example.org."].into_iter());
    for (host, covered) in [
        ("example.com", true),
        ("www.example.com", false),
        ("example.org", false),
        ("a.example.org", true),
        ("a.b.example.org", false),
        (".example.org", false),
        ("xexample.org", false),
        ("", false),
    ] {
        assert_eq!(names.covers(host), covered, "{host}");
    }
    assert!(names.covers_pattern("*.example.org") && !names.covers_pattern("*.example.com"));
}

#[test]
fn errors_name_the_cause_and_the_file() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (files, foreign) = (
        make(one.path(), &["a.test"]),
        make(other.path(), &["b.test"]),
    );
    let with = |cert: &Path, key: &Path| {
        let found = read(&CertificateFiles {
            cert: cert.to_owned(),
            key: key.to_owned(),
        });
        let wrong = found.unwrap_err();
        (wrong.path, wrong.error.to_string())
    };
    let large = one.path().join("large.pem");
    fs::write(&large, vec![b'-'; 1 << 21]).unwrap();
    let none = one.path().join("none");
    let cases: [(&Path, &Path, &Path, &str); 6] = [
        (&files.cert, &foreign.key, &foreign.key, "does not belong"),
        (&files.key, &files.key, &files.key, "no certificate"),
        (&none, &files.key, &none, "cannot be read"),
        (one.path(), &files.key, one.path(), "which is a folder"),
        (&large, &files.key, &large, "larger than"),
        (&files.cert, &none, &none, "cannot be read"),
    ];
    for (cert, key, blamed, why) in cases {
        let (path, text) = with(cert, key);
        assert_eq!(path, blamed, "{text}");
        assert!(text.contains(why), "{text}");
    }
    fs::set_permissions(&files.cert, fs::Permissions::from_mode(0o600)).unwrap();
    let (path, why) = with(&files.cert, &files.cert);
    assert!(
        path == files.cert && why.contains("no private key"),
        "{why}"
    );
    fs::set_permissions(&files.key, fs::Permissions::from_mode(0o644)).unwrap();
    let (path, why) = with(&files.cert, &files.key);
    assert!(path == files.key && why.contains("mode 644"), "{why}");
}

proptest! {
    #[test]
    fn arbitrary_bytes_are_rejected(
        bytes in proptest::collection::vec(any::<u8>(), 0..600),
        place in any::<prop::sample::Index>(),
        cut in any::<prop::sample::Index>(),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let files = make(dir.path(), &["a.test"]);
        fs::write(dir.path().join("noise"), &bytes).unwrap();
        let noise = CertificateFiles { cert: dir.path().join("noise"), ..files.clone() };
        prop_assert!(read(&noise).is_err());
        // A certificate with one changed bit and a missing end, with another key.
        let mut der = read_roots(&files.cert).unwrap().remove(0).to_vec();
        let at = place.index(der.len());
        der[at] ^= 1;
        der.truncate(cut.index(der.len()) + 1);
        let key = KeyPair::generate().unwrap().serialize_der();
        let key = PrivateKeyDer::Pkcs8(key.into());
        prop_assert!(CertificateChain::new(vec![der.into()], &key).is_err());
    }
}
