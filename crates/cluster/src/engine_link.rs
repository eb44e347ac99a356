//! A connection to the engine that many tasks share. It is opened again after each failure.
//!
//! Commands never wait for a connection: without one they fail immediately.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, FromRedisValue, Pipeline, RedisError};
use tokio::sync::Notify;
use tokio::time::sleep;

use crate::engine::Engine;
use crate::error::EngineError;
use galley_sys::Lock;

/// See the module.
pub(crate) struct EngineLink {
    engine: Engine,
    state: Lock<LinkState>,
    /// Notified when the connection has failed.
    broken: Notify,
}

#[derive(Default)]
struct LinkState {
    connection: Option<MultiplexedConnection>,
    /// The number of the connection.
    number: u64,
}

impl EngineLink {
    /// A link without a connection.
    pub(crate) fn new(engine: Engine) -> Self {
        Self {
            engine,
            state: Lock::default(),
            broken: Notify::new(),
        }
    }

    /// The key of an item with a kind and a name.
    pub(crate) fn key(&self, kind: &str, name: &str) -> String {
        self.engine.key(kind, name)
    }

    /// Sends a command; `None`: there is no connection, no reply in time, or an error.
    pub(crate) async fn query<T: FromRedisValue>(&self, command: &Cmd) -> Option<T> {
        let (mut connection, number) = self.connection()?;
        let reply = command.query_async(&mut connection).await;
        reply.map_err(|error| self.failed(&error, number)).ok()
    }

    /// Sends several commands together; `None`: see [`EngineLink::query`].
    pub(crate) async fn query_pipeline<T: FromRedisValue>(&self, commands: &Pipeline) -> Option<T> {
        let (mut connection, number) = self.connection()?;
        let replies = commands.query_async(&mut connection).await;
        replies.map_err(|error| self.failed(&error, number)).ok()
    }

    fn connection(&self) -> Option<(MultiplexedConnection, u64)> {
        let state = self.state.lock();
        Some((state.connection.clone()?, state.number))
    }

    /// Handles the failure of a command on the connection with this number.
    fn failed(&self, error: &RedisError, number: u64) {
        tracing::debug!(%error, "a command for the engine of the cluster has failed");
        let mut state = self.state.lock();
        // A new connection also reads a new password, and finds a new primary.
        if state.number == number && state.connection.take().is_some() {
            self.broken.notify_one();
        }
    }

    /// Connects, and reconnects after each failure. Runs until the future is dropped.
    pub(crate) async fn keep_connected(&self) {
        let mut pause = FIRST_PAUSE;
        loop {
            match self.connect().await {
                Ok(connection) => {
                    {
                        let mut state = self.state.lock();
                        state.number += 1;
                        state.connection = Some(connection);
                    }
                    pause = FIRST_PAUSE;
                    self.broken.notified().await;
                }
                Err(error) => {
                    tracing::debug!(%error, "nothing is shared with other nodes for now");
                    sleep(pause).await;
                    pause = (pause * 2).min(MAX_PAUSE);
                }
            }
        }
    }

    async fn connect(&self) -> Result<MultiplexedConnection, EngineError> {
        let client = Client::open(self.engine.login()?)?;
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_TIMEOUT))
            .set_response_timeout(Some(REPLY_TIMEOUT));
        let connecting = client.get_multiplexed_async_connection_with_config(&config);
        Ok(connecting.await?)
    }
}

/// The reply timeout of background commands. Visitors wait for less time.
const REPLY_TIMEOUT: Duration = Duration::from_millis(500);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// The pause between two attempts to connect.
const FIRST_PAUSE: Duration = Duration::from_millis(25);
const MAX_PAUSE: Duration = Duration::from_secs(1);
