//! Keys that DNS servers share with their clients (TSIG, RFC 8945): the files that `tsig-keygen` prints, and signatures.
//!
//! ```text
//! key "galley" {
//!     algorithm hmac-sha256;
//!     secret "bm90IGEgc2VjcmV0";
//! };
//! ```

use std::fmt;

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::dns_name::DnsName;

/// A shared key. Its `Debug` does not show the secret.
pub(super) struct TsigKey {
    /// The name by which both sides know the key.
    pub(super) name: DnsName,
    /// The name of the algorithm.
    pub(super) algorithm: DnsName,
    key: hmac::Key,
}

impl fmt::Debug for TsigKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TsigKey").finish_non_exhaustive()
    }
}

/// The reason why a file contains no key. Each text continues after the name of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadTsigKey {
    #[error("which is not a key as `tsig-keygen` prints it")]
    Syntax,
    #[error("whose algorithm is none of hmac-sha256, hmac-sha384 and hmac-sha512")]
    Algorithm,
    #[error("whose secret is not base64")]
    Secret,
}

impl TsigKey {
    /// Reads the text of a file with one key.
    pub(super) fn parse(text: &str) -> Result<Self, BadTsigKey> {
        let tokens = tokens(text).ok_or(BadTsigKey::Syntax)?;
        let [word, name, "{", statements @ .., "}", ";"] = tokens.as_slice() else {
            return Err(BadTsigKey::Syntax);
        };
        if *word != "key" {
            return Err(BadTsigKey::Syntax);
        }
        let (mut algorithm, mut secret) = (None, None);
        for statement in statements.chunks(3) {
            match statement {
                ["algorithm", value, ";"] if algorithm.is_none() => algorithm = Some(*value),
                ["secret", value, ";"] if secret.is_none() => secret = Some(*value),
                _ => return Err(BadTsigKey::Syntax),
            }
        }
        let (algorithm, secret) = algorithm.zip(secret).ok_or(BadTsigKey::Syntax)?;
        let hmac = match algorithm
            .trim_end_matches('.')
            .to_ascii_lowercase()
            .as_str()
        {
            "hmac-sha256" => hmac::HMAC_SHA256,
            "hmac-sha384" => hmac::HMAC_SHA384,
            "hmac-sha512" => hmac::HMAC_SHA512,
            _ => return Err(BadTsigKey::Algorithm),
        };
        let secret = BASE64_STANDARD.decode(secret);
        let secret = secret.map_err(|_| BadTsigKey::Secret)?;
        Ok(Self {
            name: DnsName::parse(name).ok_or(BadTsigKey::Syntax)?,
            algorithm: DnsName::parse(algorithm).ok_or(BadTsigKey::Algorithm)?,
            key: hmac::Key::new(hmac, &secret),
        })
    }

    /// The signature of the concatenated pieces.
    pub(super) fn sign(&self, pieces: &[&[u8]]) -> Vec<u8> {
        let mut context = hmac::Context::with_key(&self.key);
        for piece in pieces {
            context.update(piece);
        }
        context.sign().as_ref().to_vec()
    }

    /// Whether `mac` is the full-length signature of the concatenated pieces; compared in constant time.
    pub(super) fn verifies(&self, pieces: &[&[u8]], mac: &[u8]) -> bool {
        hmac::verify(&self.key, &pieces.concat(), mac).is_ok()
    }
}

/// Splits a text into words, quoted strings, and the characters `{`, `}` and `;`, without comments. `None`: a string or a
/// comment has no end.
fn tokens(text: &str) -> Option<Vec<&str>> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let next = if let Some(comment) = rest.strip_prefix("/*") {
            comment.split_once("*/")?.1
        } else if rest.starts_with("//") || rest.starts_with('#') {
            rest.split_once('\n').map_or("", |(_, next)| next)
        } else if let Some(quoted) = rest.strip_prefix('"') {
            let (token, next) = quoted.split_once('"')?;
            tokens.push(token);
            next
        } else {
            let is_end = |sign: char| sign.is_whitespace() || "{};\"#".contains(sign);
            let length = rest.find(is_end).unwrap_or(rest.len()).max(1);
            let (token, next) = rest.split_at_checked(length)?;
            tokens.push(token);
            next
        };
        rest = next.trim_start();
    }
    Some(tokens)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn keys_of_tsig_keygen_are_parsed() {
        for text in [
            "key \"galley\" {\n\talgorithm hmac-sha256;\n\tsecret \"c2VjcmV0\";\n};\n",
            "# a comment\nkey galley { secret \"c2VjcmV0\"; algorithm HMAC-SHA256; }; // more",
            "/* key { */ key galley{algorithm hmac-sha256;secret c2VjcmV0;};",
        ] {
            let key = TsigKey::parse(text).unwrap();
            assert_eq!(key.name, DnsName::parse("galley").unwrap(), "{text}");
            assert_eq!(key.algorithm, DnsName::parse("hmac-sha256").unwrap());
            // The output of `openssl dgst -sha256 -hmac secret`.
            let mac = key.sign(&[b"a", b"b"]);
            assert!(key.verifies(&[b"ab"], &mac) && !key.verifies(&[b"ac"], &mac));
            assert!(!key.verifies(&[b"ab"], &mac[..16]), "a part of it");
            assert!(!format!("{key:?}").contains("secret"));
        }
    }

    #[test]
    fn other_files_are_rejected() {
        for (text, why) in [
            ("", BadTsigKey::Syntax),
            ("galley hmac-sha256 c2VjcmV0", BadTsigKey::Syntax),
            ("key a { algorithm hmac-sha256; };", BadTsigKey::Syntax),
            (
                "key a { algorithm hmac-sha256; secret \"c2Vj; };",
                BadTsigKey::Syntax,
            ),
            (
                "key a { secret b; secret b; algorithm hmac-sha256; };",
                BadTsigKey::Syntax,
            ),
            (
                "key a..b { algorithm hmac-sha256; secret c2VjcmV0; };",
                BadTsigKey::Syntax,
            ),
            (
                "key a { algorithm hmac-md5; secret c2VjcmV0; };",
                BadTsigKey::Algorithm,
            ),
            (
                "key a { algorithm hmac-sha256; secret \"?\"; };",
                BadTsigKey::Secret,
            ),
        ] {
            assert_eq!(TsigKey::parse(text).map(|_| ()), Err(why), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_without_panic(text in "[a-z{};\"#/*\\n ä-]{0,60}") {
            let _ = TsigKey::parse(&text);
            let _ = TsigKey::parse(&format!("key a {{ {text}"));
        }
    }
}
