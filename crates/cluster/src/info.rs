//! The properties that an engine reports (`INFO`, `CONFIG GET`).

use std::collections::HashMap;

use redis::cmd;

use crate::connection::EngineConnection;
use crate::error::EngineError;

/// The lines of `INFO`.
pub(crate) struct EngineInfo(HashMap<String, String>);

impl EngineInfo {
    pub(crate) fn query(connection: &mut EngineConnection) -> Result<Self, EngineError> {
        let text: String = cmd("INFO").query(connection)?;
        Ok(Self::read(&text))
    }

    pub(crate) fn read(text: &str) -> Self {
        let lines = text
            .lines()
            .filter_map(|line| line.trim_end().split_once(':'));
        Self(
            lines
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
        )
    }

    /// The value of a line; empty if there is no such line.
    pub(crate) fn text(&self, name: &str) -> String {
        self.0.get(name).cloned().unwrap_or_default()
    }

    /// The value as a number; 0 if there is no such line.
    pub(crate) fn number(&self, name: &str) -> u64 {
        self.0
            .get(name)
            .and_then(|text| text.parse().ok())
            .unwrap_or(0)
    }

    /// The version, with the name of the product if it is not Redis.
    pub(crate) fn version(&self) -> String {
        match self.0.get("valkey_version") {
            Some(version) => format!("Valkey {version}"),
            None => self.text("redis_version"),
        }
    }
}
