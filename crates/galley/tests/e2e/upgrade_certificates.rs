//! Upgrades of a server that has dropped root privileges and can no longer read its certificate keys.

use std::fs;
use std::os::unix::fs::{MetadataExt, chown};

use galley_testkit::{runs_as_root, skip, wait_for};
use rustls::pki_types::CertificateDer;

use crate::serving::{Serving, is_alive};
use crate::support::{SiteBuilder, TIMEOUT, TestSite, account};
use crate::tls_support::{Authority, Tls, over_tls, tls_addr};

fn served_certificate(site: &TestSite, authority: &Authority) -> CertificateDer<'static> {
    let client = authority.client();
    let tls = Tls::connect(&client, "example.test", tls_addr(site));
    tls.unwrap().certificate()
}

/// Upgrades and waits until the old process has exited.
fn upgrade(serving: &Serving<'_>) {
    let before = serving.pid.get();
    serving.upgrade();
    wait_for("the old process to exit", TIMEOUT, || !is_alive(before));
}

#[test]
fn certificates_that_only_root_can_read_are_handed_over() {
    if !runs_as_root() {
        skip("only root can switch to another user");
        return;
    }
    let authority = Authority::new();
    let builder = over_tls(SiteBuilder::files(), &authority).server("user = \"www-data\"");
    let (user, group) = account("www-data");
    for folder in ["", "galley"] {
        let path = builder.scratch.dir(folder).unwrap();
        chown(path, Some(user), Some(group)).unwrap();
    }
    let site = builder.start();
    let serving = Serving::new(&site);
    let (dir, key) = (site.scratch.path(), site.scratch.join("site.key"));
    let metadata = fs::metadata(&key).unwrap();
    assert_eq!((metadata.uid(), metadata.mode() & 0o777), (0, 0o600));
    let first = served_certificate(&site, &authority);
    // The second process hands over a key that it could never read itself.
    for _ in 0..2 {
        upgrade(&serving);
        assert_eq!(served_certificate(&site, &authority), first);
    }
    // A renewed key that only root can read is not used.
    let second = authority.issue(dir, "site", &["example.test"]);
    upgrade(&serving);
    assert_eq!(served_certificate(&site, &authority), first);
    let log = site.galley.log();
    assert!(log.contains("its renewal needs a restart"), "{log}");
    // When Galley can read the renewed key, it uses it instead of the one that was handed over.
    chown(&key, Some(user), Some(group)).unwrap();
    upgrade(&serving);
    assert_eq!(served_certificate(&site, &authority), second);
    chown(&key, Some(0), Some(0)).unwrap();
    let rejected = site.galley.cli(&["upgrade"]).unwrap();
    assert_eq!(rejected.status.code(), Some(1));
    let output = String::from_utf8_lossy(&rejected.stderr).into_owned();
    assert!(output.contains("site.key"), "{output}");
    assert_eq!(served_certificate(&site, &authority), second);
    assert!(!site.galley.log().contains("PRIVATE KEY"));
}
