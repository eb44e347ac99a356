//! Opens the certificate storage, installs the stored certificates, and starts their keepers.

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
use crate::Certificates;
use galley_sys::clock::Clock;

/// The input for opening.
pub struct AcmeSpec<'b> {
    /// The settings in `[acme]`.
    pub settings: Settings,
    /// The wanted certificates.
    pub wanted: Vec<WantedCertificate>,
    /// The clock.
    pub clock: Clock,
    /// The store of certificates for handshakes.
    pub handshakes: Arc<Certificates>,
    /// The state under the previous configuration, if one is replaced: pauses after failures continue.
    pub before: Option<&'b Acme>,
    /// The secrets that the nodes of a cluster share.
    pub secrets: Option<SharedSecrets>,
}

/// The loaded and installed certificates, before anything is ordered.
pub struct AcmeReady {
    acme: Arc<Acme>,
    keepers: Vec<CertificateKeeper>,
    handshakes: Arc<Certificates>,
    sharing: Option<Arc<Sharing>>,
}

impl AcmeReady {
    /// The state for front threads and the admin interface.
    pub fn acme(&self) -> Arc<Acme> {
        Arc::clone(&self.acme)
    }

    /// Starts the keepers, in tasks of this runtime; they end when the set is dropped. Must be called when
    /// the listeners are open, because the directory's servers connect to them.
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

/// Opens the storage and installs the stored certificates for handshakes.
///
/// Errors: the storage folder cannot be created or listed, or a file that `[acme]` names cannot be read.
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
    let opener = account::AccountOpener::new(settings, Arc::clone(&store), sharing.clone(), clock)?;
    let opener = Arc::new(opener);
    let turns = Arc::new(Semaphore::new(ORDERS_AT_A_TIME));
    let keepers = acme.certificates.iter().map(|certificate| {
        CertificateKeeper::open(keeper::KeeperParts {
            acme: Arc::clone(&acme),
            certificate: Arc::clone(certificate),
            opener: Arc::clone(&opener),
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

/// The maximum number of concurrent orders, so that a machine with hundreds of sites neither overloads the directory nor
/// needs long.
const ORDERS_AT_A_TIME: usize = 4;
