//! Password files in the format of Apache's `htpasswd`: lines `name:hash`, and comments that begin with `#`.
//!
//! This module determines the kind of hash of a line; the server computes hashes. Kinds that no longer protect a password (the
//! system's old `crypt`, plain text) are rejected when the file is checked.

/// A stored hash, by its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hash<'f> {
    /// `$2y$`: bcrypt, written by `htpasswd -B`. The whole text.
    Bcrypt(&'f str),
    /// `$apr1$` or `$1$`: rounds of MD5, written by `htpasswd` by default and by `openssl passwd`.
    Md5 {
        /// `$apr1$` or `$1$`.
        magic: &'f str,
        /// At most eight characters.
        salt: &'f str,
        /// 22 characters.
        digest: &'f str,
    },
    /// `$5$` or `$6$`: SHA-crypt, written by `htpasswd -2` and `-5` and `mkpasswd`. The whole text.
    ShaCrypt(&'f str),
    /// `{SHA}` and `{SSHA}`: one round of SHA-1; in base64, the salt after the digest.
    Sha1(&'f str),
}

/// An unusable line of a file. `Display` gives a text for users.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} {why}")]
pub struct BadLine {
    /// The line number, from 1.
    pub line: usize,
    why: Why,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum Why {
    #[error("has no `name:hash`")]
    NoHash,
    #[error("has a hash of a kind that is not known, or none at all")]
    Unknown,
    #[error("has a bcrypt cost above 16, which takes seconds for each try")]
    TooCostly,
}

/// The hash of a name: that in its first line.
pub fn find<'f>(file: &'f str, name: &[u8]) -> Option<Hash<'f>> {
    lines(file).find_map(|(_, line)| {
        let (known, hash) = split(line)?;
        (known.as_bytes() == name).then(|| read(hash).ok())?
    })
}

/// Any hash of the file, to be compared for unknown names, so that they take as long as known ones.
pub fn some(file: &str) -> Option<Hash<'_>> {
    lines(file).find_map(|(_, line)| read(split(line)?.1).ok())
}

/// Checks whether every line can be used.
pub fn check(file: &str) -> Result<(), BadLine> {
    for (line, text) in lines(file) {
        let read = split(text)
            .ok_or(Why::NoHash)
            .and_then(|(_, hash)| read(hash));
        read.map_err(|why| BadLine { line, why })?;
    }
    Ok(())
}

fn lines(file: &str) -> impl Iterator<Item = (usize, &str)> {
    let numbered = (1..).zip(file.lines().map(str::trim));
    numbered.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

/// Splits a line into name and hash. The text after a second colon is ignored.
fn split(line: &str) -> Option<(&str, &str)> {
    let (name, rest) = line.split_once(':')?;
    let hash = rest.split(':').next().unwrap_or_default();
    (!name.is_empty()).then_some((name, hash))
}

fn read(hash: &str) -> Result<Hash<'_>, Why> {
    if let Some(rest) = ["$2y$", "$2a$", "$2b$"]
        .iter()
        .find_map(|magic| hash.strip_prefix(magic))
    {
        let cost = rest
            .split('$')
            .next()
            .and_then(|cost| cost.parse::<u32>().ok());
        return match cost {
            Some(cost) if cost > MAX_COST => Err(Why::TooCostly),
            Some(_) if hash.len() == 60 && hash.is_ascii() => Ok(Hash::Bcrypt(hash)),
            _ => Err(Why::Unknown),
        };
    }
    for magic in ["$apr1$", "$1$"] {
        if let Some(rest) = hash.strip_prefix(magic) {
            let parts = rest.split_once('$');
            let parts = parts.filter(|(salt, digest)| salt.len() <= 8 && digest.len() == 22);
            let (salt, digest) = parts.ok_or(Why::Unknown)?;
            return Ok(Hash::Md5 {
                magic: hash.get(..magic.len()).unwrap_or_default(),
                salt,
                digest,
            });
        }
    }
    if hash.starts_with("$5$") || hash.starts_with("$6$") {
        return Ok(Hash::ShaCrypt(hash));
    }
    let sha = hash.strip_prefix("{SHA}").or(hash.strip_prefix("{SSHA}"));
    sha.map(Hash::Sha1).ok_or(Why::Unknown)
}

/// The credentials of `Authorization: Basic` (RFC 7617): the base64 text.
pub fn offered(value: &[u8]) -> Option<&[u8]> {
    let (scheme, rest) = value.split_at_checked(SCHEME.len())?;
    scheme
        .eq_ignore_ascii_case(SCHEME)
        .then(|| rest.trim_ascii())
}

/// The maximum size of a password file, in bytes: some ten thousand names.
pub const MAX_BYTES: u64 = 1 << 20;

const SCHEME: &[u8] = b"basic ";

/// The maximum bcrypt cost: 2^16 rounds take some four seconds.
const MAX_COST: u32 = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FILE: &str = "# people\n\njane:$2y$05$abcdefghijklmnopqrstuuJm3KzI0u2s3z4x5c6v7b8n9m0a1s2d3\n\
        joe:$apr1$saltsalt$0123456789012345678901\nann:{SHA}abc=:Ann\njoe:{SHA}x\n";

    #[test]
    fn names_have_their_first_hash() {
        assert!(matches!(find(FILE, b"jane"), Some(Hash::Bcrypt(_))));
        let joe = Hash::Md5 {
            magic: "$apr1$",
            salt: "saltsalt",
            digest: "0123456789012345678901",
        };
        assert_eq!(find(FILE, b"joe"), Some(joe));
        assert_eq!(find(FILE, b"ann"), Some(Hash::Sha1("abc=")));
        assert_eq!(find(FILE, b"# people"), None);
        assert_eq!(find(FILE, b""), None);
        assert_eq!(check(FILE), Ok(()));
    }

    #[test]
    fn unusable_passwords_are_reported() {
        for (text, wanted) in [
            ("jane", "line 1 has no `name:hash`"),
            ("\n:x", "line 2 has no `name:hash`"),
            (
                "jane:secret",
                "line 1 has a hash of a kind that is not known, or none at all",
            ),
            (
                "jane:",
                "line 1 has a hash of a kind that is not known, or none at all",
            ),
            (
                "jane:rqXexS6ZhobKA",
                "line 1 has a hash of a kind that is not known, or none at all",
            ),
            (
                "jane:$apr1$toolongsalt$x",
                "line 1 has a hash of a kind that is not known, or none at all",
            ),
            (
                "jane:$2y$31$x",
                "line 1 has a bcrypt cost above 16, which takes seconds for each try",
            ),
        ] {
            assert_eq!(check(text).unwrap_err().to_string(), wanted, "{text}");
        }
    }

    #[test]
    fn credentials_are_found() {
        assert_eq!(offered(b"Basic eDp5"), Some(b"eDp5".as_slice()));
        assert_eq!(offered(b"bAsIc   eDp5 "), Some(b"eDp5".as_slice()));
        assert_eq!(offered(b"Bearer eDp5"), None);
        assert_eq!(offered(b"Basic"), None);
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "(\\PC{0,30}|jane:[$0-9a-z{}SHA]{0,70}\n){0,5}", value in proptest::collection::vec(any::<u8>(), 0..30)) {
            let _ = (check(&text), find(&text, b"jane"), offered(&value));
        }
    }
}
