//! Reloads certificate files that have changed: the next handshake uses the new certificate.
//!
//! A check only reads the metadata of the files. Files whose stamp has changed are read. If certificate and key do not match (often
//! because the second file has not been written yet), the old certificate stays in use until a stamp changes again, so a check
//! between the two writes does no harm.

use std::sync::Arc;
use std::time::SystemTime;

use galley_certs::{
    CertificateChain, CertificateFileError, CertificateFiles, CertificatePem, DateValidity,
};

use super::certificates::{CertificateSet, CertificateSource, Slot};
use galley_sys::stamps::{FileStamp, stamp};

/// All watched certificates. One thread checks them.
#[derive(Debug, Default)]
pub struct CertificateWatch(Vec<Watched>);

/// The files of one site.
#[derive(Debug)]
pub struct Watched {
    /// The name of the site, for the log.
    pub site: String,
    /// The slot with the site's certificates.
    pub slot: Arc<Slot>,
    files: Vec<(CertificateFiles, Stamps)>,
}

impl Watched {
    /// Reads the certificates of a site, and keeps the contents of their files. Blocks on the disk.
    ///
    /// Errors: the first certificate that cannot be used, with its file.
    pub fn read(site: &str, files: &[CertificateFiles]) -> Result<Option<Self>, String> {
        // Before the contents: the next check then detects a file that is written at the same time.
        let stamps = files.iter().map(|files| (files.clone(), stamps(files)));
        let stamps: Vec<_> = stamps.collect();
        let read = |files: &CertificateFiles| {
            Ok(CertificateSource {
                files: files.clone(),
                pem: CertificatePem::read(files).map_err(|error| error.to_string())?,
            })
        };
        let sources: Result<_, String> = files.iter().map(read).collect();
        Ok(CertificateSet::from_sources(sources?)?.map(|kinds| Self {
            site: site.to_owned(),
            slot: Slot::new(kinds),
            files: stamps,
        }))
    }

    /// Watches `files`, whose certificates `slot` already has.
    pub fn known(site: &str, files: &[CertificateFiles], slot: &Arc<Slot>) -> Self {
        let stamps = files.iter().map(|files| (files.clone(), stamps(files)));
        Self {
            site: site.to_owned(),
            slot: Arc::clone(slot),
            files: stamps.collect(),
        }
    }

    /// Reloads changed certificates.
    fn reload_changed(&mut self) {
        let mut has_changed = false;
        for (files, known) in &mut self.files {
            let now = stamps(files);
            has_changed |= now != *known;
            *known = now;
        }
        if !has_changed {
            return;
        }
        let site = &self.site;
        let files: Vec<_> = self.files.iter().map(|(files, _)| files.clone()).collect();
        match read_all(&files) {
            Err(trouble) => {
                tracing::error!(
                    site,
                    "cannot use the changed certificate; the old one remains in use: {trouble}"
                );
            }
            Ok(all) => {
                let old = self.slot.kinds();
                let is_known = |new: &Arc<CertificateChain>| old.iter().any(|old| old.is_same(new));
                if all.iter().all(is_known) {
                    return;
                }
                if let Some(kinds) = CertificateSet::new(all) {
                    self.slot.renew(kinds);
                    tracing::info!(site, "the certificate was renewed");
                }
            }
        }
    }

    /// Logs the certificates that are not valid, or expire soon.
    fn log_expiry(&self, now: SystemTime) {
        for one in self.slot.kinds().iter() {
            let site = &self.site;
            let names: Vec<&str> = one.names.iter().take(3).collect();
            let names = names.join(", ");
            match one.date_validity(now) {
                DateValidity::Good => {}
                DateValidity::Ending => tracing::warn!(
                    site, %names,
                    "the certificate expires soon and has not been renewed: check the renewal"
                ),
                DateValidity::Over => tracing::error!(
                    site, %names,
                    "the certificate has expired, and browsers show a warning: renew it"
                ),
                DateValidity::Early => tracing::error!(
                    site, %names,
                    "the certificate is not valid yet: check the clock and the certificate's dates"
                ),
            }
        }
    }
}

impl CertificateWatch {
    /// Watches these certificates.
    pub fn new(all: Vec<Watched>) -> Self {
        Self(all)
    }

    /// Reloads changed certificates. Blocks on the disk.
    pub fn look(&mut self) {
        self.0.iter_mut().for_each(Watched::reload_changed);
    }

    /// Logs the files that are no longer readable, so that their next renewal would not be detected. Blocks on the disk.
    pub fn warn_of_unreadable(&self) {
        for one in &self.0 {
            let files = one
                .files
                .iter()
                .flat_map(|(files, _)| [&files.cert, &files.key]);
            for file in files {
                if let Err(error) = galley_certs::file::open(file) {
                    tracing::warn!(
                        site = one.site, file = %file.display(), %error,
                        "was read at the start, but Galley's user cannot read it now, so its renewal needs a restart: give a group of this user read access"
                    );
                }
            }
        }
    }

    /// Logs the certificates that have expired, expire soon, or are not valid yet.
    pub fn log_expiring(&self, now: SystemTime) {
        self.0.iter().for_each(|one| one.log_expiry(now));
    }

    /// Whether no certificate is watched.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn read_all(files: &[CertificateFiles]) -> Result<Vec<Arc<CertificateChain>>, String> {
    let read = |files| galley_certs::read(files).map(Arc::new);
    let all: Result<_, CertificateFileError> = files.iter().map(read).collect();
    all.map_err(|error| error.to_string())
}

/// The stamps of the certificate's and of the key's file; `None`: the file does not exist.
type Stamps = [Option<FileStamp>; 2];

fn stamps(files: &CertificateFiles) -> Stamps {
    [stamp(&files.cert), stamp(&files.key)]
}
