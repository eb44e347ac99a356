//! A certificate as it is stored and used: private key and chain in PEM, and their properties.

use std::hash::Hasher;
use std::sync::Arc;

use galley_certs::{CertificateChain, CertificateNames};
use instant_acme::CertificateIdentifier;
use rcgen::{CertificateParams, CustomExtension, DistinguishedName, KeyPair};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;
use siphasher::sip::SipHasher13;

use super::problem::OrderError;
use super::schedule::ValidityPeriod;

/// A certificate that was read and checked.
pub(super) struct IssuedCertificate {
    /// The private key and the chain, as they are stored.
    pub(super) pem: String,
    /// The key and the chain for handshakes.
    pub(super) key: Arc<CertifiedKey>,
    pub(super) validity: ValidityPeriod,
    /// The names in the certificate.
    names: CertificateNames,
    /// The certificate's id at the directory (RFC 9773 section 4.1); `None` if it has no authority key identifier.
    pub(super) id: Option<CertificateIdentifier<'static>>,
    /// A hash of the certificate, which serves as a random number that is the same each time.
    pub(super) random: u64,
}

impl IssuedCertificate {
    /// Reads a private key and a chain, and checks that they belong together.
    pub(super) fn read(pem: &str) -> Result<Self, OrderError> {
        let key = PrivateKeyDer::from_pem_slice(pem.as_bytes())
            .map_err(|e| OrderError::new(format!("no private key: {e}")))?;
        let chain = CertificateDer::pem_slice_iter(pem.as_bytes())
            .collect::<Result<Vec<_>, _>>()
            .map_err(|e| OrderError::new(format!("no chain of certificates: {e}")))?;
        let first = chain.first().cloned();
        let first = first.ok_or_else(|| OrderError::new("no certificate after the private key"))?;
        let found = CertificateChain::new(chain, &key)
            .map_err(|trouble| OrderError::new(format!("a certificate {trouble}")))?;
        let id = CertificateIdentifier::try_from(&first).ok();
        let mut random = SipHasher13::new();
        random.write(&first);
        Ok(Self {
            pem: pem.to_owned(),
            key: found.certified,
            validity: ValidityPeriod {
                from: found.not_before,
                to: found.not_after,
            },
            names: found.names,
            id: id.map(CertificateIdentifier::into_owned),
            random: random.finish(),
        })
    }

    /// The names in `wanted` that the certificate covers.
    pub(super) fn covered(&self, wanted: &[String]) -> Vec<String> {
        let is_covered = |name: &&String| self.names.covers_pattern(name);
        wanted.iter().filter(is_covered).cloned().collect()
    }
}

/// Creates a private key and a certificate request for these names, in DER.
pub(super) fn request(names: &[String]) -> Result<(KeyPair, Vec<u8>), OrderError> {
    let mut params = CertificateParams::new(names).map_err(OrderError::new)?;
    // A directory accepts only names; a common name would have to be one of them.
    params.distinguished_name = DistinguishedName::new();
    let key = KeyPair::generate().map_err(OrderError::new)?;
    let request = params.serialize_request(&key).map_err(OrderError::new)?;
    Ok((key, request.der().to_vec()))
}

/// Creates the certificate for a TLS-ALPN-01 challenge (RFC 8737 section 3): self-signed, with the digest of the key
/// authorization in a critical extension.
pub(super) fn challenge(
    name: &str,
    digest: &[u8; SHA256_BYTES],
) -> Result<Arc<CertifiedKey>, OrderError> {
    let mut params = CertificateParams::new([name.to_owned()]).map_err(OrderError::new)?;
    params.distinguished_name = DistinguishedName::new();
    params.custom_extensions = vec![CustomExtension::new_acme_identifier(digest)];
    let key = KeyPair::generate().map_err(OrderError::new)?;
    let certificate = params.self_signed(&key).map_err(OrderError::new)?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let key = aws_lc_rs::sign::any_supported_type(&key).map_err(OrderError::new)?;
    let chain = vec![certificate.der().clone()];
    Ok(Arc::new(CertifiedKey::new(chain, key)))
}

/// The length of the digest of a key authorization.
pub(super) const SHA256_BYTES: usize = 32;

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;
    use x509_parser::prelude::{FromDer, X509Certificate};

    use super::*;

    /// A self-signed certificate for these names in its stored form.
    pub(in crate::acme) fn stored(names: &[&str]) -> String {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let params = CertificateParams::new(names).unwrap();
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        format!("{}{}", key.serialize_pem(), certificate.pem())
    }

    #[test]
    fn names_and_times_are_read() {
        let held = IssuedCertificate::read(&stored(&["Example.com", "*.example.org"])).unwrap();
        let wanted = ["example.com", "www.example.com", "a.example.org"].map(str::to_owned);
        assert_eq!(held.covered(&wanted), ["example.com", "a.example.org"]);
        assert!(held.validity.from < held.validity.to);
        let other = IssuedCertificate::read(&stored(&["example.com"])).unwrap();
        assert_ne!(held.random, other.random);
    }

    #[test]
    fn invalid_or_mismatched_files_are_rejected() {
        let (one, two) = (stored(&["a.test"]), stored(&["a.test"]));
        let begin = "-----BEGIN CERTIFICATE-----";
        let (key, _) = one.split_once(begin).unwrap();
        let (_, chain) = two.split_once(begin).unwrap();
        for text in [
            "",
            "junk",
            key,
            &format!("{begin}{chain}"),
            &format!("{key}{begin}{chain}"),
            &format!("{key}{begin}\nAAAA\n-----END CERTIFICATE-----\n"),
            &one[..one.len() - 60],
        ] {
            assert!(IssuedCertificate::read(text).is_err(), "{text}");
        }
        assert!(IssuedCertificate::read(&one).is_ok());
    }

    #[test]
    fn a_challenge_has_the_digest_in_a_critical_extension() {
        let key = challenge("a.test", &[7; 32]).unwrap();
        let (_, parsed) = X509Certificate::from_der(&key.cert[0]).unwrap();
        let extension = parsed
            .extensions()
            .iter()
            .find(|one| one.oid.to_id_string() == "1.3.6.1.5.5.7.1.31")
            .unwrap();
        assert!(extension.critical);
        assert_eq!(extension.value[..2], [4, 32]);
        assert_eq!(extension.value[2..], [7; 32]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn a_damaged_file_is_never_a_panic(at in 0..600_usize, byte: u8) {
            let mut text = stored(&["a.test"]).into_bytes();
            if let Some(place) = text.get_mut(at) {
                *place = byte;
            }
            let _ = IssuedCertificate::read(&String::from_utf8_lossy(&text));
        }
    }
}
