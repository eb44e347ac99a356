//! The certificates that a site shows: until when they count.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use galley_certs::{Certificate, Files, Standing};

use super::{Finding, Level};

/// What the certificate of `site` says at `now`. Blocks on the disk.
pub fn certificate(site: &str, files: &Files, now: SystemTime) -> Finding {
    match galley_certs::read(files) {
        Ok(certificate) => judge(site, &files.cert, &certificate, now),
        Err((path, trouble)) => Finding::bad(
            Level::Wrong,
            CHECK,
            format!("{site}: {}, {trouble}", path.display()),
            "the running server keeps the certificate it has, and the next start fails",
            "galley check",
        ),
    }
}

fn judge(site: &str, path: &Path, certificate: &Certificate, now: SystemTime) -> Finding {
    let path = path.display();
    let standing = certificate.standing(now);
    let (word, date) = match standing {
        Standing::Early => ("from", certificate.not_before),
        Standing::Good | Standing::Ending | Standing::Over => ("until", certificate.not_after),
    };
    let seconds = date
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs();
    let date = i64::try_from(seconds).ok();
    let date = date.and_then(|seconds| jiff::Timestamp::from_second(seconds).ok());
    let seen = format!("{site}: {path} counts {word} {}", date.unwrap_or_default());
    let (level, why, mend) = match standing {
        Standing::Good => return Finding::fine(CHECK, seen),
        Standing::Ending => (
            Level::Notice,
            "it should have been renewed by now, so whoever renews it fails",
            "certbot renew --dry-run",
        ),
        Standing::Over => (
            Level::Wrong,
            "browsers warn of the site",
            "certbot renew --force-renewal",
        ),
        Standing::Early => (
            Level::Wrong,
            "browsers warn of the site: the certificate or the clock is wrong",
            "timedatectl",
        ),
    };
    Finding::bad(level, CHECK, seen, why, mend)
}

const CHECK: &str = "certificate";

#[cfg(test)]
mod tests {
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
        let made = Certificate::new(vec![cert.der().clone()], &key.into()).unwrap();
        let day = Duration::from_secs(86_400);
        for (now, level, words) in [
            (
                made.not_before - day,
                Level::Wrong,
                "counts from 2026-01-01",
            ),
            (
                made.not_before + day,
                Level::Fine,
                "counts until 2026-04-01",
            ),
            (
                made.not_after - day,
                Level::Notice,
                "counts until 2026-04-01",
            ),
            (
                made.not_after + day,
                Level::Wrong,
                "counts until 2026-04-01",
            ),
        ] {
            let found = judge("a.test", Path::new("/c.pem"), &made, now);
            assert_eq!(found.level, level, "{found:?}");
            assert!(found.seen.contains(words), "{found:?}");
            assert_eq!(found.mend.is_empty(), level == Level::Fine);
        }
        let none = Files {
            cert: "/none.pem".into(),
            key: "/none.key".into(),
        };
        let found = certificate("a.test", &none, made.not_after);
        assert!(found.level == Level::Wrong && found.seen.contains("cannot be read"));
    }
}
