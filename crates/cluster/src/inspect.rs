//! The check of an engine for `galley check`.

use std::path::PathBuf;

use redis::cmd;

use crate::connection::EngineConnection;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::info::EngineInfo;

/// The result of checking an engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineReport {
    /// The version of the engine.
    pub version: String,
    /// Settings that do not suit a cluster.
    pub problems: Vec<EngineProblem>,
}

/// A setting of an engine that does not suit a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineProblem {
    /// The problem, as text after "the engine of the cluster is ..,".
    pub why: String,
    /// The remedy.
    pub help: &'static str,
}

/// Connects to an engine and checks its settings.
pub fn inspect(address: &str, password_file: Option<PathBuf>) -> Result<EngineReport, EngineError> {
    let engine = Engine::new(address, password_file, "check")?;
    if let Some(sentinels) = engine.sentinels() {
        sentinels.query_once();
    }
    let mut connection = engine.connect_to_inspect()?;
    let info = EngineInfo::query(&mut connection)?;
    let mut problems = problems_of(&info);
    let is_on_disk = info.text("aof_enabled") != "0" || saves_periodically(&mut connection);
    if !is_on_disk {
        problems.push(EngineProblem {
            why: "which does not write to a disk, so its restart may make every node fetch its pages again".to_owned(),
            help: "set `appendonly yes` there",
        });
    }
    Ok(EngineReport {
        version: info.version(),
        problems,
    })
}

/// Whether the engine saves its data periodically. Assumes so if `CONFIG` is forbidden.
fn saves_periodically(connection: &mut EngineConnection) -> bool {
    let rules: Result<Vec<String>, _> = cmd("CONFIG").arg("GET").arg("save").query(connection);
    rules.map_or(true, |rules| {
        rules.get(1).is_some_and(|rule| !rule.is_empty())
    })
}

/// The problems that its `INFO` shows.
fn problems_of(info: &EngineInfo) -> Vec<EngineProblem> {
    let mut problems = Vec::new();
    let mut problem = |why: String, help| problems.push(EngineProblem { why, help });
    if info.text("role") != "master" {
        problem("which is a replica".to_owned(), "name the primary");
    }
    // Valkey reports Redis 7.2.4 here.
    let version = info.text("redis_version");
    if major_minor(&version) < OLDEST {
        problem(
            format!("whose version `{version}` is too old"),
            "use Valkey, or Redis 6.2 or later",
        );
    }
    if info.text("cluster_enabled") == "1" {
        problem(
            "which is a part of a Redis Cluster, whose keys are on several servers".to_owned(),
            "name a server that is not in cluster mode, with replicas and Sentinel if one must not fail",
        );
    }
    let policy = info.text("maxmemory_policy");
    if policy.starts_with("allkeys") {
        problem(
            format!("whose eviction policy `{policy}` may remove the purges"),
            "set `maxmemory-policy volatile-lfu` there",
        );
    }
    let most = info.number("maxmemory");
    if policy == "noeviction" && (1..MIN_MEMORY).contains(&most) {
        problem(
            format!("which refuses purges when its `maxmemory` of {most} bytes is full"),
            "set `maxmemory` there to 64mb or more",
        );
    }
    problems
}

/// The stream has up to 100,000 entries of about 200 bytes.
const MIN_MEMORY: u64 = 64 << 20;

/// The first version with the options of `XADD` and the replies of `SET` that are used here.
const OLDEST: (u32, u32) = (6, 2);

fn major_minor(version: &str) -> (u32, u32) {
    let mut numbers = version.split('.').map(|part| part.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_of_unsuitable_engines_are_found() {
        let suitable = "role:master\r\nredis_version:7.0.15\r\nmaxmemory_policy:noeviction\r\nmaxmemory:0\r\ncluster_enabled:0\r\n";
        let problems = |text: &str| problems_of(&EngineInfo::read(text));
        assert_eq!(problems(suitable), []);
        for (from, to, wanted) in [
            ("role:master", "role:slave", "is a replica"),
            ("7.0.15", "6.0.16", "whose version `6.0.16` is too old"),
            ("noeviction", "allkeys-lfu", "eviction policy `allkeys-lfu`"),
            ("maxmemory:0", "maxmemory:1048576", "`maxmemory` of 1048576"),
            ("cluster_enabled:0", "cluster_enabled:1", "Redis Cluster"),
        ] {
            let found = problems(&suitable.replace(from, to));
            let [problem] = found.as_slice() else {
                panic!("{to}: {found:?}")
            };
            assert!(problem.why.contains(wanted), "{}", problem.why);
        }
        let valkey = suitable.replace("7.0.15", "7.2.4") + "valkey_version:9.1.0\r\n";
        assert_eq!(problems(&valkey), []);
        assert_eq!(EngineInfo::read(&valkey).version(), "Valkey 9.1.0");
        // An engine that reports nothing.
        assert_eq!(problems("").len(), 2);
    }
}
