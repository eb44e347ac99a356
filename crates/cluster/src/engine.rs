//! Connections to Valkey or Redis, and the commands that a cluster needs.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use redis::streams::{StreamRangeReply, StreamReadReply};
use redis::{Client, Connection, ConnectionInfo, IntoConnectionInfo, Pipeline, RedisError, cmd};

use crate::error::{EngineError, password};
use crate::identity::EngineIdentity;
use crate::lease::KEY_LIFETIME;
use crate::message::{Fields, Message};
use crate::sentinel::Sentinels;
use crate::stream_id::StreamId;

/// Where the engine is, and under which names the cluster is there.
#[derive(Clone)]
pub(crate) struct Engine {
    address: EngineAddress,
    password_file: Option<PathBuf>,
    keys: Keys,
}

#[derive(Clone)]
enum EngineAddress {
    Fixed(Box<ConnectionInfo>),
    Sentinels(Sentinels),
}

#[derive(Clone)]
struct Keys {
    purges: String,
    members: String,
    epoch: String,
    node_prefix: String,
}

/// An entry of the stream. `message`: `None` if it cannot be understood.
pub(crate) struct StreamEntry {
    pub(crate) id: StreamId,
    pub(crate) message: Option<Message>,
}

/// What a node finds when it renews its key.
pub(crate) struct Renewal {
    pub(crate) epoch: Option<String>,
    /// Whether the entry that the node has applied last is in the stream.
    pub(crate) has_last: bool,
}

/// How far the members are.
pub(crate) struct Progress {
    pub(crate) epoch: Option<String>,
    /// Members with what their keys say; `None`: the key is absent.
    pub(crate) members: Vec<(String, Option<StreamId>)>,
}

/// An open connection to a primary.
pub(crate) struct Session {
    connection: Connection,
    keys: Keys,
    pub(crate) identity: EngineIdentity,
    pub(crate) version: String,
    has_replicas: bool,
    /// The sentinels that named this primary.
    chosen: Option<Chosen>,
}

struct Chosen {
    by: Sentinels,
    primary: String,
}

struct OpenConnection {
    connection: Connection,
    chosen: Option<Chosen>,
}

impl Engine {
    pub(crate) fn new(
        address: &str,
        password_file: Option<PathBuf>,
        cluster: &str,
    ) -> Result<Self, EngineError> {
        let key = |name: &str| format!("galley:{cluster}:{name}");
        Ok(Self {
            address: match Sentinels::parse(address, password_file.as_ref())? {
                Some(sentinels) => EngineAddress::Sentinels(sentinels),
                None => EngineAddress::Fixed(Box::new(address.into_connection_info()?)),
            },
            password_file,
            keys: Keys {
                purges: key("purges"),
                members: key("members"),
                epoch: key("epoch"),
                node_prefix: key("node:"),
            },
        })
    }

    /// Connects and authenticates. Waits for [`CONNECT_TIMEOUT`] at most, then for [`REPLY_TIMEOUT`] for each reply.
    pub(crate) fn connect(&self) -> Result<Session, EngineError> {
        let OpenConnection {
            mut connection,
            chosen,
        } = self.open()?;
        let info = Info::ask(&mut connection)?;
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
            version: info.text("redis_version"),
            has_replicas: info.text("connected_slaves") != "0",
            chosen,
        })
    }

    /// What has to watch the sentinels, where there are some.
    pub(crate) fn sentinels(&self) -> Option<&Sentinels> {
        match &self.address {
            EngineAddress::Fixed(_) => None,
            EngineAddress::Sentinels(sentinels) => Some(sentinels),
        }
    }

    fn open(&self) -> Result<OpenConnection, EngineError> {
        let (mut info, chosen) = match &self.address {
            EngineAddress::Fixed(info) => (info.as_ref().clone(), None),
            EngineAddress::Sentinels(sentinels) => {
                let (primary, info) = sentinels.primary()?;
                let by = sentinels.clone();
                (info, Some(Chosen { by, primary }))
            }
        };
        if let Some(password) = password(self.password_file.as_deref())? {
            let login = info.redis_settings().clone().set_password(&password);
            info = info.set_redis_settings(login);
        }
        let connection = Client::open(info)?.get_connection_with_timeout(CONNECT_TIMEOUT)?;
        connection.set_read_timeout(Some(REPLY_TIMEOUT))?;
        connection.set_write_timeout(Some(REPLY_TIMEOUT))?;
        Ok(OpenConnection { connection, chosen })
    }
}

impl Session {
    /// A moment after which this was the primary for certain, at most `now`; `None`: nothing is certain.
    ///
    /// # Errors
    /// Another one is the primary.
    pub(crate) fn confirmed(&self, now: Instant) -> Result<Option<Instant>, EngineError> {
        match &self.chosen {
            None => Ok(Some(now)),
            Some(chosen) => Ok(chosen.by.confirmed(&chosen.primary)?.map(|at| at.min(now))),
        }
    }

    /// Makes the node a member; the epoch. Before it catches up: a publisher that does not see the member yet has published before.
    pub(crate) fn join(
        &mut self,
        node: &str,
        last: StreamId,
    ) -> Result<Option<String>, EngineError> {
        let mut pipe = redis::pipe();
        self.register(&mut pipe, node, last);
        pipe.cmd("SET")
            .arg(&self.keys.epoch)
            .arg(random_word())
            .arg("NX")
            .ignore();
        pipe.cmd("GET").arg(&self.keys.epoch);
        let (epoch,) = pipe.query(&mut self.connection)?;
        Ok(epoch)
    }

    fn register(&self, pipe: &mut Pipeline, node: &str, last: StreamId) {
        pipe.cmd("SET")
            .arg(format!("{}{node}", self.keys.node_prefix))
            .arg(last.to_string())
            .arg("PX")
            .arg(u64::try_from(KEY_LIFETIME.as_millis()).unwrap_or(u64::MAX))
            .ignore();
        pipe.cmd("ZADD")
            .arg(&self.keys.members)
            .arg(unix_seconds())
            .arg(node)
            .ignore();
    }

    /// Renews the node's key, and looks for what a loss of data takes away.
    pub(crate) fn renew(&mut self, node: &str, last: StreamId) -> Result<Renewal, EngineError> {
        let mut pipe = redis::pipe();
        pipe.cmd("GET").arg(&self.keys.epoch);
        pipe.cmd("XRANGE")
            .arg(&self.keys.purges)
            .arg(last.to_string())
            .arg(last.to_string());
        self.register(&mut pipe, node, last);
        let (epoch, found): (Option<String>, StreamRangeReply) =
            pipe.query(&mut self.connection)?;
        Ok(Renewal {
            epoch,
            has_last: last == StreamId::START || !found.ids.is_empty(),
        })
    }

    /// Whether an entry is in the stream.
    pub(crate) fn has(&mut self, id: StreamId) -> Result<bool, EngineError> {
        let found: StreamRangeReply = cmd("XRANGE")
            .arg(&self.keys.purges)
            .arg(id.to_string())
            .arg(id.to_string())
            .query(&mut self.connection)?;
        Ok(!found.ids.is_empty())
    }

    /// The newest entry; [`StreamId::START`] if there is none.
    pub(crate) fn newest(&mut self) -> Result<StreamId, EngineError> {
        let found: StreamRangeReply = cmd("XREVRANGE")
            .arg(&self.keys.purges)
            .arg("+")
            .arg("-")
            .arg("COUNT")
            .arg(1)
            .query(&mut self.connection)?;
        match found.ids.first() {
            None => Ok(StreamId::START),
            Some(entry) => StreamId::parse(&entry.id).ok_or(EngineError::Reply("a stream id")),
        }
    }

    /// The entries after `last`, [`MOST_ENTRIES`] at a time. Waits for some if `wait` says so.
    pub(crate) fn read(
        &mut self,
        last: StreamId,
        wait: Option<Duration>,
    ) -> Result<Vec<StreamEntry>, EngineError> {
        let mut command = cmd("XREAD");
        command.arg("COUNT").arg(MOST_ENTRIES);
        if let Some(wait) = wait {
            let milliseconds = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
            command.arg("BLOCK").arg(milliseconds.max(1));
        }
        command
            .arg("STREAMS")
            .arg(&self.keys.purges)
            .arg(last.to_string());
        let reply: Option<StreamReadReply> = command.query(&mut self.connection)?;
        let streams = reply.map(|reply| reply.keys).unwrap_or_default();
        let entries = streams.into_iter().flat_map(|stream| stream.ids);
        entries
            .map(|entry| {
                let id = StreamId::parse(&entry.id).ok_or(EngineError::Reply("a stream id"))?;
                let mut fields = Fields::new();
                for (name, value) in entry.map {
                    fields.insert(
                        name,
                        redis::from_redis_value(value).map_err(RedisError::from)?,
                    );
                }
                Ok(StreamEntry {
                    id,
                    message: Message::read(fields),
                })
            })
            .collect()
    }

    /// Appends purges; their ids.
    pub(crate) fn append<'m>(
        &mut self,
        messages: impl Iterator<Item = &'m Message>,
    ) -> Result<Vec<StreamId>, EngineError> {
        let mut pipe = redis::pipe();
        for message in messages {
            let command = pipe.cmd("XADD");
            command
                .arg(&self.keys.purges)
                .arg("MAXLEN")
                .arg("~")
                .arg(MOST_IN_STREAM)
                .arg("*");
            for (name, value) in message.fields() {
                command.arg(name).arg(value);
            }
        }
        let ids: Vec<String> = pipe.query(&mut self.connection)?;
        if self.has_replicas {
            // Not a promise: a failover may lose what one replica has. It makes that rare.
            let _: u64 = cmd("WAIT")
                .arg(1)
                .arg(REPLICA_MS)
                .query(&mut self.connection)?;
        }
        ids.iter()
            .map(|id| StreamId::parse(id).ok_or(EngineError::Reply("a stream id")))
            .collect()
    }

    /// How far members are: those of the sorted set, and those in `known`.
    pub(crate) fn progress(&mut self, known: &[String]) -> Result<Progress, EngineError> {
        let oldest = unix_seconds().saturating_sub(MEMBER_LIFETIME.as_secs());
        let mut pipe = redis::pipe();
        pipe.cmd("ZREMRANGEBYSCORE")
            .arg(&self.keys.members)
            .arg("-inf")
            .arg(oldest)
            .ignore();
        pipe.cmd("ZRANGE").arg(&self.keys.members).arg(0).arg(-1);
        pipe.cmd("GET").arg(&self.keys.epoch);
        let (mut members, epoch): (Vec<String>, Option<String>) =
            pipe.query(&mut self.connection)?;
        members.extend(known.iter().cloned());
        members.sort_unstable();
        members.dedup();
        let mut pipe = redis::pipe();
        for member in &members {
            pipe.cmd("GET")
                .arg(format!("{}{member}", self.keys.node_prefix));
        }
        let values: Vec<Option<String>> = match members.len() {
            0 => Vec::new(),
            _ => pipe.query(&mut self.connection)?,
        };
        let ids = values
            .iter()
            .map(|value| value.as_deref().and_then(StreamId::parse));
        Ok(Progress {
            epoch,
            members: members.iter().cloned().zip(ids).collect(),
        })
    }
}

/// What `galley check` says about an engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineReport {
    /// Its version.
    pub version: String,
    /// What makes it unsuitable.
    pub problems: Vec<EngineProblem>,
}

/// A setting of an engine that does not suit a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineProblem {
    /// What is wrong, after "the engine of the cluster is ..,".
    pub why: String,
    /// What to do.
    pub help: &'static str,
}

/// Connects to an engine and looks for settings that do not suit a cluster.
pub fn inspect(address: &str, password_file: Option<PathBuf>) -> Result<EngineReport, EngineError> {
    let engine = Engine::new(address, password_file, "check")?;
    if let Some(sentinels) = engine.sentinels() {
        sentinels.ask_once();
    }
    let mut connection = engine.open()?.connection;
    let info = Info::ask(&mut connection)?;
    let version = info.text("redis_version");
    let mut problems = Vec::new();
    let mut problem = |why: String, help| problems.push(EngineProblem { why, help });
    if info.text("role") != "master" {
        problem("which is a replica".to_owned(), "name the primary");
    }
    if major_minor(&version) < OLDEST {
        problem(
            format!("whose version `{version}` is too old"),
            "use Valkey, or Redis 6.2 or later",
        );
    }
    let policy = info.text("maxmemory_policy");
    if policy.starts_with("allkeys") {
        problem(
            format!("whose eviction policy `{policy}` may remove the purges"),
            "set `maxmemory-policy volatile-lfu` there",
        );
    }
    // Where `CONFIG` is forbidden, nothing is known.
    let saves: Result<Vec<String>, _> = cmd("CONFIG").arg("GET").arg("save").query(&mut connection);
    let is_saved = saves.map_or(true, |saves| {
        saves.get(1).is_some_and(|rule| !rule.is_empty())
    });
    if info.text("aof_enabled") == "0" && !is_saved {
        problem(
            "which does not write to a disk, so its restart may make every node fetch its pages again".to_owned(),
            "set `appendonly yes` there",
        );
    }
    Ok(EngineReport { version, problems })
}

/// The first with `XADD` options and `SET` replies that are used here.
const OLDEST: (u32, u32) = (6, 2);

fn major_minor(version: &str) -> (u32, u32) {
    let mut numbers = version.split('.').map(|part| part.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

/// The lines of `INFO`.
struct Info(HashMap<String, String>);

impl Info {
    fn ask(connection: &mut Connection) -> Result<Self, EngineError> {
        let text: String = cmd("INFO").query(connection)?;
        let lines = text
            .lines()
            .filter_map(|line| line.trim_end().split_once(':'));
        Ok(Self(
            lines
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
        ))
    }

    fn text(&self, name: &str) -> String {
        self.0.get(name).cloned().unwrap_or_default()
    }
}

/// 128 random bits in hexadecimal.
pub(crate) fn random_word() -> String {
    let mut bytes = [0_u8; 16];
    // The kernel's generator gives that many at once and cannot fail after the system has started.
    let filled = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    debug_assert_eq!(filled, Ok(bytes.len()));
    format!("{:032x}", u128::from_ne_bytes(bytes))
}

fn unix_seconds() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |since| since.as_secs())
}

const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// More than a reader waits for entries.
const REPLY_TIMEOUT: Duration = Duration::from_secs(2);

/// Entries that are applied at a time.
const MOST_ENTRIES: usize = 512;

/// Entries that the stream keeps, roughly.
const MOST_IN_STREAM: usize = 100_000;

/// How long a replica may take to confirm.
const REPLICA_MS: u64 = 50;

/// A member that was away for so long is no member.
const MEMBER_LIFETIME: Duration = Duration::from_secs(86_400);
