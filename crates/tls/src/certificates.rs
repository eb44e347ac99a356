//! Certificates by name.
//!
//! A host maps to a [`Slot`], and a slot to the current certificates: a renewal changes only its slot, however many names it has.
//! Names are looked up as hosts of sites are: the exact name, then the longest `*.` pattern, then `*`. A client without SNI gets
//! the slot of `*`, or otherwise the first one. A client with an unknown name gets none, and so learns no other site's name
//! (RFC 6066 section 3 permits both).

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use galley_certs::{CertificateChain, CertificateError, CertificateFiles, CertificatePem};
use galley_sys::Lock;
use rustls::SignatureAlgorithm;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use super::protocols::ACME;

/// The certificates of all names, shared by all front threads.
#[derive(Debug, Default)]
pub struct Certificates {
    table: ArcSwap<NameTable>,
    challenges: ArcSwap<HashMap<String, Arc<CertifiedKey>>>,
    /// Held while a new table replaces the old one.
    changing: Lock<()>,
}

#[derive(Clone, Debug, Default)]
struct NameTable {
    /// The slots by host: `example.com`, `.example.com` for all names below it, `*`.
    hosts: HashMap<Arc<str>, Arc<Slot>>,
    first: Option<Arc<Slot>>,
}

/// The current certificates of one site. If they have keys of several types, a client gets the first that it supports.
#[derive(Debug)]
pub struct Slot(ArcSwap<CertificateSet>);

/// Certificates for the same hosts with different types of keys, those with short signatures first; never empty.
#[derive(Clone, Debug)]
pub struct CertificateSet {
    all: Vec<Arc<CertificateChain>>,
    sources: Vec<CertificateSource>,
}

/// A certificate with the contents of its files.
#[derive(Clone, Debug)]
pub struct CertificateSource {
    /// The paths of the files.
    pub files: CertificateFiles,
    /// The contents of the files.
    pub pem: CertificatePem,
}

impl CertificateSet {
    /// Sorts the certificates; `None` without any.
    pub fn new(mut all: Vec<Arc<CertificateChain>>) -> Option<Self> {
        // An RSA signature costs twenty times as much processor time as one on P-256.
        all.sort_by_key(|one| one.certified.key.algorithm() == SignatureAlgorithm::RSA);
        (!all.is_empty()).then_some(Self {
            all,
            sources: Vec::new(),
        })
    }

    /// Parses the certificates in `sources` and keeps the sources; `None` without any.
    ///
    /// Errors: the first source that cannot be used, with its file.
    pub fn from_sources(sources: Vec<CertificateSource>) -> Result<Option<Self>, String> {
        let parse = |source: &CertificateSource| {
            let parsed = source.pem.parse(&source.files);
            parsed.map(Arc::new).map_err(|error| error.to_string())
        };
        let all: Result<Vec<_>, _> = sources.iter().map(parse).collect();
        Ok(Self::new(all?).map(|kinds| Self { sources, ..kinds }))
    }

    /// The certificates.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<CertificateChain>> {
        self.all.iter()
    }

    /// The contents of all files, if some cannot be read again ([`Slot::forget_readable`]); otherwise empty.
    pub fn sources(&self) -> &[CertificateSource] {
        &self.sources
    }

    fn choose(&self, hello: &ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let schemes = hello.signature_schemes();
        let understood = |one: &&Arc<CertificateChain>| {
            let key = &one.certified.key;
            key.choose_scheme(schemes).is_some()
        };
        let chosen = self.all.iter().find(understood).or(self.all.first())?;
        Some(Arc::clone(&chosen.certified))
    }
}

impl Slot {
    /// Creates a slot with these certificates.
    pub fn new(kinds: CertificateSet) -> Arc<Self> {
        Arc::new(Self(ArcSwap::from_pointee(kinds)))
    }

    /// Replaces the certificates; existing connections keep theirs.
    pub fn renew(&self, kinds: CertificateSet) {
        self.0.store(Arc::new(kinds));
    }

    /// Drops the contents of files if all files can be read again. Blocks on the disk.
    ///
    /// The contents of files that only root can read are needed when another process, which is not root, takes over.
    pub fn forget_readable(&self) {
        let kinds = self.kinds();
        let mut files = kinds
            .sources
            .iter()
            .flat_map(|source| [&source.files.cert, &source.files.key]);
        if !kinds.sources.is_empty() && files.all(|file| galley_certs::file::open(file).is_ok()) {
            let all = kinds.all.clone();
            let without = CertificateSet {
                all,
                sources: Vec::new(),
            };
            // Does nothing if the certificates have been renewed since.
            self.0.compare_and_swap(&kinds, Arc::new(without));
        }
    }

    /// The current certificates.
    pub fn kinds(&self) -> Arc<CertificateSet> {
        self.0.load_full()
    }

    fn covers(&self, host: &str) -> bool {
        self.0.load().iter().any(|one| one.names.covers(host))
    }
}

impl Certificates {
    /// Assigns slots to hosts in one step; a host that already has a slot keeps it. `hosts` are canonical: `example.com`,
    /// `*.example.com`, `*`.
    pub fn add<'h>(&self, all: impl IntoIterator<Item = (&'h [String], Arc<Slot>)>) {
        self.change(|table| {
            for (hosts, slot) in all {
                table.first.get_or_insert_with(|| Arc::clone(&slot));
                for host in hosts {
                    let slot = Arc::clone(&slot);
                    table.hosts.entry(place(host)).or_insert(slot);
                }
            }
        });
    }

    /// Installs the certificate of `names`, in place of their previous one.
    ///
    /// Errors: the reason why it cannot be used.
    pub fn put(&self, names: &[String], key: Arc<CertifiedKey>) -> Result<(), CertificateError> {
        let certificate = Arc::new(CertificateChain::of(key)?);
        let kinds = CertificateSet::new(vec![certificate])
            .ok_or(CertificateError::Missing("certificate"))?;
        let slot = Slot::new(kinds);
        self.change(|table| {
            let had = names
                .iter()
                .find_map(|name| table.hosts.get(&*place(name)).cloned());
            let is_first = match (&table.first, &had) {
                (None, _) => true,
                (Some(first), Some(had)) => Arc::ptr_eq(first, had),
                (Some(_), None) => false,
            };
            if is_first {
                table.first = Some(Arc::clone(&slot));
            }
            for name in names {
                table.hosts.insert(place(name), Arc::clone(&slot));
            }
        });
        Ok(())
    }

    /// Starts to answer an authority's challenge for `name` (RFC 8737): handshakes that only offer the protocol of challenges
    /// get `key`.
    pub fn put_challenge(&self, name: &str, key: Arc<CertifiedKey>) {
        self.challenge(|all| {
            all.insert(name.to_ascii_lowercase(), key);
        });
    }

    /// Ends the challenge that is answered with `key`, but not a later one for the same name.
    pub fn drop_challenge(&self, name: &str, key: &Arc<CertifiedKey>) {
        let name = name.to_ascii_lowercase();
        self.challenge(|all| {
            if all.get(&name).is_some_and(|now| Arc::ptr_eq(now, key)) {
                all.remove(&name);
            }
        });
    }

    /// The slot for the name in a client's SNI.
    pub fn find(&self, name: Option<&str>) -> Option<Arc<Slot>> {
        let table = self.table.load();
        let Some(name) = name else {
            return table.hosts.get("*").or(table.first.as_ref()).cloned();
        };
        let below = || {
            name.match_indices('.')
                .filter_map(|(dot, _)| name.get(dot..))
        };
        let found = table.hosts.get(name);
        let found = found.or_else(|| below().find_map(|suffix| table.hosts.get(suffix)));
        found.or_else(|| table.hosts.get("*")).cloned()
    }

    fn challenge(&self, change: impl FnOnce(&mut HashMap<String, Arc<CertifiedKey>>)) {
        let _alone = self.changing.lock();
        let mut all = HashMap::clone(&self.challenges.load());
        change(&mut all);
        self.challenges.store(Arc::new(all));
    }

    fn change(&self, change: impl FnOnce(&mut NameTable)) {
        let _alone = self.changing.lock();
        let mut table = NameTable::clone(&self.table.load());
        change(&mut table);
        self.table.store(Arc::new(table));
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let name = hello.server_name().map(str::to_ascii_lowercase);
        if is_challenge(&hello) {
            return self.challenges.load().get(&name?).cloned();
        }
        self.find(name.as_deref())?.kinds().choose(&hello)
    }
}

/// RFC 8737 section 3: a validating authority offers this protocol and no other.
fn is_challenge(hello: &ClientHello<'_>) -> bool {
    hello.alpn().is_some_and(|mut all| {
        let only = all.next() == Some(ACME);
        only && all.next().is_none()
    })
}

/// The form of a host in the table.
fn place(host: &str) -> Arc<str> {
    let host = host.to_ascii_lowercase();
    match host.strip_prefix("*.") {
        Some(_) => host.get(1..).unwrap_or_default().into(),
        None => host.into(),
    }
}

/// The certificates that were selected for a connection.
#[derive(Clone, Debug)]
pub struct SelectedCertificates {
    certificates: Arc<Certificates>,
    /// The name in the client's SNI, in lower case.
    name: Option<Box<str>>,
    slot: Option<Arc<Slot>>,
}

impl SelectedCertificates {
    /// The certificates for a client with SNI `name`.
    pub fn new(certificates: &Arc<Certificates>, name: Option<&str>) -> Self {
        let name = name.map(str::to_ascii_lowercase);
        Self {
            certificates: Arc::clone(certificates),
            slot: certificates.find(name.as_deref()),
            name: name.map(Into::into),
        }
    }

    /// Whether a host may be requested on this connection: the client named it in SNI, or the certificate is valid for the
    /// host, or the host has the same certificates. Otherwise the client would mistake this server for another one (RFC 9110
    /// section 15.5.20). `host` is canonical.
    pub fn allows(&self, host: &str) -> bool {
        if self.name.as_deref() == Some(host) {
            return true;
        }
        let Some(slot) = &self.slot else { return false };
        let is_same = |other: &Arc<Slot>| Arc::ptr_eq(slot, other);
        slot.covers(host)
            || self
                .certificates
                .find(Some(host))
                .as_ref()
                .is_some_and(is_same)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn certificate(names: &[&str]) -> Arc<CertifiedKey> {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let made = rcgen::generate_simple_self_signed(names).unwrap();
        let key = rustls::pki_types::PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let certificate = CertificateChain::new(vec![made.cert.der().clone()], &key.into());
        certificate.unwrap().certified
    }

    fn hosts(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    fn shown(all: &Certificates, name: Option<&str>) -> Option<Arc<CertifiedKey>> {
        let slot = all.find(name)?;
        let kinds = slot.kinds();
        Some(Arc::clone(&kinds.iter().next()?.certified))
    }

    fn slot(key: &Arc<CertifiedKey>) -> Arc<Slot> {
        let certificate = CertificateChain::of(Arc::clone(key)).unwrap();
        Slot::new(CertificateSet::new(vec![Arc::new(certificate)]).unwrap())
    }

    #[test]
    fn names_are_found_like_hosts_of_sites() {
        let all = Certificates::default();
        assert!(shown(&all, None).is_none() && shown(&all, Some("a.test")).is_none());
        let (one, wild, other) = (
            certificate(&["a.test"]),
            certificate(&["w"]),
            certificate(&["o"]),
        );
        let lists = [
            hosts(&["a.test"]),
            hosts(&["*.a.test"]),
            hosts(&["A.test", "b.test"]),
        ];
        let [first, second, third] = &lists;
        all.add([
            (first.as_slice(), slot(&one)),
            (second.as_slice(), slot(&wild)),
            (third.as_slice(), slot(&other)),
        ]);
        for (name, key) in [
            (Some("a.test"), Some(&one)),
            (Some("x.a.test"), Some(&wild)),
            (Some("x.y.a.test"), Some(&wild)),
            (Some("b.test"), Some(&other)),
            (Some("xa.test"), None),
            (Some("test"), None),
            (Some(""), None),
            (None, Some(&one)),
        ] {
            let found = shown(&all, name);
            let is_it = match (&found, key) {
                (Some(found), Some(key)) => Arc::ptr_eq(found, key),
                (found, key) => found.is_none() && key.is_none(),
            };
            assert!(is_it, "{name:?}");
        }
        let any = certificate(&["any"]);
        all.put(&hosts(&["*"]), Arc::clone(&any)).unwrap();
        for name in [None, Some("c.test")] {
            assert!(Arc::ptr_eq(&shown(&all, name).unwrap(), &any));
        }
        let new = certificate(&["a.test"]);
        all.put(&hosts(&["a.test"]), Arc::clone(&new)).unwrap();
        assert!(Arc::ptr_eq(&shown(&all, Some("a.test")).unwrap(), &new));
    }

    #[test]
    fn a_connection_permits_hosts_of_its_certificate() {
        let all = Arc::new(Certificates::default());
        let lists = [hosts(&["a.test", "b.test"]), hosts(&["c.test"])];
        let [first, second] = &lists;
        // The certificate of the first site is valid for one of its hosts, and for a host of no site.
        all.add([
            (
                first.as_slice(),
                slot(&certificate(&["a.test", "*.d.test"])),
            ),
            (second.as_slice(), slot(&certificate(&["c.test"]))),
        ]);
        let allowed = |name, host| SelectedCertificates::new(&all, name).allows(host);
        for (name, host, wanted) in [
            (Some("a.test"), "a.test", true),
            (Some("a.test"), "b.test", true),
            (Some("A.test"), "x.d.test", true),
            (Some("a.test"), "c.test", false),
            (Some("a.test"), "", false),
            (Some("b.test"), "b.test", true),
            (Some("c.test"), "a.test", false),
            (None, "b.test", true),
            (None, "c.test", false),
        ] {
            assert_eq!(allowed(name, host), wanted, "{name:?} {host}");
        }
        // A renewal does not change the site.
        let before = SelectedCertificates::new(&all, Some("a.test"));
        let slot = all.find(Some("a.test")).unwrap();
        let new = CertificateChain::of(certificate(&["e.test"])).unwrap();
        slot.renew(CertificateSet::new(vec![Arc::new(new)]).unwrap());
        assert!(before.allows("b.test") && before.allows("e.test"));
    }
}
