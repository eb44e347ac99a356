//! Certificates by themselves: ACME (RFC 8555) for the sites that ask for it with `tls = "auto"`.
//!
//! One task per certificate (`keeper`) decides when to order by pure rules (`schedule`), orders (`order`) with the one
//! account of the directory (`account`), writes what it got to disk (`store`) and hands it to the handshakes. What is
//! stored is handed over before the first listener opens, so that a restart orders nothing. A certificate that is in
//! use stays in use until another one is there, whatever fails meanwhile. Nothing here is on a visitor's way: front
//! cores look at the tokens under way ([`Acme::answer`]) for requests to [`CHALLENGES`] alone.
//!
//! It does not do DNS-01, so no wildcards, and does not revoke.

mod account;
mod certificate;
mod http;
mod keeper;
mod order;
mod problem;
mod schedule;
mod state;
mod store;

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use galley_config::AcmeConfig as Settings;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use self::keeper::CertificateKeeper;
pub use self::state::{CertificateStatus, StatusFields};
use self::store::Store;
use crate::clock::Clock;
use crate::tls::Certificates;

/// Where the directory's servers look for the answers to HTTP-01 challenges (RFC 8555 section 8.3).
pub const CHALLENGES: &str = "/.well-known/acme-challenge/";

/// A certificate that is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedCertificate {
    /// How people name the site.
    pub site: String,
    /// The site's place among all.
    pub number: u32,
    /// Canonical host names, none twice; never empty, at most [`MOST_NAMES`].
    pub names: Vec<String>,
}

/// The certificates that Galley gets by itself, and the challenges under way. Outlives its keepers.
pub struct Acme {
    tokens: Tokens,
    certificates: Vec<Arc<CertificateStatus>>,
}

impl Acme {
    /// The answer to an HTTP-01 challenge, where `path` is that of one which is under way.
    pub fn answer(&self, path: &[u8]) -> Option<Bytes> {
        self.tokens.find(path.strip_prefix(CHALLENGES.as_bytes())?)
    }

    /// How each certificate of a site stands.
    pub fn of_site(&self, number: u32) -> impl Iterator<Item = StatusFields> {
        let all = self.certificates.iter();
        all.filter(move |one| one.wanted.number == number)
            .map(|one| one.state())
    }
}

/// What is needed to begin.
pub struct AcmeSpec {
    /// `[acme]`.
    pub settings: Settings,
    /// What is wanted.
    pub wanted: Vec<WantedCertificate>,
    /// Time.
    pub clock: Clock,
    /// What gets the certificates.
    pub handshakes: Arc<Certificates>,
}

/// Everything is loaded and handed over; nothing is ordered yet.
pub struct AcmeReady {
    acme: Arc<Acme>,
    keepers: Vec<CertificateKeeper>,
}

impl AcmeReady {
    /// What front cores and the admin interface look at.
    pub fn acme(&self) -> Arc<Acme> {
        Arc::clone(&self.acme)
    }

    /// Begins to keep the certificates, in tasks of this runtime; they end when the set is dropped. To be called once
    /// the listeners are open: the directory's servers ask them.
    pub fn start(self) -> JoinSet<()> {
        let mut tasks = JoinSet::new();
        for keeper in self.keepers {
            tasks.spawn(keeper.run());
        }
        tasks
    }
}

/// Opens the storage and hands over the certificates that are there.
///
/// Errors: the storage folder cannot be made or listed, or a file that `[acme]` names cannot be read.
pub fn open(spec: AcmeSpec) -> io::Result<AcmeReady> {
    let store = Arc::new(Store::open(
        &spec.settings.storage,
        &spec.settings.directory,
    )?);
    let certificates = spec.wanted.into_iter().map(CertificateStatus::new);
    let acme = Arc::new(Acme {
        tokens: Tokens::default(),
        certificates: certificates.map(Arc::new).collect(),
    });
    let office = account::Office::new(spec.settings, Arc::clone(&store), spec.clock)?;
    let office = Arc::new(office);
    let turns = Arc::new(Semaphore::new(ORDERS_AT_A_TIME));
    let keepers = acme.certificates.iter().map(|certificate| {
        CertificateKeeper::open(keeper::KeeperParts {
            acme: Arc::clone(&acme),
            certificate: Arc::clone(certificate),
            office: Arc::clone(&office),
            store: Arc::clone(&store),
            handshakes: Arc::clone(&spec.handshakes),
            turns: Arc::clone(&turns),
            clock: spec.clock,
        })
    });
    let keepers = keepers.collect();
    Ok(AcmeReady { acme, keepers })
}

/// The HTTP-01 challenges under way. Written by orders, read by front cores for paths of challenges only; the lock is held
/// for a look-up.
#[derive(Default)]
struct Tokens(RwLock<HashMap<Vec<u8>, Bytes>>);

impl Tokens {
    fn find(&self, token: &[u8]) -> Option<Bytes> {
        let tokens = self.0.read().unwrap_or_else(PoisonError::into_inner);
        tokens.get(token).cloned()
    }

    fn put(&self, token: &str, answer: String) {
        let mut tokens = self.0.write().unwrap_or_else(PoisonError::into_inner);
        tokens.insert(token.as_bytes().to_vec(), answer.into());
    }

    fn drop(&self, token: &str) {
        let mut tokens = self.0.write().unwrap_or_else(PoisonError::into_inner);
        tokens.remove(token.as_bytes());
    }
}

/// The file in which the certificate is kept whose first name is this one: its key, then the chain.
pub fn file_of(settings: &Settings, name: &str) -> PathBuf {
    Store::of(&settings.storage, &settings.directory).certificate(name)
}

/// What Let's Encrypt puts into one certificate at most; other directories allow no more.
pub const MOST_NAMES: usize = 100;

/// Orders at a time: those of a machine with hundreds of sites neither crowd the directory nor take long.
const ORDERS_AT_A_TIME: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tokens_under_way_are_answered() {
        let acme = Acme {
            tokens: Tokens::default(),
            certificates: Vec::new(),
        };
        acme.tokens.put("abc", "abc.thumb".to_owned());
        let answer = |path: &str| acme.answer(path.as_bytes());
        assert_eq!(
            answer("/.well-known/acme-challenge/abc").as_deref(),
            Some(b"abc.thumb".as_slice())
        );
        for path in [
            "/.well-known/acme-challenge/",
            "/.well-known/acme-challenge/ab",
            "/.well-known/acme-challenge/abc/",
            "/.well-known/acme-challenge/abc?x",
            "/x/.well-known/acme-challenge/abc",
            "",
        ] {
            assert_eq!(answer(path), None, "{path}");
        }
        acme.tokens.drop("abc");
        assert_eq!(answer("/.well-known/acme-challenge/abc"), None);
    }
}
