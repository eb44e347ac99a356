//! Finds the primary through Sentinel, and checks whether it still is the primary.
//!
//! A primary that is disconnected from its sentinels continues to accept writes while they promote a replica. So a node renews its
//! lease, and relies on the absence of a member, only while a majority of the sentinels confirms the primary to which it is
//! connected. A failover needs a majority, too, so the two majorities have a sentinel in common.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::{ConnectionInfo, IntoConnectionInfo, RedisError, cmd};

use crate::connection::EngineConnection;
use crate::error::{EngineError, password};
use crate::shared::ClusterState;
use galley_sys::Lock;

/// The sentinels of an engine, and their last agreement. Clones share it.
#[derive(Clone)]
pub(crate) struct Sentinels {
    config: Arc<SentinelConfig>,
    last: Arc<Lock<LastAgreement>>,
}

struct SentinelConfig {
    nodes: Vec<ConnectionInfo>,
    /// The name under which they monitor the primary.
    primary: String,
    /// The scheme of the primary's address.
    scheme: &'static str,
    password_file: Option<PathBuf>,
}

/// The latest agreement, and why there is no newer one.
#[derive(Default)]
struct LastAgreement {
    agreement: Option<Agreement>,
    error: Option<String>,
}

/// The primary that a majority of the sentinels confirmed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Agreement {
    /// `host:port` of the primary.
    pub(crate) primary: String,
    /// A time before the first of them was queried.
    pub(crate) queried_at: Instant,
}

/// The report of one sentinel about the primary.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SentinelReport {
    primary: String,
    /// Whether the primary is reachable, and is not being replaced.
    is_healthy: bool,
    other_sentinels: usize,
}

impl Sentinels {
    /// Parses an address; `None`: it does not name sentinels.
    pub(crate) fn parse(
        address: &str,
        password_file: Option<&PathBuf>,
    ) -> Result<Option<Self>, EngineError> {
        let Some((scheme, rest)) = SCHEMES.iter().find_map(|(prefix, scheme)| {
            let rest = address.strip_prefix(prefix)?;
            Some((*scheme, rest))
        }) else {
            return Ok(None);
        };
        let (hosts, primary) = rest.rsplit_once('/').unwrap_or((rest, ""));
        let nodes = hosts
            .split(',')
            .map(|host| format!("{scheme}://{}", with_port(host.trim())).into_connection_info())
            .collect::<Result<Vec<_>, _>>()?;
        if primary.is_empty() {
            return Err(EngineError::Sentinels(
                "the address ends without `/` and the name of the primary".to_owned(),
            ));
        }
        Ok(Some(Self {
            config: Arc::new(SentinelConfig {
                nodes,
                primary: primary.to_owned(),
                scheme,
                password_file: password_file.cloned(),
            }),
            last: Arc::default(),
        }))
    }

    /// The primary of the last agreement, if that is recent. The caller must compare again after connecting.
    pub(crate) fn primary(&self) -> Result<(String, ConnectionInfo), EngineError> {
        let last = self.last.lock();
        let agreement = last.agreement.as_ref();
        let Some(agreement) = agreement.filter(|agreement| agreement.queried_at.elapsed() < FRESH)
        else {
            let why = last.error.clone();
            return Err(EngineError::Sentinels(why.unwrap_or_else(|| {
                "the sentinels have not been asked yet".to_owned()
            })));
        };
        let address = format!("{}://{}", self.config.scheme, agreement.primary);
        Ok((agreement.primary.clone(), address.into_connection_info()?))
    }

    /// The time at which the sentinels were queried that confirmed this primary last.
    ///
    /// # Errors
    /// Another engine is the primary now.
    pub(crate) fn confirmed(&self, primary: &str) -> Result<Option<Instant>, EngineError> {
        match &self.last.lock().agreement {
            Some(agreement) if agreement.primary != primary => {
                Err(EngineError::Sentinels(format!(
                    "the sentinels have made `{}` the primary",
                    agreement.primary
                )))
            }
            agreement => Ok(agreement.as_ref().map(|agreement| agreement.queried_at)),
        }
    }

    /// Queries the sentinels repeatedly, until the node ends.
    pub(crate) fn watch(&self, shared: &ClusterState) {
        let mut connections = self.connections();
        while !shared.is_stopped() {
            self.query_all(&mut connections);
            std::thread::sleep(PAUSE);
        }
    }

    /// Queries all sentinels once.
    pub(crate) fn query_once(&self) {
        self.query_all(&mut self.connections());
    }

    fn connections(&self) -> Vec<SentinelConnection<'_>> {
        let nodes = self.config.nodes.iter();
        nodes
            .map(|info| SentinelConnection {
                info,
                config: &self.config,
                connection: None,
                wants_password: false,
            })
            .collect()
    }

    fn query_all(&self, connections: &mut [SentinelConnection<'_>]) {
        let queried_at = Instant::now();
        let mut reports = Vec::with_capacity(connections.len());
        let mut errors = Vec::new();
        for connection in connections.iter_mut() {
            match connection.report() {
                Ok(report) => reports.push(report),
                Err(error) => errors.push(error.to_string()),
            }
        }
        let agreed = agreed(&reports, connections.len());
        let mut last = self.last.lock();
        if let Some(primary) = agreed {
            last.agreement = Some(Agreement {
                primary: primary.to_owned(),
                queried_at,
            });
            last.error = None;
        } else {
            let well = reports.iter().filter(|report| report.is_healthy).count();
            last.error = Some(format!(
                "{well} of {} sentinels confirm a primary of `{}`, which is no majority for one address{}",
                connections.len(),
                self.config.primary,
                errors
                    .first()
                    .map(|error| format!("; {error}"))
                    .unwrap_or_default()
            ));
        }
    }
}

/// The primary that a majority confirms: a majority of the configured sentinels, and of those that they report.
fn agreed(reports: &[SentinelReport], listed: usize) -> Option<&str> {
    let sentinels = reports
        .iter()
        .map(|report| report.other_sentinels + 1)
        .max();
    let majority = sentinels.unwrap_or(0).max(listed) / 2 + 1;
    let mut votes: BTreeMap<&str, usize> = BTreeMap::new();
    for report in reports.iter().filter(|report| report.is_healthy) {
        *votes.entry(&report.primary).or_default() += 1;
    }
    votes
        .into_iter()
        .find_map(|(primary, count)| (count >= majority).then_some(primary))
}

/// A connection to one sentinel, opened when it is needed.
struct SentinelConnection<'s> {
    info: &'s ConnectionInfo,
    config: &'s SentinelConfig,
    connection: Option<EngineConnection>,
    wants_password: bool,
}

impl SentinelConnection<'_> {
    fn report(&mut self) -> Result<SentinelReport, EngineError> {
        let result = self.query();
        if result.is_err() {
            self.connection = None;
        }
        match result {
            // Most sentinels have no password.
            Err(EngineError::Engine(error)) if is_refused(&error) && !self.wants_password => {
                self.wants_password = true;
                self.query()
            }
            result => result,
        }
    }

    fn query(&mut self) -> Result<SentinelReport, EngineError> {
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.open()?,
        };
        let connection = self.connection.insert(connection);
        let fields: HashMap<String, String> = cmd("SENTINEL")
            .arg("MASTER")
            .arg(&self.config.primary)
            .query(connection)?;
        report(&fields)
    }

    fn open(&self) -> Result<EngineConnection, EngineError> {
        let mut info = self.info.clone();
        if self.wants_password {
            let login = info.redis_settings().clone();
            if let Some(password) = password(self.config.password_file.as_deref())? {
                info = info.set_redis_settings(login.set_password(&password));
            }
        }
        Ok(EngineConnection::open(&info, TIMEOUT, TIMEOUT)?)
    }
}

fn is_refused(error: &RedisError) -> bool {
    error.code() == Some("NOAUTH")
}

fn report(fields: &HashMap<String, String>) -> Result<SentinelReport, EngineError> {
    let field = |name: &'static str| fields.get(name).ok_or(EngineError::Reply(name));
    let (host, port) = (field("ip")?, field("port")?);
    let host = if host.contains(':') {
        format!("[{host}]")
    } else {
        host.clone()
    };
    let others = fields.get("num-other-sentinels");
    Ok(SentinelReport {
        primary: format!("{host}:{port}"),
        // Otherwise `s_down`, `o_down`, `disconnected` or `failover_in_progress` are listed, too.
        is_healthy: field("flags")? == "master",
        other_sentinels: others.and_then(|count| count.parse().ok()).unwrap_or(0),
    })
}

/// Adds the default port. An IPv6 address is in brackets.
fn with_port(host: &str) -> String {
    let behind = host.rsplit_once(']').map_or(host, |(_, behind)| behind);
    if behind.contains(':') {
        host.to_owned()
    } else {
        format!("{host}:{PORT}")
    }
}

/// The schemes of addresses of sentinels, with the scheme of each sentinel and of the primary.
const SCHEMES: &[(&str, &str)] = &[
    ("redis+sentinel://", "redis"),
    ("rediss+sentinel://", "rediss"),
    ("valkey+sentinel://", "redis"),
    ("valkeys+sentinel://", "rediss"),
];

const PORT: u16 = 26_379;

/// The pause between two rounds. A lease lasts for 2 s after a round, so one may be missed.
const PAUSE: Duration = Duration::from_millis(300);

/// The timeout for one sentinel to connect or reply. If half of five do not reply, a round takes less than a lease.
const TIMEOUT: Duration = Duration::from_millis(250);

/// The maximum age of an agreement for connecting.
const FRESH: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    fn sentinel_report(primary: &str, is_healthy: bool, other_sentinels: usize) -> SentinelReport {
        SentinelReport {
            primary: primary.to_owned(),
            is_healthy,
            other_sentinels,
        }
    }

    #[test]
    fn a_majority_of_all_sentinels_confirms_a_primary() {
        let (a, b) = (
            sentinel_report("a:1", true, 2),
            sentinel_report("b:1", true, 2),
        );
        let down = sentinel_report("a:1", false, 2);
        assert_eq!(agreed(&[a.clone(), a.clone()], 3), Some("a:1"));
        assert_eq!(agreed(&[a.clone(), b.clone(), a.clone()], 3), Some("a:1"));
        assert_eq!(agreed(&[a.clone(), b], 3), None);
        assert_eq!(agreed(&[a.clone(), down.clone(), down], 3), None);
        assert_eq!(agreed(&[], 3), None);
        // One sentinel is configured, and reports two others.
        assert_eq!(agreed(std::slice::from_ref(&a), 1), None);
        assert_eq!(agreed(&[sentinel_report("a:1", true, 0)], 1), Some("a:1"));
    }

    #[test]
    fn addresses_of_sentinels_are_parsed() {
        let parse = |address| Sentinels::parse(address, None);
        let found = parse("redis+sentinel://a,b:1,[::1]/main").unwrap().unwrap();
        assert_eq!(found.config.primary, "main");
        let nodes: Vec<String> = (found.config.nodes.iter())
            .map(|node| node.addr().to_string())
            .collect();
        assert_eq!(nodes, ["a:26379", "b:1", "::1:26379"]);
        assert!(parse("redis+sentinel://a,b").is_err());
        assert!(parse("redis://a").unwrap().is_none());
        assert_eq!(with_port("[::1]"), "[::1]:26379");
        assert_eq!(with_port("[::1]:5"), "[::1]:5");
    }

    #[test]
    fn only_a_primary_without_further_flags_is_healthy() {
        let fields = |flags: &str| {
            let pairs = [
                ("ip", "10.0.0.1"),
                ("port", "6379"),
                ("flags", flags),
                ("num-other-sentinels", "2"),
            ];
            let pairs = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
            HashMap::from(pairs)
        };
        let wanted = sentinel_report("10.0.0.1:6379", true, 2);
        assert_eq!(report(&fields("master")).unwrap(), wanted);
        for flags in [
            "s_down,master",
            "master,o_down",
            "master,disconnected",
            "master,failover_in_progress",
            "slave",
            "",
        ] {
            assert!(!report(&fields(flags)).unwrap().is_healthy, "{flags}");
        }
        assert!(report(&HashMap::new()).is_err());
    }
}
