//! Upgrades of a Galley that has given up root, and cannot read its certificates any more.

use std::fs;
use std::os::unix::fs::{MetadataExt, chown};

use galley_testkit::{runs_as_root, wait_for};
use rustls::pki_types::CertificateDer;

use crate::serving::{Serving, is_alive};
use crate::support::{SiteBuilder, TIMEOUT, TestSite, account};
use crate::tls_support::{Authority, Tls, over_tls, tls_addr};

fn shown(site: &TestSite, authority: &Authority) -> CertificateDer<'static> {
    let client = authority.client();
    let tls = Tls::connect(&client, "example.test", tls_addr(site));
    tls.unwrap().certificate()
}

/// Until the process before has ended.
fn upgrade(serving: &Serving<'_>) {
    let before = serving.pid.get();
    serving.upgrade();
    wait_for("the process before to end", TIMEOUT, || !is_alive(before));
}

#[test]
fn certificates_that_only_root_can_read_are_handed_over() {
    if !runs_as_root() {
        eprintln!("SKIPPED: only root can become somebody else");
        return;
    }
    let authority = Authority::new();
    let plan = over_tls(SiteBuilder::files(), &authority).server("user = \"www-data\"");
    let (user, group) = account("www-data");
    for folder in ["", "galley"] {
        let path = plan.scratch.dir(folder).unwrap();
        chown(path, Some(user), Some(group)).unwrap();
    }
    let site = plan.start();
    let serving = Serving::new(&site);
    let (dir, key) = (site.scratch.path(), site.scratch.join("site.key"));
    let found = fs::metadata(&key).unwrap();
    assert_eq!((found.uid(), found.mode() & 0o777), (0, 0o600));
    let first = shown(&site, &authority);
    // The second hands over what it could never read itself.
    for _ in 0..2 {
        upgrade(&serving);
        assert_eq!(shown(&site, &authority), first);
    }
    // Of a renewal that is root's again, nothing can be read.
    let second = authority.issue(dir, "site", &["example.test"]);
    upgrade(&serving);
    assert_eq!(shown(&site, &authority), first);
    let log = site.galley.log();
    assert!(log.contains("its renewal needs a restart"), "{log}");
    // Once Galley may read it, the renewal is used, and nothing is handed over in its place.
    chown(&key, Some(user), Some(group)).unwrap();
    upgrade(&serving);
    assert_eq!(shown(&site, &authority), second);
    chown(&key, Some(0), Some(0)).unwrap();
    let refused = site.galley.cli(&["upgrade"]).unwrap();
    assert_eq!(refused.status.code(), Some(1));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("site.key"), "{said}");
    assert_eq!(shown(&site, &authority), second);
    assert!(!site.galley.log().contains("PRIVATE KEY"));
}
