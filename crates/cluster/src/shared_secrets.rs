//! Secrets that nodes share through the engine: certificates with their keys, and the data for obtaining them.
//!
//! ```text
//! galley:<name>:secret:<kind> <name>     see `secret_value`; expires with the secret
//! galley:<name>:notes:<kind>             a list of short secrets that are valid for minutes
//! galley:<name>:turn:<kind> <name>       a random text: a node is creating the secret; see `secret_lock`
//! galley:<name>:failures:<kind> <name>   the number of failures in a row
//! ```
//!
//! A client that can write to the engine can remove a secret, or replace it by an earlier one. So a caller uses a secret only if
//! it is newer than the caller's own. An unreachable engine is a separate error: a secret counts as missing only if the engine
//! reports that.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use redis::cmd;

use crate::cluster_key::ClusterKey;
use crate::engine::Engine;
use crate::engine_link::EngineLink;
use crate::error::EngineUnavailable;
use crate::page_value::milliseconds;
use crate::secret_lock::SecretLock;
use crate::secret_value::{self, SecretName};

/// See the module. Clones share the state.
#[derive(Clone)]
pub struct SharedSecrets {
    key: Arc<ClusterKey>,
    link: Arc<EngineLink>,
}

/// Notes in the engine, until they are withdrawn or expire.
pub struct PostedNotes {
    secrets: SharedSecrets,
    list: String,
    values: Vec<Vec<u8>>,
}

impl SharedSecrets {
    pub(crate) fn new(engine: Engine, key: Arc<ClusterKey>) -> Self {
        Self {
            key,
            link: Arc::new(EngineLink::new(engine)),
        }
    }

    /// Keeps a connection to the engine until the future is dropped. Without it all calls fail.
    pub async fn keep_connected(&self) {
        self.link.keep_connected().await;
    }

    /// The secret with a name; `None`: no node has stored one, or it has expired.
    ///
    /// # Errors
    ///
    /// The engine does not reply.
    pub async fn find(
        &self,
        name: SecretName<'_>,
        now: SystemTime,
    ) -> Result<Option<Vec<u8>>, EngineUnavailable> {
        let mut command = cmd("EVAL");
        command.arg(READ).arg(1).arg(self.key_of(SECRET, name));
        command.arg(MAX_BYTES);
        let value: Option<Vec<u8>> = self.link.query(&command).await.ok_or(EngineUnavailable)?;
        let Some(value) = value else { return Ok(None) };
        let secret = secret_value::open(&self.key, name, now, &value);
        if secret.is_none() {
            tracing::warn!(
                kind = name.kind,
                name = name.name,
                "a secret in the engine of the cluster is ignored: no node has stored it, or it has expired"
            );
        }
        Ok(secret)
    }

    /// Replaces a secret, valid until `until`. Returns false if it was not stored.
    pub async fn store(
        &self,
        name: SecretName<'_>,
        secret: &[u8],
        now: SystemTime,
        until: SystemTime,
    ) -> bool {
        let lifetime = until.duration_since(now).unwrap_or_default();
        let value = secret_value::seal(&self.key, name, until, secret);
        let Some(value) = value.filter(|value| value.len() <= MAX_BYTES && !lifetime.is_zero())
        else {
            return false;
        };
        let mut command = cmd("SET");
        command.arg(self.key_of(SECRET, name)).arg(value);
        command.arg("PX").arg(milliseconds(lifetime).max(1));
        self.link.query::<()>(&command).await.is_some()
    }

    /// Acquires the lock for creating a secret; `None`: another node has it.
    ///
    /// # Errors
    /// The engine does not reply.
    pub async fn take_turn(
        &self,
        name: SecretName<'_>,
    ) -> Result<Option<SecretLock>, EngineUnavailable> {
        let [turn, failures] = [TURN, FAILURES].map(|kind| self.key_of(kind, name));
        SecretLock::take(&self.link, turn, failures).await
    }

    /// Adds notes of a kind, which all nodes can read for `lifetime`.
    ///
    /// # Errors
    /// The engine does not reply.
    pub async fn post(
        &self,
        kind: &str,
        notes: impl Iterator<Item = Vec<u8>>,
        now: SystemTime,
        lifetime: Duration,
    ) -> Result<PostedNotes, EngineUnavailable> {
        let until = now.checked_add(lifetime).unwrap_or(now);
        let name = SecretName { kind, name: "" };
        let sealed = notes.filter_map(|note| secret_value::seal(&self.key, name, until, &note));
        let posted = PostedNotes {
            secrets: self.clone(),
            list: self.link.key(NOTES, kind),
            values: sealed.collect(),
        };
        let mut command = cmd("EVAL");
        command.arg(POST).arg(1).arg(&posted.list);
        command.arg(milliseconds(lifetime)).arg(MAX_NOTES);
        command.arg(&posted.values);
        let stored = self.link.query::<()>(&command).await;
        stored.map(|()| posted).ok_or(EngineUnavailable)
    }

    /// The valid notes of a kind.
    ///
    /// # Errors
    /// The engine does not reply.
    pub async fn notes(
        &self,
        kind: &str,
        now: SystemTime,
    ) -> Result<Vec<Vec<u8>>, EngineUnavailable> {
        let mut command = cmd("EVAL");
        command.arg(LIST).arg(1).arg(self.link.key(NOTES, kind));
        command.arg(MAX_NOTES).arg(MAX_NOTE_BYTES);
        let values: Vec<Vec<u8>> = self.link.query(&command).await.ok_or(EngineUnavailable)?;
        let name = SecretName { kind, name: "" };
        let notes = values.iter();
        Ok(notes
            .filter_map(|value| secret_value::open(&self.key, name, now, value))
            .collect())
    }

    fn key_of(&self, kind: &str, name: SecretName<'_>) -> String {
        self.link.key(kind, &format!("{} {}", name.kind, name.name))
    }
}

impl PostedNotes {
    /// Whether there are no notes.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Removes the notes.
    pub async fn withdraw(self) {
        let mut command = cmd("EVAL");
        command.arg(WITHDRAW).arg(1).arg(&self.list);
        command.arg(&self.values);
        // If the engine does not reply, they expire.
        let _: Option<i64> = self.secrets.link.query(&command).await;
    }
}

/// `KEYS`: a secret. `ARGV`: maximum size in bytes.
const READ: &str = "\
if redis.call('STRLEN', KEYS[1]) > tonumber(ARGV[1]) then return false end
return redis.call('GET', KEYS[1])";

/// `KEYS`: a list. `ARGV`: milliseconds, maximum number of notes, the notes.
const POST: &str = "\
for at = 3, #ARGV do redis.call('RPUSH', KEYS[1], ARGV[at]) end
redis.call('LTRIM', KEYS[1], -tonumber(ARGV[2]), -1)
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return redis.status_reply('OK')";

/// `KEYS`: a list. `ARGV`: maximum number of notes, maximum size of each in bytes.
const LIST: &str = "\
local notes = {}
for _, note in ipairs(redis.call('LRANGE', KEYS[1], -tonumber(ARGV[1]), -1)) do
  if #note <= tonumber(ARGV[2]) then notes[#notes + 1] = note end
end
return notes";

/// `KEYS`: a list. `ARGV`: the notes.
const WITHDRAW: &str = "\
for _, note in ipairs(ARGV) do redis.call('LREM', KEYS[1], 1, note) end
return 1";

const SECRET: &str = "secret";
const TURN: &str = "turn";
const FAILURES: &str = "failures";
const NOTES: &str = "notes";

/// The maximum size of a sealed secret in bytes. A private key with a long chain is smaller.
const MAX_BYTES: usize = 256 * 1024;

/// The maximum number of notes of a kind: the challenges of ten orders with a hundred names each.
const MAX_NOTES: usize = 1024;

/// The maximum size of a sealed note in bytes.
const MAX_NOTE_BYTES: usize = 2048;
