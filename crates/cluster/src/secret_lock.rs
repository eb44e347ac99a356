//! The lock for creating a secret for all nodes: no other node creates the same secret at that time.
//!
//! It expires if the node dies. If the engine loses it, another node may try, too, which does no harm.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use redis::cmd;
use tokio::time::timeout;

use crate::engine::random_word;
use crate::engine_link::EngineLink;
use crate::error::EngineUnavailable;
use crate::page_value::milliseconds;

/// The lock; see the module. It expires soon after it was dropped.
pub struct SecretLock {
    link: Arc<EngineLink>,
    turn: String,
    failures: String,
    word: String,
}

impl SecretLock {
    /// Acquires the lock; `None`: another node has it.
    pub(crate) async fn take(
        link: &Arc<EngineLink>,
        turn: String,
        failures: String,
    ) -> Result<Option<Self>, EngineUnavailable> {
        let word = random_word();
        let mut command = cmd("EVAL");
        command.arg(TAKE).arg(1).arg(&turn);
        command.arg(&word).arg(milliseconds(LIFETIME));
        let is_taken: bool = link.query(&command).await.ok_or(EngineUnavailable)?;
        Ok(is_taken.then(|| Self {
            link: Arc::clone(link),
            turn,
            failures,
            word,
        }))
    }

    /// Runs `work` and keeps the lock in the meantime.
    pub async fn during<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        loop {
            match timeout(LIFETIME / 3, work.as_mut()).await {
                Ok(done) => return done,
                Err(_in_progress) => self.keep_for(LIFETIME).await,
            }
        }
    }

    /// Counts a failure. Returns the number of failures in a row on all nodes; `None`: the engine does not reply.
    pub async fn count_failure(&self) -> Option<u32> {
        let mut command = cmd("EVAL");
        command.arg(COUNT).arg(1).arg(&self.failures);
        command.arg(FAILURES_LIFETIME.as_secs());
        self.link.query(&command).await
    }

    /// Keeps the lock for a time, during which no node can acquire it.
    pub async fn keep_for(&self, pause: Duration) {
        let mut command = cmd("EVAL");
        command.arg(KEEP).arg(1).arg(&self.turn);
        command.arg(&self.word).arg(milliseconds(pause).max(1));
        let _: Option<i64> = self.link.query(&command).await;
    }

    /// Resets the failures and releases the lock.
    pub async fn succeeded(self) {
        let mut command = cmd("DEL");
        command.arg(&self.failures);
        let _: Option<i64> = self.link.query(&command).await;
        self.release().await;
    }

    /// Releases the lock.
    pub async fn release(self) {
        let mut command = cmd("EVAL");
        command.arg(RELEASE).arg(1).arg(&self.turn).arg(&self.word);
        let _: Option<i64> = self.link.query(&command).await;
    }
}

/// `KEYS`: the lock. `ARGV`: its word, milliseconds.
const TAKE: &str = "\
return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) and 1 or 0";

/// `KEYS`: the lock. `ARGV`: its word, milliseconds.
const KEEP: &str = "\
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return 0";

/// Removes a lock or token. `KEYS`: the lock. `ARGV`: its word.
pub(crate) const RELEASE: &str = "\
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0";

/// `KEYS`: the failures. `ARGV`: seconds.
const COUNT: &str = "\
local count = redis.call('INCR', KEYS[1])
redis.call('EXPIRE', KEYS[1], ARGV[1])
return count";

/// The time after which the lock of a dead node expires.
const LIFETIME: Duration = Duration::from_secs(30);

/// Longer than the longest pause after a failure.
const FAILURES_LIFETIME: Duration = Duration::from_secs(2 * 86_400);
