//! The ACME state that the nodes of a cluster share: certificates with their keys, the account, challenges, and which node's
//! turn it is to order.
//!
//! Everything is encrypted with the key of the cluster. While the engine of the cluster is unavailable, each node continues
//! with the files on its disk.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use galley_cluster::{EngineUnavailable, PostedNotes, SecretLock, SecretName, SharedSecrets};

use super::Acme;
use super::certificate::IssuedCertificate;
use super::challenge::{Challenge, PostedChallenge};
use crate::Certificates;
use galley_sys::clock::Clock;

/// The shared state for one directory.
pub(super) struct Sharing {
    secrets: SharedSecrets,
    directory: String,
    clock: Clock,
}

impl Sharing {
    pub(super) fn new(secrets: SharedSecrets, directory: &str, clock: Clock) -> Self {
        Self {
            secrets,
            directory: directory.to_owned(),
            clock,
        }
    }

    /// Keeps the connection to the engine until the future is dropped.
    pub(super) async fn keep_connected(self: Arc<Self>) {
        self.secrets.keep_connected().await;
    }

    /// The shared certificate with this first name; `None` if there is none that can be parsed.
    pub(super) async fn certificate(
        &self,
        first: &str,
    ) -> Result<Option<IssuedCertificate>, EngineUnavailable> {
        let name = self.name(first);
        let found = self.find(CERTIFICATE, &name).await?;
        Ok(found.and_then(|pem| IssuedCertificate::read(&pem).ok()))
    }

    /// Shares a certificate. Returns false if the engine does not store it.
    pub(super) async fn store_certificate(&self, first: &str, held: &IssuedCertificate) -> bool {
        let name = self.name(first);
        let name = SecretName {
            kind: CERTIFICATE,
            name: &name,
        };
        let (now, until) = (self.clock.wall(), held.validity.to);
        let stored = self.secrets.store(name, held.pem.as_bytes(), now, until);
        stored.await
    }

    /// Takes the turn to order a certificate; `None` if another node has it.
    pub(super) async fn take_turn(
        &self,
        first: &str,
    ) -> Result<Option<SecretLock>, EngineUnavailable> {
        let name = self.name(first);
        let name = SecretName {
            kind: CERTIFICATE,
            name: &name,
        };
        self.secrets.take_turn(name).await
    }

    /// The shared account.
    pub(super) async fn account(&self) -> Result<Option<String>, EngineUnavailable> {
        self.find(ACCOUNT, &self.directory).await
    }

    /// Shares an account. Without the engine the next node registers another one.
    pub(super) async fn store_account(&self, text: &str) {
        let name = self.account_name();
        let now = self.clock.wall();
        if let Some(until) = now.checked_add(ACCOUNT_LIFETIME) {
            self.secrets.store(name, text.as_bytes(), now, until).await;
        }
    }

    /// Takes the turn to register an account; `None` if another node has it.
    pub(super) async fn take_account_turn(&self) -> Result<Option<SecretLock>, EngineUnavailable> {
        self.secrets.take_turn(self.account_name()).await
    }

    /// Makes all nodes answer challenges, and returns when they do; `None`: only this node answers.
    pub(super) async fn spread(
        &self,
        challenges: impl Iterator<Item = &Challenge>,
    ) -> Option<PostedNotes> {
        let notes = challenges.map(Challenge::write);
        let (kind, now) = (CHALLENGE, self.clock.wall());
        let posted = self
            .secrets
            .post(kind, notes, now, CHALLENGE_LIFETIME)
            .await;
        match posted {
            Ok(posted) => {
                if !posted.is_empty() {
                    tokio::time::sleep(SPREAD).await;
                }
                Some(posted)
            }
            Err(away) => {
                tracing::warn!("{away}: this node alone answers the challenges of its order");
                None
            }
        }
    }

    /// Answers the challenges of other nodes' orders until the future is dropped.
    pub(super) async fn follow(self: Arc<Self>, acme: Arc<Acme>, handshakes: Arc<Certificates>) {
        let mut answered: HashMap<Vec<u8>, PostedChallenge> = HashMap::new();
        loop {
            if let Ok(notes) = self.secrets.notes(CHALLENGE, self.clock.wall()).await {
                let notes: HashSet<Vec<u8>> = notes.into_iter().collect();
                answered.retain(|note, _| notes.contains(note));
                for note in notes {
                    if answered.contains_key(&note) {
                        continue;
                    }
                    let challenge = Challenge::read(&note);
                    let posted = challenge.map(|challenge| challenge.post(&acme, &handshakes));
                    if let Some(Ok(posted)) = posted {
                        answered.insert(note, posted);
                    }
                }
            }
            tokio::time::sleep(FOLLOW_EVERY).await;
        }
    }

    async fn find(&self, kind: &str, name: &str) -> Result<Option<String>, EngineUnavailable> {
        let name = SecretName { kind, name };
        let found = self.secrets.find(name, self.clock.wall()).await?;
        Ok(found.and_then(|bytes| String::from_utf8(bytes).ok()))
    }

    /// The shared name of a certificate. It includes the directory, so that certificates of different directories are separate.
    fn name(&self, first: &str) -> String {
        format!("{} {first}", self.directory)
    }

    fn account_name(&self) -> SecretName<'_> {
        SecretName {
            kind: ACCOUNT,
            name: &self.directory,
        }
    }
}

const CERTIFICATE: &str = "certificate";
const ACCOUNT: &str = "account";
const CHALLENGE: &str = "challenge";

/// The interval between two checks for challenges.
const FOLLOW_EVERY: Duration = Duration::from_millis(500);

/// The time after which all nodes have a challenge: five check intervals.
const SPREAD: Duration = Duration::from_millis(2_500);

/// Longer than the time limit of an order.
const CHALLENGE_LIFETIME: Duration = Duration::from_secs(900);

/// The lifetime of the shared account; each order renews it.
const ACCOUNT_LIFETIME: Duration = Duration::from_secs(400 * 86_400);
