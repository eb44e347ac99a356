//! Compares a password with a stored hash. This is slow by intent, so it is never called on a front thread.
//!
//! Libraries implement bcrypt and SHA-crypt. No small and maintained library has the MD5 scheme of Apache and old systems, so it
//! is implemented here, after the description in Apache's `apr_md5_encode`. Digests are compared in constant time.

use base64ct::{Base64, Encoding};
use galley_policy::access::passwords::Hash;
use md5::{Digest, Md5};
use sha_crypt::{PasswordVerifier, ShaCrypt};
use sha1::Sha1;
use subtle::ConstantTimeEq;

/// Whether `hash` was computed from `password`.
pub(super) fn is_of(password: &[u8], hash: Hash<'_>) -> bool {
    match hash {
        Hash::Bcrypt(text) => bcrypt::verify(password, text).unwrap_or(false),
        Hash::ShaCrypt(text) => ShaCrypt::default().verify_password(password, text).is_ok(),
        Hash::Md5 {
            magic,
            salt,
            digest,
        } => {
            let made = md5_crypt(password, magic.as_bytes(), salt.as_bytes());
            bool::from(made.as_slice().ct_eq(digest.as_bytes()))
        }
        Hash::Sha1(text) => is_of_sha1(password, text),
    }
}

fn is_of_sha1(password: &[u8], text: &str) -> bool {
    let Ok(stored) = Base64::decode_vec(text) else {
        return false;
    };
    let Some((digest, salt)) = stored.split_at_checked(20) else {
        return false;
    };
    let made = Sha1::new()
        .chain_update(password)
        .chain_update(salt)
        .finalize();
    bool::from(made.as_slice().ct_eq(digest))
}

/// Returns 22 characters.
fn md5_crypt(password: &[u8], magic: &[u8], salt: &[u8]) -> Vec<u8> {
    let both = Md5::new()
        .chain_update(password)
        .chain_update(salt)
        .chain_update(password)
        .finalize();
    let mut whole = Md5::new()
        .chain_update(password)
        .chain_update(magic)
        .chain_update(salt);
    let mut left = password.len();
    while left > 0 {
        let count = left.min(both.len());
        whole.update(both.get(..count).unwrap_or_default());
        left -= count;
    }
    let mut bits = password.len();
    while bits > 0 {
        let byte = if bits & 1 == 1 {
            Some(0)
        } else {
            password.first().copied()
        };
        whole.update([byte.unwrap_or_default()]);
        bits >>= 1;
    }
    let mut made = whole.finalize();
    for round in 0..1_000 {
        let (first, last): (&[u8], &[u8]) = if round % 2 == 1 {
            (password, &made)
        } else {
            (&made, password)
        };
        let mut next = Md5::new().chain_update(first);
        if round % 3 != 0 {
            next.update(salt);
        }
        if round % 7 != 0 {
            next.update(password);
        }
        next.update(last);
        made = next.finalize();
    }
    encode(made.as_ref())
}

/// Encodes the digest with six bits per character, in the byte order of this scheme.
fn encode(made: &[u8]) -> Vec<u8> {
    let at = |index: usize| made.get(index).copied().map_or(0, u32::from);
    let mut out = Vec::with_capacity(22);
    let mut push = |mut value: u32, count: usize| {
        for _ in 0..count {
            let letter = usize::try_from(value & 63).unwrap_or_default();
            out.push(LETTERS.get(letter).copied().unwrap_or(b'.'));
            value >>= 6;
        }
    };
    for (a, b, c) in [(0, 6, 12), (1, 7, 13), (2, 8, 14), (3, 9, 15), (4, 10, 5)] {
        push(at(a) << 16 | at(b) << 8 | at(c), 4);
    }
    push(at(11), 2);
    out
}

const LETTERS: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

#[cfg(test)]
mod tests {
    use super::*;
    use galley_policy::access::passwords;
    use std::process::Command;

    fn is_right(line: &str, password: &str) -> bool {
        let name = line.split(':').next().unwrap();
        let hash = passwords::find(line, name.as_bytes()).unwrap_or_else(|| panic!("{line}"));
        is_of(password.as_bytes(), hash)
    }

    /// Hashes that the programs of Apache and OpenSSL write are verified.
    #[test]
    fn hashes_of_other_programs_are_verified() {
        let long = "a password of more than sixteen bytes \u{e9}";
        for password in ["x", "secret", "exactly16bytes!!", long] {
            for kind in ["-B", "-m", "-s", "-2", "-5"] {
                let mut command = Command::new("htpasswd");
                let output = command
                    .args(["-nb", kind, "jane", password])
                    .output()
                    .unwrap();
                assert!(output.status.success(), "htpasswd {kind}: {output:?}");
                let line = String::from_utf8(output.stdout).unwrap();
                assert!(is_right(line.trim(), password), "{kind} {line}");
                assert!(!is_right(line.trim(), "another"), "{kind} {line}");
            }
            for kind in ["-1", "-apr1", "-5", "-6"] {
                let output = Command::new("openssl")
                    .args(["passwd", kind, password])
                    .output();
                let hash = String::from_utf8(output.unwrap().stdout).unwrap();
                let line = format!("jane:{}", hash.trim());
                assert!(
                    is_right(&line, password) && !is_right(&line, "another"),
                    "{line}"
                );
            }
        }
        // The salted form of RFC 2307.
        let digest = Sha1::new()
            .chain_update("secret")
            .chain_update("salt")
            .finalize();
        let text = Base64::encode_string(&[&digest[..], b"salt"].concat());
        assert!(is_right(&format!("jane:{{SSHA}}{text}"), "secret"));
    }

    #[test]
    fn malformed_hashes_match_no_password() {
        for line in [
            "jane:{SHA}",
            "jane:{SHA}!!",
            "jane:{SHA}eA==",
            "jane:$6$",
            "jane:$5$rounds=x$y$z",
        ] {
            assert!(!is_right(line, "secret"), "{line}");
        }
        let bcrypt = format!("jane:$2y$05${}", "!".repeat(53));
        assert!(!is_right(&bcrypt, "secret"));
    }
}
