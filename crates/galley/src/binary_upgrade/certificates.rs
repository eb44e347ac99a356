//! Certificates whose files only root can read. The process that takes over does not run as root, so it receives the contents: in
//! a file in memory, not in a packet.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use galley_certs::{CertificateFiles, CertificatePem, MAX_BYTES};

use super::packet::UpgradeMessage;
use galley_sys::memory_file;
use galley_tls::CertificateSource;

/// Returns the message for a certificate, and the file with its contents.
pub fn write_certificate(source: &CertificateSource) -> io::Result<(UpgradeMessage, OwnedFd)> {
    let CertificateSource { files, pem } = source;
    let content = [pem.chain.as_slice(), &pem.key].concat();
    let message = UpgradeMessage::Certificate {
        cert: files.cert.clone(),
        key: files.key.clone(),
        cert_bytes: pem.chain.len(),
    };
    Ok((
        message,
        memory_file::sealed("galley-certificate", &content)?,
    ))
}

/// Reads the certificate in a received file.
pub fn read_certificate(
    files: CertificateFiles,
    cert_bytes: usize,
    file: impl AsFd,
) -> io::Result<CertificateSource> {
    let mut chain = memory_file::read_sealed(file, 2 * MAX_BYTES)?;
    if cert_bytes > chain.len() {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let key = chain.split_off(cert_bytes);
    let pem = CertificatePem { chain, key };
    Ok(CertificateSource { files, pem })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_handed_over_unchanged() {
        let source = CertificateSource {
            files: CertificateFiles {
                cert: "/a.pem".into(),
                key: "/a.key".into(),
            },
            pem: CertificatePem {
                chain: b"chain".to_vec(),
                key: b"key".to_vec(),
            },
        };
        let (message, file) = write_certificate(&source).unwrap();
        let UpgradeMessage::Certificate {
            cert,
            key,
            cert_bytes,
        } = message
        else {
            panic!("{message:?}");
        };
        let files = CertificateFiles { cert, key };
        let read = read_certificate(files.clone(), cert_bytes, &file).unwrap();
        assert_eq!((&read.files, &read.pem), (&source.files, &source.pem));
        assert!(read_certificate(files, 9, &file).is_err());
    }
}
