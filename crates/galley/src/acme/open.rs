//! Opens the storage of ACME, installs the stored certificates, and starts their keepers.

use std::io;
use std::sync::Arc;

use galley_cluster::SharedSecrets;
use galley_config::AcmeConfig as Settings;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::challenges::{Acme, Tokens};
use super::keeper::CertificateKeeper;
use super::sharing::Sharing;
use super::state::{CertificateStatus, WantedCertificate};
use super::store::Store;
use super::{account, keeper};
use crate::clock::Clock;
use crate::tls::Certificates;

/// The arguments of a start.
pub struct AcmeSpec<'b> {
    /// `[acme]`.
    pub settings: Settings,
    /// The wanted certificates.
    pub wanted: Vec<WantedCertificate>,
    /// Time.
    pub clock: Clock,
    /// What gets the certificates.
    pub handshakes: Arc<Certificates>,
    /// What the same directory was asked before, if a configuration replaces another: pauses after failures go on.
    pub before: Option<&'b Acme>,
    /// The other nodes, with which certificates are shared.
    pub secrets: Option<SharedSecrets>,
}

/// Everything is loaded and handed over; nothing is ordered yet.
pub struct AcmeReady {
    acme: Arc<Acme>,
    keepers: Vec<CertificateKeeper>,
    handshakes: Arc<Certificates>,
    sharing: Option<Arc<Sharing>>,
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
        if let Some(sharing) = self.sharing {
            let following = Arc::clone(&sharing).follow(self.acme, self.handshakes);
            tasks.spawn(following);
            tasks.spawn(sharing.keep_connected());
        }
        for keeper in self.keepers {
            tasks.spawn(keeper.run());
        }
        tasks
    }
}

/// Opens the storage and hands over the certificates that are there.
///
/// Errors: the storage folder cannot be made or listed, or a file that `[acme]` names cannot be read.
pub fn open(spec: AcmeSpec<'_>) -> io::Result<AcmeReady> {
    let store = Arc::new(Store::open(
        &spec.settings.storage,
        &spec.settings.directory,
    )?);
    let before = spec.before.map_or(&[][..], |before| &before.certificates);
    let certificates = spec.wanted.into_iter().map(|wanted| {
        let same = before.iter().find(|one| one.wanted.names == wanted.names);
        match same {
            Some(same) => CertificateStatus::after(wanted, same),
            None => CertificateStatus::new(wanted),
        }
    });
    let acme = Arc::new(Acme {
        tokens: Tokens::default(),
        certificates: certificates.map(Arc::new).collect(),
    });
    let sharing = spec.secrets.map(|secrets| {
        let directory = &spec.settings.directory;
        Arc::new(Sharing::new(secrets, directory, spec.clock))
    });
    let (settings, clock) = (spec.settings, spec.clock);
    let office = account::Office::new(settings, Arc::clone(&store), sharing.clone(), clock)?;
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
            clock,
            sharing: sharing.clone(),
        })
    });
    let keepers = keepers.collect();
    Ok(AcmeReady {
        acme,
        keepers,
        handshakes: spec.handshakes,
        sharing,
    })
}

/// Orders at a time: those of a machine with hundreds of sites neither crowd the directory nor take long.
const ORDERS_AT_A_TIME: usize = 4;
