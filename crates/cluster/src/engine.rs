//! Connections to Valkey or Redis, and the commands that a cluster needs.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use redis::streams::StreamReadReply;
use redis::{ConnectionInfo, IntoConnectionInfo, cmd};

use crate::connection::EngineConnection;
use crate::engine_replies::{KnownStream, Progress, Renewal};
use crate::engine_scripts::{BEGIN, PROGRESS, REGISTER};
use crate::error::{EngineError, password};
use crate::identity::EngineIdentity;
use crate::info::EngineInfo;
use crate::lease::KEY_LIFETIME;
use crate::limits::ChargeEntry;
use crate::sentinel::Sentinels;
use crate::stream_id::StreamId;

/// The address of the engine, and the names of the cluster's keys.
#[derive(Clone)]
pub(crate) struct Engine {
    address: EngineAddress,
    password_file: Option<PathBuf>,
    keys: EngineKeys,
}

#[derive(Clone)]
enum EngineAddress {
    Fixed(Box<ConnectionInfo>),
    Sentinels(Sentinels),
}

#[derive(Clone)]
pub(crate) struct EngineKeys {
    pub(crate) purges: String,
    pub(crate) members: String,
    epoch: String,
    pub(crate) node_prefix: String,
    pub(crate) head_prefix: String,
    pub(crate) limits: String,
    prefix: String,
}

/// An open connection to a primary.
pub(crate) struct Session {
    pub(crate) connection: EngineConnection,
    pub(crate) keys: EngineKeys,
    pub(crate) identity: EngineIdentity,
    pub(crate) version: String,
    pub(crate) has_replicas: bool,
    /// The sentinels that named this primary, if any.
    chosen: Option<EngineChoice>,
}

struct EngineChoice {
    by: Sentinels,
    primary: String,
}

struct OpenConnection {
    connection: EngineConnection,
    chosen: Option<EngineChoice>,
}

impl Engine {
    pub(crate) fn new(
        address: &str,
        password_file: Option<PathBuf>,
        cluster: &str,
    ) -> Result<Self, EngineError> {
        let prefix = format!("galley:{cluster}:");
        let key = |name: &str| format!("{prefix}{name}");
        Ok(Self {
            address: match Sentinels::parse(address, password_file.as_ref())? {
                Some(sentinels) => EngineAddress::Sentinels(sentinels),
                None => EngineAddress::Fixed(Box::new(address.into_connection_info()?)),
            },
            password_file,
            keys: EngineKeys {
                purges: key("purges"),
                members: key("members"),
                epoch: key("epoch"),
                node_prefix: key("node:"),
                head_prefix: key("head:"),
                limits: key("limits"),
                prefix: prefix.clone(),
            },
        })
    }

    /// Connects and authenticates. Waits at most [`CONNECT_TIMEOUT`], then `reply_timeout` for each reply.
    pub(crate) fn connect(&self, reply_timeout: Duration) -> Result<Session, EngineError> {
        let OpenConnection {
            mut connection,
            chosen,
        } = self.open(reply_timeout)?;
        let info = EngineInfo::query(&mut connection)?;
        if info.text("role") != "master" {
            return Err(EngineError::Replica);
        }
        Ok(Session {
            connection,
            keys: self.keys.clone(),
            identity: EngineIdentity {
                run: info.text("run_id"),
                replication: info.text("master_replid"),
            },
            version: info.version(),
            has_replicas: info.text("connected_slaves") != "0",
            chosen,
        })
    }

    /// The sentinels, if the address names any.
    pub(crate) fn sentinels(&self) -> Option<&Sentinels> {
        match &self.address {
            EngineAddress::Fixed(_) => None,
            EngineAddress::Sentinels(sentinels) => Some(sentinels),
        }
    }

    /// A connection to the primary for `galley check`.
    pub(crate) fn connect_to_inspect(&self) -> Result<EngineConnection, EngineError> {
        Ok(self.open(CONNECT_TIMEOUT)?.connection)
    }

    /// The key of an item with a kind and a name.
    pub(crate) fn key(&self, kind: &str, name: &str) -> String {
        format!("{}{kind}:{name}", self.keys.prefix)
    }

    /// The address of the primary, with the password.
    pub(crate) fn login(&self) -> Result<ConnectionInfo, EngineError> {
        Ok(self.choose()?.0)
    }

    fn choose(&self) -> Result<(ConnectionInfo, Option<EngineChoice>), EngineError> {
        let (mut info, chosen) = match &self.address {
            EngineAddress::Fixed(info) => (info.as_ref().clone(), None),
            EngineAddress::Sentinels(sentinels) => {
                let (primary, info) = sentinels.primary()?;
                let by = sentinels.clone();
                (info, Some(EngineChoice { by, primary }))
            }
        };
        if let Some(password) = password(self.password_file.as_deref())? {
            let login = info.redis_settings().clone().set_password(&password);
            info = info.set_redis_settings(login);
        }
        Ok((info, chosen))
    }

    fn open(&self, reply_timeout: Duration) -> Result<OpenConnection, EngineError> {
        let (info, chosen) = self.choose()?;
        let connection = EngineConnection::open(&info, CONNECT_TIMEOUT, reply_timeout)?;
        Ok(OpenConnection { connection, chosen })
    }
}

impl Session {
    /// A time, at most `now`, at which this certainly was the primary; `None`: not confirmed.
    ///
    /// # Errors
    /// Another engine is the primary.
    pub(crate) fn confirmed(&self, now: Instant) -> Result<Option<Instant>, EngineError> {
        match &self.chosen {
            None => Ok(Some(now)),
            Some(chosen) => Ok(chosen.by.confirmed(&chosen.primary)?.map(|at| at.min(now))),
        }
    }

    /// Makes the node a member and returns the epoch. Called before the node catches up: a publisher that does not see the
    /// member yet has appended its purge already.
    pub(crate) fn join(
        &mut self,
        member: &str,
        last: StreamId,
    ) -> Result<Option<String>, EngineError> {
        Ok(self.register(member, last, None)?.epoch)
    }

    /// Renews the node's key, unless the stream has lost entries that the node has not read. `known`: the node's state of the
    /// stream.
    pub(crate) fn renew(
        &mut self,
        member: &str,
        known: &KnownStream<'_>,
        last: StreamId,
    ) -> Result<Renewal, EngineError> {
        self.register(member, last, Some(known))
    }

    fn register(
        &mut self,
        member: &str,
        last: StreamId,
        known: Option<&KnownStream<'_>>,
    ) -> Result<Renewal, EngineError> {
        let mut command = cmd("EVAL");
        command
            .arg(REGISTER)
            .arg(4)
            .arg(format!("{}{member}", self.keys.node_prefix))
            .arg(&self.keys.members)
            .arg(&self.keys.epoch)
            .arg(&self.keys.purges)
            .arg(last.to_string())
            .arg(u64::try_from(KEY_LIFETIME.as_millis()).unwrap_or(u64::MAX))
            .arg(member)
            .arg(MEMBER_LIFETIME.as_secs())
            .arg(
                known
                    .map(|known| known.before.to_string())
                    .unwrap_or_default(),
            )
            .arg(known.map(|known| known.epoch).unwrap_or_default());
        let (is_whole, epoch) = command.query(&mut self.connection)?;
        Ok(Renewal { epoch, is_whole })
    }

    /// Creates the stream if it does not exist, and with it an epoch. Nothing else creates one, so each stream has a separate
    /// epoch.
    pub(crate) fn begin_stream(&mut self) -> Result<(), EngineError> {
        let mut command = cmd("EVAL");
        command.arg(BEGIN).arg(2);
        command.arg(&self.keys.purges).arg(&self.keys.epoch);
        command
            .arg(random_word())
            .query(&mut self.connection)
            .map_err(EngineError::from)
    }

    /// Appends charges of this node and returns the charges of all nodes after `last`. One round trip, which does not wait.
    pub(crate) fn exchange_charges(
        &mut self,
        node: &str,
        charges: &[Vec<u8>],
        last: StreamId,
    ) -> Result<Vec<ChargeEntry>, EngineError> {
        let mut pipe = redis::pipe();
        for some in charges {
            let command = pipe.cmd("XADD").arg(&self.keys.limits);
            command.arg("MAXLEN").arg("~").arg(MAX_CHARGE_ENTRIES);
            command
                .arg("*")
                .arg("n")
                .arg(node)
                .arg("c")
                .arg(some.as_slice());
            command.ignore();
        }
        if !charges.is_empty() {
            let command = pipe.cmd("EXPIRE").arg(&self.keys.limits);
            command.arg(CHARGES_LIFETIME.as_secs()).ignore();
        }
        let command = pipe.cmd("XREAD").arg("COUNT").arg(CHARGES_AT_A_TIME);
        command.arg("STREAMS").arg(&self.keys.limits);
        command.arg(last.to_string());
        let (reply,): (Option<StreamReadReply>,) = pipe.query(&mut self.connection)?;
        let streams = reply.map(|reply| reply.keys).unwrap_or_default();
        let entries = streams.into_iter().flat_map(|stream| stream.ids);
        entries
            .map(|entry| {
                Ok(ChargeEntry {
                    id: StreamId::parse(&entry.id).ok_or(EngineError::Reply("a stream id"))?,
                    node: entry.get("n").unwrap_or_default(),
                    charges: entry.get("c").unwrap_or_default(),
                })
            })
            .collect()
    }

    /// The progress of the members in the sorted set and of those in `known`. One round trip, which writes nothing.
    pub(crate) fn progress(&mut self, known: &[String]) -> Result<Progress, EngineError> {
        let mut command = cmd("EVAL");
        command
            .arg(PROGRESS)
            .arg(2)
            .arg(&self.keys.members)
            .arg(&self.keys.epoch)
            .arg(&self.keys.node_prefix)
            .arg(known);
        let (epoch, members, values): (Option<String>, Vec<String>, Vec<Option<String>>) =
            command.query(&mut self.connection)?;
        let ids = values
            .iter()
            .map(|value| value.as_deref().and_then(StreamId::parse));
        // A member that is in both lists has one key.
        let members: BTreeMap<String, Option<StreamId>> = members.into_iter().zip(ids).collect();
        Ok(Progress {
            epoch,
            members: members.into_iter().collect(),
        })
    }

    /// Removes members without a lease from the set.
    pub(crate) fn remove(&mut self, members: &[String]) -> Result<(), EngineError> {
        cmd("ZREM")
            .arg(&self.keys.members)
            .arg(members)
            .query(&mut self.connection)
            .map_err(EngineError::from)
    }
}

/// 128 random bits in hexadecimal.
pub(crate) fn random_word() -> String {
    let mut bytes = [0_u8; 16];
    // The kernel's generator returns that many at once and cannot fail after the system has started.
    let filled = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    debug_assert_eq!(filled, Ok(bytes.len()));
    format!("{:032x}", u128::from_ne_bytes(bytes))
}

const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// The approximate number of entries with charges that are kept: those of a second of 100 nodes. At most 16 MiB.
const MAX_CHARGE_ENTRIES: usize = 10_000;

/// As many entries with charges are read at a time, so that the longest ones fit into one reply. The next round reads on.
const CHARGES_AT_A_TIME: usize = 4_000;

/// The lifetime of charges. Nodes read them ten times a second.
const CHARGES_LIFETIME: Duration = Duration::from_secs(10);

/// The time after which an absent member is removed.
const MEMBER_LIFETIME: Duration = Duration::from_secs(86_400);

#[cfg(test)]
mod tests {
    use galley_testkit::{Redis, Scratch};

    use super::*;
    use crate::limits::{LimitCharge, decode, entries};

    #[test]
    fn the_longest_charges_are_read_in_several_rounds() {
        let scratch = Scratch::new().unwrap();
        let redis = Redis::start(&scratch.join("redis")).unwrap();
        let engine = Engine::new(&redis.url(), None, "test").unwrap();
        let mut session = engine.connect(Duration::from_secs(10)).unwrap();
        let charges: Vec<LimitCharge> = (0..8_000 * 64)
            .map(|owner| LimitCharge { owner, ticks: 1 })
            .collect();
        let mut node = engine.connect(Duration::from_secs(10)).unwrap();
        for some in entries(&charges).chunks(1_000) {
            node.exchange_charges(&random_word(), some, StreamId::from_bytes([0xff; 16]))
                .unwrap();
        }
        let (mut last, mut count) = (StreamId::START, 0);
        loop {
            let found = session.exchange_charges("own", &[], last).unwrap();
            let Some(newest) = found.last() else { break };
            last = newest.id;
            count += found
                .iter()
                .map(|entry| decode(&entry.charges).len())
                .sum::<usize>();
        }
        assert_eq!(count, charges.len());
    }
}
