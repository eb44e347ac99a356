//! Connection ids: each names the endpoint that owns the connection, so that a datagram that reaches another one is forwarded.
//!
//! ```text
//! 0        8       9       11      13        14
//! | random | epoch | owner | check | cluster |      bytes 8 to 13 are masked
//! ```
//!
//! The mask is a block of AES under a key of this process, computed from the random bytes, as in the protection of packet headers (RFC 9001
//! section 5.4.3). So ids reveal neither the owner nor whether two of them belong together. The check tells ids of this server from random bytes that clients choose. The last
//! byte is masked with a key of the cluster: it tells ids of other nodes, whose connections this node can end, from most random bytes.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::aead::quic::{AES_128, HeaderProtectionKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};
use aws_lc_rs::hmac;
use quinn_proto::{ConnectionId, ConnectionIdGenerator, InvalidCid};

/// The length of a connection id, in bytes.
pub(super) const ID_BYTES: usize = NONCE_BYTES + ROUTE_BYTES + CLUSTER.len();

/// The endpoint that owns a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    /// The process, in the order of upgrades.
    pub(super) epoch: u8,
    /// The number of the endpoint in its process.
    pub(super) endpoint: u16,
}

/// The keys of connection ids, derived from the secret of this server, and those of resets and tokens, derived from that of its cluster.
pub(super) struct QuicKeys {
    ids: HeaderProtectionKey,
    cluster_ids: HeaderProtectionKey,
    pub(super) resets: Arc<hmac::Key>,
    pub(super) tokens: Arc<Prk>,
}

impl fmt::Debug for QuicKeys {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("QuicKeys")
    }
}

impl QuicKeys {
    /// Derives the keys; `cluster`: the secret that all nodes have, or that of this server. `None`: the cryptographic library refuses.
    pub(super) fn derive(secret: &[u8], cluster: &[u8]) -> Option<Self> {
        let root = |secret| Salt::new(HKDF_SHA256, b"galley quic").extract(secret);
        let mut ids = [0; 16];
        expand(&root(secret), b"connection ids", &mut ids)?;
        let root = root(cluster);
        let mut cluster_ids = [0; 16];
        expand(&root, b"ids of the cluster", &mut cluster_ids)?;
        let mut resets = [0; 32];
        expand(&root, b"stateless resets", &mut resets)?;
        let mut tokens = [0; 32];
        expand(&root, b"tokens", &mut tokens)?;
        Some(Self {
            ids: HeaderProtectionKey::new(&AES_128, &ids).ok()?,
            cluster_ids: HeaderProtectionKey::new(&AES_128, &cluster_ids).ok()?,
            resets: Arc::new(hmac::Key::new(hmac::HMAC_SHA256, &resets)),
            tokens: Arc::new(Salt::new(HKDF_SHA256, &[]).extract(&tokens)),
        })
    }

    /// The owner that an id names; `None` if it was not made with these keys.
    pub(super) fn owner(&self, id: &[u8]) -> Option<Owner> {
        let id: &[u8; ID_BYTES] = id.try_into().ok()?;
        let (nonce, masked) = id.split_first_chunk::<NONCE_BYTES>()?;
        let mut route = *masked.first_chunk::<ROUTE_BYTES>()?;
        mask(&self.ids, *nonce, &mut route)?;
        let [epoch, high, low, rest @ ..] = route;
        (rest == CHECK).then_some(Owner {
            epoch,
            endpoint: u16::from_be_bytes([high, low]),
        })
    }

    /// Whether a node of the cluster has made an id. True for one of 256 random ones, too.
    fn is_of_cluster(&self, id: &[u8]) -> bool {
        let Some((nonce, [.., mark])) = id.split_first_chunk::<NONCE_BYTES>() else {
            return false;
        };
        let mut mark = [*mark];
        mask(&self.cluster_ids, *nonce, &mut mark).is_some() && mark == CLUSTER
    }

    /// A new id.
    fn id(&self, owner: Owner) -> Option<ConnectionId> {
        let mut id = [0; ID_BYTES];
        let (nonce, rest) = id.split_first_chunk_mut::<NONCE_BYTES>()?;
        aws_lc_rs::rand::fill(nonce).ok()?;
        let [high, low] = owner.endpoint.to_be_bytes();
        let [first, second] = CHECK;
        let [cluster] = CLUSTER;
        rest.copy_from_slice(&[owner.epoch, high, low, first, second, cluster]);
        let (route, mark) = rest.split_at_mut(ROUTE_BYTES);
        mask(&self.ids, *nonce, route)?;
        mask(&self.cluster_ids, *nonce, mark)?;
        Some(ConnectionId::new(&id))
    }
}

/// Masks bytes, or removes their mask.
fn mask(key: &HeaderProtectionKey, nonce: [u8; NONCE_BYTES], bytes: &mut [u8]) -> Option<()> {
    let mut sample = [0; SAMPLE_BYTES];
    sample.get_mut(..NONCE_BYTES)?.copy_from_slice(&nonce);
    let mask = key.new_mask(&sample).ok()?;
    let masked = bytes.iter_mut().zip(mask);
    masked.for_each(|(byte, mask)| *byte ^= mask);
    Some(())
}

fn expand(root: &Prk, purpose: &[u8], key: &mut [u8]) -> Option<()> {
    let purpose = [purpose];
    let expanded = root.expand(&purpose, KeyBytes(key.len())).ok()?;
    expanded.fill(key).ok()
}

struct KeyBytes(usize);

impl KeyType for KeyBytes {
    fn len(&self) -> usize {
        self.0
    }
}

/// Makes the ids of one endpoint.
pub(super) struct IdGenerator {
    pub(super) keys: Arc<QuicKeys>,
    pub(super) owner: Owner,
}

impl ConnectionIdGenerator for IdGenerator {
    fn generate_cid(&mut self) -> ConnectionId {
        let id = self.keys.id(self.owner);
        // Only if the cryptographic library fails. Such an id reaches its endpoint as long as the client does not move.
        id.unwrap_or_else(|| ConnectionId::new(&[0; ID_BYTES]))
    }

    fn validate(&self, id: &ConnectionId) -> Result<(), InvalidCid> {
        // What QUIC does not know of these gets a stateless reset.
        self.keys.is_of_cluster(id).then_some(()).ok_or(InvalidCid)
    }

    fn cid_len(&self) -> usize {
        ID_BYTES
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

/// The connection id to which a datagram is addressed, if it has the length of those of this server; and whether it may open a connection.
pub(super) fn addressee(datagram: &[u8]) -> Option<&[u8]> {
    let (first, rest) = datagram.split_first()?;
    if first & LONG_HEADER == 0 {
        return rest.get(..ID_BYTES);
    }
    // Version, length of the id, id (RFC 9000 section 17.2).
    let (length, id) = rest.get(4..)?.split_first()?;
    (usize::from(*length) == ID_BYTES).then(|| id.get(..ID_BYTES))?
}

/// The bit of a long header (RFC 9000 section 17.2).
const LONG_HEADER: u8 = 0x80;

const NONCE_BYTES: usize = 8;

/// As many as the mask has.
const ROUTE_BYTES: usize = 5;

/// The length of a block of AES.
const SAMPLE_BYTES: usize = 16;

/// What the last byte of an id is without the mask.
const CLUSTER: [u8; 1] = *b"c";

/// What the bytes before it are without the mask.
const CHECK: [u8; 2] = *b"gq";

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn ids_name_their_owner_only_to_those_who_have_the_key() {
        let keys = Arc::new(QuicKeys::derive(b"a secret", b"the cluster's").unwrap());
        let owner = Owner {
            epoch: 3,
            endpoint: 0x1234,
        };
        let mut generator = IdGenerator {
            keys: Arc::clone(&keys),
            owner,
        };
        let ids: Vec<ConnectionId> = (0..1000).map(|_| generator.generate_cid()).collect();
        for id in &ids {
            assert_eq!(keys.owner(id), Some(owner));
            assert!(generator.validate(id).is_ok());
        }
        // No byte is constant, though all have the same owner.
        for at in 0..ID_BYTES {
            let values: HashSet<u8> = ids.iter().map(|id| id[at]).collect();
            assert!(values.len() > 200, "byte {at}: {} values", values.len());
        }
        // Another node knows ids of its cluster, but not their owner; other servers do not know them.
        for (cluster, most) in [(&b"the cluster's"[..], 1000), (b"another's", 20)] {
            let others = QuicKeys::derive(b"another secret", cluster).unwrap();
            let owned = ids.iter().filter(|id| others.owner(id).is_some()).count();
            assert!(owned <= 1, "{owned} of 1000");
            let known = ids.iter().filter(|id| others.is_of_cluster(id)).count();
            assert!(
                known <= most && (known == 1000) == (most == 1000),
                "{known} of 1000"
            );
            let token = |keys: &QuicKeys| hmac::sign(&keys.resets, &ids[0]).as_ref().to_vec();
            assert_eq!(token(&keys) == token(&others), most == 1000);
        }
        assert_eq!(keys.owner(&ids[0][1..]), None);
    }

    #[test]
    fn the_addressee_is_read_from_both_headers() {
        let id: Vec<u8> = (1..=14).collect();
        let short = [&[0x40], &id[..], b"payload"].concat();
        assert_eq!(addressee(&short), Some(&id[..]));
        let long = [&[0xc0, 0, 0, 0, 1, 14], &id[..], b"rest"].concat();
        assert_eq!(addressee(&long), Some(&id[..]));
        let other = [&[0xc0, 0, 0, 0, 1, 8], &id[..], b"rest"].concat();
        for too_short in [&other[..], &short[..14], &long[..19], &[0xc0], &[]] {
            assert_eq!(addressee(too_short), None, "{too_short:?}");
        }
    }
}
