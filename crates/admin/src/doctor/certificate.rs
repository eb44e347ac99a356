//! Checks when the certificates of a site expire.

use std::io::ErrorKind;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use galley_certs::file::FileError;
use galley_certs::{
    CertificateChain, CertificateError, CertificateFileError, CertificateFiles, DateValidity,
};

use super::{DoctorFinding, Severity};

/// The program that renews a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Renewed {
    /// Another program: usually certbot.
    Elsewhere,
    /// Galley.
    Here,
}

/// Checks the certificate that Galley stores for `site` in this file. Blocks on the disk.
pub fn stored_certificate(site: &str, file: &Path, now: SystemTime) -> DoctorFinding {
    let files = CertificateFiles {
        cert: file.to_owned(),
        key: file.to_owned(),
    };
    let (level, why) = match galley_certs::read(&files) {
        Ok(certificate) => return judge(site, file, &certificate, Renewed::Here, now),
        Err(CertificateFileError {
            error: CertificateError::Unread(FileError::System(error)),
            ..
        }) => match error.kind() {
            ErrorKind::NotFound => (
                Severity::Wrong,
                "the site has no certificate yet, so it is not available over TLS",
            ),
            ErrorKind::PermissionDenied => {
                (Severity::Notice, "only root and Galley's user may read it")
            }
            _ => (Severity::Wrong, UNREADABLE),
        },
        Err(_) => (Severity::Wrong, UNREADABLE),
    };
    let seen = format!("{site}: {} cannot be read", file.display());
    DoctorFinding::bad(level, CHECK, seen, why, SAYS_WHY)
}

/// Checks the certificate of `site`. Blocks on the disk.
pub fn certificate(site: &str, files: &CertificateFiles, now: SystemTime) -> DoctorFinding {
    match galley_certs::read(files) {
        Ok(certificate) => judge(site, &files.cert, &certificate, Renewed::Elsewhere, now),
        Err(CertificateFileError { path, error }) => DoctorFinding::bad(
            Severity::Wrong,
            CHECK,
            format!("{site}: {}, {error}", path.display()),
            "the running server keeps its certificate, and the next start fails",
            "galley check",
        ),
    }
}

fn judge(
    site: &str,
    path: &Path,
    certificate: &CertificateChain,
    renewed: Renewed,
    now: SystemTime,
) -> DoctorFinding {
    let path = path.display();
    let validity = certificate.date_validity(now);
    let (word, date) = match validity {
        DateValidity::Early => ("from", certificate.not_before),
        DateValidity::Good | DateValidity::Ending | DateValidity::Over => {
            ("until", certificate.not_after)
        }
    };
    let seconds = date
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs();
    let date = i64::try_from(seconds).ok();
    let date = date.and_then(|seconds| jiff::Timestamp::from_second(seconds).ok());
    let seen = format!("{site}: {path} counts {word} {}", date.unwrap_or_default());
    let (level, why, remedy) = match validity {
        DateValidity::Good => return DoctorFinding::fine(CHECK, seen),
        DateValidity::Ending => (
            Severity::Notice,
            "it should have been renewed by now, so the renewal fails",
            renewed.or_here("certbot renew --dry-run"),
        ),
        DateValidity::Over => (
            Severity::Wrong,
            "browsers show a warning",
            renewed.or_here("certbot renew --force-renewal"),
        ),
        DateValidity::Early => (
            Severity::Wrong,
            "browsers show a warning: the certificate or the clock is wrong",
            "timedatectl",
        ),
    };
    DoctorFinding::bad(level, CHECK, seen, why, remedy)
}

impl Renewed {
    /// Returns the remedy: `elsewhere`, or the command that shows why Galley could not renew the certificate.
    fn or_here(self, elsewhere: &'static str) -> &'static str {
        match self {
            Self::Elsewhere => elsewhere,
            Self::Here => SAYS_WHY,
        }
    }
}

const CHECK: &str = "certificate";
const UNREADABLE: &str =
    "the running server keeps its certificate, and the next start orders a new one";
/// Shows the last failure of each certificate that Galley obtains.
const SAYS_WHY: &str = "galley status";

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;
    use std::time::Duration;

    use super::*;

    #[test]
    fn dates_are_judged() {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(vec!["a.test".to_owned()]).unwrap();
        params.not_before = rcgen::date_time_ymd(2026, 1, 1);
        params.not_after = rcgen::date_time_ymd(2026, 4, 1);
        let cert = params.self_signed(&key).unwrap();
        let key = rustls::pki_types::PrivatePkcs8KeyDer::from(key.serialize_der());
        let made = CertificateChain::new(vec![cert.der().clone()], &key.into()).unwrap();
        let day = Duration::from_secs(86_400);
        for (now, level, words) in [
            (
                made.not_before - day,
                Severity::Wrong,
                "counts from 2026-01-01",
            ),
            (
                made.not_before + day,
                Severity::Fine,
                "counts until 2026-04-01",
            ),
            (
                made.not_after - day,
                Severity::Notice,
                "counts until 2026-04-01",
            ),
            (
                made.not_after + day,
                Severity::Wrong,
                "counts until 2026-04-01",
            ),
        ] {
            for renewed in [Renewed::Elsewhere, Renewed::Here] {
                let found = judge("a.test", Path::new("/c.pem"), &made, renewed, now);
                assert_eq!(found.level, level, "{found:?}");
                assert!(found.seen.contains(words), "{found:?}");
                assert_eq!(found.remedy.is_empty(), level == Severity::Fine);
                assert!(!(renewed == Renewed::Here && found.remedy.contains("certbot")));
            }
        }
        let none = CertificateFiles {
            cert: "/none.pem".into(),
            key: "/none.key".into(),
        };
        let found = certificate("a.test", &none, made.not_after);
        assert!(found.level == Severity::Wrong && found.seen.contains("cannot be read"));
    }

    #[test]
    fn a_stored_certificate_is_read_from_one_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.test.pem");
        let now = SystemTime::now();
        let none = stored_certificate("a.test", &file, now);
        assert!(none.level == Severity::Wrong && none.why.contains("no certificate yet"));
        let key = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(vec!["a.test".to_owned()]).unwrap();
        let cert = params.self_signed(&key).unwrap();
        std::fs::write(&file, key.serialize_pem() + &cert.pem()).unwrap();
        std::fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        assert_eq!(
            stored_certificate("a.test", &file, now).level,
            Severity::Fine
        );
        std::fs::write(&file, "torn").unwrap();
        let torn = stored_certificate("a.test", &file, now);
        assert!(torn.level == Severity::Wrong && torn.remedy == SAYS_WHY);
    }
}
