//! One order, from the list of names to the certificate (RFC 8555 section 7.4).
//!
//! Challenge responses are served only while their order is in progress: they are removed with the order, however it ends.
//! An order whose future is dropped leaves only an unfinished order at the directory, which expires.

use std::sync::Arc;
use std::time::Duration;

use galley_cluster::PostedNotes;
use galley_config::{AcmeChallenge, DnsProof};
use instant_acme::{
    AuthorizationHandle, AuthorizationStatus, CertificateIdentifier, ChallengeHandle,
    ChallengeType, Identifier, NewOrder, Order, OrderStatus, RetryPolicy,
};

use super::Acme;
use super::account::OpenedAccount;
use super::certificate;
use super::challenge::{Challenge, PostedChallenge};
use super::dns::TxtRecord;
use super::problem::OrderError;
use super::sharing::Sharing;
use crate::Certificates;

/// The contents of an order.
pub(super) struct OrderRequest<'a> {
    pub(super) names: &'a [String],
    /// The certificate that this order replaces (RFC 9773 section 5).
    pub(super) replaces: Option<CertificateIdentifier<'static>>,
    pub(super) profile: Option<&'a str>,
    /// The permitted challenge types, the preferred one first.
    pub(super) ways: &'a [AcmeChallenge],
    pub(super) dns: Option<&'a DnsProof>,
    pub(super) acme: &'a Arc<Acme>,
    pub(super) handshakes: &'a Arc<Certificates>,
    /// The other nodes, which also answer challenges.
    pub(super) sharing: Option<&'a Sharing>,
}

impl OrderRequest<'_> {
    /// Completes the order. Returns the private key and the chain in PEM.
    pub(super) async fn run(self, opened: &OpenedAccount) -> Result<String, OrderError> {
        let names: Vec<Identifier> = self.names.iter().cloned().map(Identifier::Dns).collect();
        let mut wanted = NewOrder::new(&names);
        if let Some(replaces) = self.replaces.clone() {
            wanted = wanted.replaces(replaces);
        }
        if let Some(profile) = self.profile {
            wanted = wanted.profile(profile);
        }
        let mut order = opened.account.new_order(&wanted).await?;
        let proofs = self.post_all(&mut order).await?;
        if !proofs.is_empty() {
            let notes = self.spread(&proofs).await;
            let proved = self.prove(&mut order, &proofs).await;
            drop(proofs);
            if let Some(notes) = notes {
                notes.withdraw().await;
            }
            proved?;
        }
        let (key, request) = certificate::request(self.names)?;
        order.finalize_csr(&request).await?;
        let chain = order.poll_certificate(&POLLING).await?;
        Ok(format!("{}{chain}", key.serialize_pem()))
    }

    /// Makes the other nodes answer the challenges, too.
    async fn spread(&self, proofs: &[PostedProof]) -> Option<PostedNotes> {
        let posted = proofs.iter().filter_map(|proof| proof.posted.as_ref());
        let challenges = posted.map(|posted| &posted.challenge);
        self.sharing?.spread(challenges).await
    }

    /// Tells the directory that the challenges are ready, and waits until it has validated them.
    async fn prove(&self, order: &mut Order, proofs: &[PostedProof]) -> Result<(), OrderError> {
        let has_records = proofs.iter().any(|proof| proof.record.is_some());
        if let Some(dns) = self.dns.filter(|_| has_records) {
            tokio::time::sleep(dns.wait).await;
        }
        let mut authorizations = order.authorizations();
        while let Some(authorization) = authorizations.next().await {
            let mut authorization = authorization?;
            if authorization.status == AuthorizationStatus::Pending {
                let name = authorization.identifier().to_string();
                let mut challenge = choose(&mut authorization, self.ways, &name)?;
                // The directory may already have validated the challenge, and found it invalid, before it responds.
                let sent = challenge.set_ready().await;
                sent.map_err(|error| OrderError::about(&name, error))?;
            }
        }
        await_proof(order).await
    }

    /// Posts a challenge for each name that is not validated yet.
    async fn post_all(&self, order: &mut Order) -> Result<Vec<PostedProof>, OrderError> {
        let mut proofs = Vec::new();
        let mut authorizations = order.authorizations();
        while let Some(authorization) = authorizations.next().await {
            let mut authorization = authorization?;
            match authorization.status {
                AuthorizationStatus::Valid => {}
                AuthorizationStatus::Pending => {
                    let name = authorization.identifier().to_string();
                    let challenge = choose(&mut authorization, self.ways, &name)?;
                    proofs.push(self.post(&challenge, &name).await?);
                }
                AuthorizationStatus::Invalid
                | AuthorizationStatus::Revoked
                | AuthorizationStatus::Expired
                | AuthorizationStatus::Deactivated => return Err(refusal(&authorization)),
            }
        }
        Ok(proofs)
    }

    async fn post(
        &self,
        challenge: &ChallengeHandle<'_>,
        name: &str,
    ) -> Result<PostedProof, OrderError> {
        let proof = challenge.key_authorization();
        if let (ChallengeType::Dns01, Some(dns)) = (&challenge.r#type, self.dns) {
            let record = TxtRecord::set(&dns.hook, name, proof.dns_value()).await?;
            return Ok(PostedProof {
                posted: None,
                record: Some(record),
            });
        }
        let answered = if challenge.r#type == ChallengeType::TlsAlpn01 {
            let digest = proof.digest().as_ref().try_into();
            let digest = digest.map_err(|_| OrderError::new("the key authorization has no digest"));
            let name = name.to_owned();
            digest.map(|digest| Challenge::Handshake { name, digest })?
        } else {
            let token = challenge.token.clone();
            let response = proof.as_str().to_owned();
            Challenge::Http { token, response }
        };
        let posted = answered.post(self.acme, self.handshakes)?;
        Ok(PostedProof {
            posted: Some(posted),
            record: None,
        })
    }
}

/// The challenge of the first permitted type that the directory offers.
fn choose<'a>(
    authorization: &'a mut AuthorizationHandle<'a>,
    ways: &[AcmeChallenge],
    name: &str,
) -> Result<ChallengeHandle<'a>, OrderError> {
    let offered = |way: &&AcmeChallenge| {
        let wanted = kind(**way);
        let mut challenges = authorization.challenges.iter();
        challenges.any(|one| one.r#type == wanted && !one.token.is_empty())
    };
    let way = ways.iter().find(offered).copied();
    let challenge = way.and_then(|way| authorization.challenge(kind(way)));
    challenge.ok_or_else(|| {
        OrderError::new(format!(
            "{name}: the directory offers no challenge that `acme.challenge` allows"
        ))
    })
}

fn kind(way: AcmeChallenge) -> ChallengeType {
    match way {
        AcmeChallenge::Http01 => ChallengeType::Http01,
        AcmeChallenge::TlsAlpn01 => ChallengeType::TlsAlpn01,
        AcmeChallenge::Dns01 => ChallengeType::Dns01,
    }
}

/// Waits until the directory has validated all challenges; the error names the one that it rejected and the reason.
async fn await_proof(order: &mut Order) -> Result<(), OrderError> {
    let error = match order.poll_ready(&POLLING).await {
        Ok(OrderStatus::Ready | OrderStatus::Valid) => return Ok(()),
        Ok(_) => OrderError::new("the directory refused the order"),
        Err(error) => OrderError::from(error),
    };
    let mut authorizations = order.authorizations();
    while let Some(Ok(mut authorization)) = authorizations.next().await {
        let refused = authorization.refresh().await;
        if refused.is_ok_and(|state| state.status == AuthorizationStatus::Invalid) {
            return Err(refusal(&authorization));
        }
    }
    Err(error)
}

/// The directory's reason for rejecting the challenge of a name.
fn refusal(authorization: &AuthorizationHandle<'_>) -> OrderError {
    let name = authorization.identifier().to_string();
    let mut problems = authorization.challenges.iter();
    match problems.find_map(|challenge| challenge.error.as_ref()) {
        Some(problem) => OrderError::of_problem(Some(&name), problem),
        None => OrderError::new(format!("{name}: the directory refused the proof")),
    }
}

/// A posted challenge or DNS record; removed when this is dropped.
struct PostedProof {
    posted: Option<PostedChallenge>,
    record: Option<TxtRecord>,
}

/// Polls the order. A directory validates from several places in the world; most need two seconds.
const POLLING: RetryPolicy = RetryPolicy::new()
    .initial_delay(Duration::from_millis(250))
    .backoff(1.5)
    .timeout(Duration::from_secs(90));
