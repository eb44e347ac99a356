//! Certificates that certbot manages.

use std::path::{Path, PathBuf};

use galley_certs::CertificateFiles;

use super::machine::Machine;

/// A certificate in certbot's folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertbotCertificate {
    /// The certificate's name: `example.com`, also `example.com-0001`.
    pub name: String,
    /// The paths of the certificate and the key.
    pub files: CertificateFiles,
}

/// All certificates of certbot.
pub(super) fn certificates(machine: &Machine) -> Vec<CertbotCertificate> {
    let folder = Path::new(LIVE);
    let certificates = machine.names(folder).into_iter().filter_map(|name| {
        let files = CertificateFiles {
            cert: folder.join(&name).join("fullchain.pem"),
            key: folder.join(&name).join("privkey.pem"),
        };
        let is_whole = machine.is_file(&files.cert) && machine.is_file(&files.key);
        is_whole.then_some(CertbotCertificate { name, files })
    });
    certificates.collect()
}

/// The name of certbot's certificate that contains a file.
pub(super) fn name_of(cert: &Path) -> Option<String> {
    let inner = cert.strip_prefix(LIVE).ok()?;
    let folder: PathBuf = inner.parent()?.to_owned();
    Some(folder.to_str()?.to_owned()).filter(|name| !name.is_empty() && !name.contains('/'))
}

/// The hook that copies renewed certificates to a folder that Galley can read.
pub fn renewal_hook() -> String {
    HOOK.replace("COPIES", COPIES).replace("LIVE", LIVE)
}

/// Galley's copies of a certificate of certbot.
pub fn certificate_copies(name: &str) -> CertificateFiles {
    let folder = Path::new(COPIES).join(name);
    CertificateFiles {
        cert: folder.join("fullchain.pem"),
        key: folder.join("privkey.pem"),
    }
}

/// The path of the hook, in the folder of programs that certbot runs after a renewal.
pub const HOOK_FILE: &str = "/etc/letsencrypt/renewal-hooks/deploy/galley";

/// The folder of the copies. Readable by Galley's group, unlike certbot's folders.
const COPIES: &str = "/etc/galley/certificates";

const HOOK: &str = r#"#!/bin/sh
# Written by `galley setup`: copies renewed certificates to where Galley may read them. Galley notices the change itself.
set -eu
for folder in COPIES/*/; do
    live=LIVE/$(basename "$folder")
    if ! [ -s "$live/fullchain.pem" ] || ! [ -s "$live/privkey.pem" ]; then continue; fi
    for file in fullchain.pem privkey.pem; do
        install --mode=640 --owner=root --group=galley "$live/$file" "$folder$file.new"
        mv "$folder$file.new" "$folder$file"
    done
done
"#;

/// Certbot's folder. Readable only by root, like the files that its links refer to.
const LIVE: &str = "/etc/letsencrypt/live";

#[cfg(test)]
mod tests {
    use super::super::machine::sample::SampleMachine;
    use super::*;

    #[test]
    fn certificates_with_both_files() {
        let sample = SampleMachine::new(&[
            ("etc/letsencrypt/live/README", ""),
            ("etc/letsencrypt/live/a.com/fullchain.pem", ""),
            ("etc/letsencrypt/live/a.com/privkey.pem", ""),
            ("etc/letsencrypt/live/b.com/fullchain.pem", ""),
        ]);
        let found = certificates(&sample.machine());
        assert_eq!(found.len(), 1);
        assert_eq!(name_of(&found[0].files.cert).as_deref(), Some("a.com"));
        assert_eq!(name_of(Path::new("/etc/ssl/a.pem")), None);
    }
}
