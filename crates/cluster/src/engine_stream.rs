//! The commands of a session that read and write the stream of purges, and the heads of the nodes.

use std::time::Duration;

use redis::cmd;
use redis::streams::StreamReadReply;

use crate::cluster_key::ClusterKey;
use crate::engine::Session;
use crate::engine_replies::{AppendReply, EngineSpace, MemberHead, NewEntry};
use crate::engine_scripts::{APPEND, HAS, HEADS, NEWEST, REMOVE_LONG};
use crate::entry_seal;
use crate::error::EngineError;
use crate::head::MAX_HEAD;
use crate::message::{Fields, Message};
use crate::stream_id::StreamId;

/// An entry of the stream.
pub(crate) struct StreamEntry {
    pub(crate) id: StreamId,
    /// `None`: it cannot be parsed.
    pub(crate) message: Option<Message>,
    /// The entry before, in the same run; `None`: the entry has no seal of a node.
    pub(crate) previous: Option<StreamId>,
}

impl Session {
    /// Whether the stream contains an entry.
    pub(crate) fn has(&mut self, id: StreamId) -> Result<bool, EngineError> {
        let mut command = cmd("EVAL");
        command.arg(HAS).arg(1).arg(&self.keys.purges);
        let count: u64 = command.arg(id.to_string()).query(&mut self.connection)?;
        Ok(count > 0)
    }

    /// The newest purge; [`StreamId::START`] if there is none.
    pub(crate) fn newest(&mut self) -> Result<StreamId, EngineError> {
        let stream = self.keys.purges.clone();
        self.back_from_newest(&stream, 1)
    }

    /// The oldest of the newest `count` purges; [`StreamId::START`] if there is none.
    pub(crate) fn oldest_of_newest(&mut self, count: usize) -> Result<StreamId, EngineError> {
        let stream = self.keys.purges.clone();
        self.back_from_newest(&stream, count)
    }

    /// The newest entry with charges; [`StreamId::START`] if there is none.
    pub(crate) fn newest_charges(&mut self) -> Result<StreamId, EngineError> {
        let stream = self.keys.limits.clone();
        self.back_from_newest(&stream, 1)
    }

    fn back_from_newest(&mut self, stream: &str, count: usize) -> Result<StreamId, EngineError> {
        let mut command = cmd("EVAL");
        command.arg(NEWEST).arg(1).arg(stream).arg(count);
        let newest: Option<String> = command.query(&mut self.connection)?;
        match newest {
            None => Ok(StreamId::START),
            Some(id) => StreamId::parse(&id).ok_or(EngineError::Reply("a stream id")),
        }
    }

    /// The entries after `last`, at most `count`. `wait`: the maximum wait for entries. `key`: verifies their seals.
    ///
    /// # Errors
    /// [`EngineError::TooLong`]: they are larger than a reply may be.
    pub(crate) fn read(
        &mut self,
        last: StreamId,
        wait: Option<Duration>,
        count: usize,
        key: Option<&ClusterKey>,
    ) -> Result<Vec<StreamEntry>, EngineError> {
        let mut command = cmd("XREAD");
        command.arg("COUNT").arg(count);
        if let Some(wait) = wait {
            let milliseconds = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
            command.arg("BLOCK").arg(milliseconds.max(1));
        }
        command
            .arg("STREAMS")
            .arg(&self.keys.purges)
            .arg(last.to_string());
        let reply = command.query(&mut self.connection);
        if self.connection.is_too_long() {
            return Err(EngineError::TooLong);
        }
        let reply: Option<StreamReadReply> = reply?;
        let streams = reply.map(|reply| reply.keys).unwrap_or_default();
        let entries = streams.into_iter().flat_map(|stream| stream.ids);
        entries
            .map(|entry| {
                let id = StreamId::parse(&entry.id).ok_or(EngineError::Reply("a stream id"))?;
                let mut fields = Fields::new();
                for (name, value) in entry.map {
                    let value = redis::from_redis_value(value).map_err(redis::RedisError::from)?;
                    fields.insert(name, value);
                }
                Ok(StreamEntry {
                    id,
                    previous: key.and_then(|key| entry_seal::open(key, id, &fields)),
                    message: Message::of_entry(fields),
                })
            })
            .collect()
    }

    /// Removes the entry after `last` if no node has written it, because it is too long. Returns its id.
    pub(crate) fn remove_long(&mut self, last: StreamId) -> Result<Option<String>, EngineError> {
        let mut command = cmd("EVAL");
        command.arg(REMOVE_LONG).arg(1).arg(&self.keys.purges);
        command.arg(last.to_string()).arg(MAX_ENTRY_BYTES);
        Ok(command.query(&mut self.connection)?)
    }

    /// Appends all entries or none, and removes old entries so that about `kept` stay. At a full engine, fewer stay: a purge must
    /// reach the other nodes all the same.
    ///
    /// # Errors
    /// [`EngineError::Lost`]: the stream does not exist any more.
    pub(crate) fn append(
        &mut self,
        entries: &[NewEntry],
        kept: usize,
        space: EngineSpace,
    ) -> Result<AppendReply, EngineError> {
        let (kept, mode) = match space {
            EngineSpace::Left => (kept, ""),
            EngineSpace::None => (KEPT_WHEN_FULL, "full"),
        };
        let mut command = cmd("EVAL");
        command.arg(APPEND).arg(1).arg(&self.keys.purges);
        command.arg(kept).arg(mode);
        for entry in entries {
            match entry.id {
                Some(id) => command.arg(id.to_string()),
                None => command.arg("*"),
            };
            command.arg(entry.fields.len() * 2);
            for (name, value) in &entry.fields {
                command.arg(name).arg(value);
            }
        }
        let (result, ids): (u64, Vec<String>) = command.query(&mut self.connection)?;
        let ids = ids
            .iter()
            .map(|id| StreamId::parse(id).ok_or(EngineError::Reply("a stream id")))
            .collect::<Result<Vec<_>, _>>()?;
        match (result, ids.as_slice()) {
            (0, [last]) => Ok(AppendReply::Behind(*last)),
            (1, ids) if ids.len() == entries.len() => {
                self.wait_for_replica()?;
                Ok(AppendReply::Ids(ids.to_vec()))
            }
            (2, _) => Err(EngineError::Lost),
            _ => Err(EngineError::Reply("the ids of new entries")),
        }
    }

    /// No guarantee, because a failover may lose what one replica has, but it makes that rare.
    fn wait_for_replica(&mut self) -> Result<(), EngineError> {
        if self.has_replicas {
            let mut command = cmd("WAIT");
            let _: u64 = command.arg(1).arg(REPLICA_MS).query(&mut self.connection)?;
        }
        Ok(())
    }

    /// Writes the head of a member, and reads those of the members that were renewed last, and of the `known` ones.
    pub(crate) fn exchange_heads(
        &mut self,
        key: &ClusterKey,
        member: &str,
        head: &[u8],
        known: &[String],
    ) -> Result<Vec<MemberHead>, EngineError> {
        let mut command = cmd("EVAL");
        command
            .arg(HEADS)
            .arg(2)
            .arg(&self.keys.members)
            .arg(format!("{}{member}", self.keys.head_prefix))
            .arg(head)
            .arg(HEAD_LIFETIME_MS)
            .arg(&self.keys.node_prefix)
            .arg(&self.keys.head_prefix)
            .arg(MAX_MEMBERS)
            .arg(MAX_HEAD)
            .arg(known.get(..MAX_MEMBERS).unwrap_or(known));
        let rows: Vec<(String, u64, Vec<u8>)> = command.query(&mut self.connection)?;
        let members = rows.into_iter();
        let members = members
            .map(|(member, is_present, head)| MemberHead::open(key, member, is_present > 0, &head));
        Ok(members.collect())
    }
}

/// The maximum number of entries that are applied at a time.
pub(crate) const MAX_ENTRIES: usize = 512;

/// No entry of a node is longer: the texts of a purge have at most 64 KiB each.
const MAX_ENTRY_BYTES: usize = 1 << 20;

/// The approximate number of entries that the stream of a full engine keeps.
const KEPT_WHEN_FULL: usize = 10_000;

/// The maximum wait for the confirmation of a replica.
const REPLICA_MS: u64 = 50;

/// A head counts for 30 s at most.
const HEAD_LIFETIME_MS: u64 = 60_000;

/// The maximum number of members whose heads are read, and of known ones besides: at most 3 MB.
const MAX_MEMBERS: usize = 256;
