//! How the requests of a site are spread over several servers, and how servers are checked.

use std::time::Duration;

use crate::check;
use crate::complaint::Complaints;
use crate::tree::SectionTable;
use crate::upstream::{
    BalanceMethod, HealthCheckConfig, HttpUpstream, LoadBalancing, UpstreamConfig,
};

/// `balance`, `slow_start` and the `health_` options of a site.
pub(crate) fn balancing(own: &SectionTable, complaints: &mut Complaints) -> LoadBalancing {
    LoadBalancing {
        method: method(own, complaints),
        slow_start: own.value("slow_start"),
        check: health_check(own, complaints),
    }
}

fn method(own: &SectionTable, complaints: &mut Complaints) -> BalanceMethod {
    let word: String = own.value("balance");
    let cookie: Option<String> = own.given("balance_cookie");
    if word != "cookie" && cookie.is_some() {
        let why = "is given, but applies only with `balance = \"cookie\"`";
        let help = "write `balance = \"cookie\"`, or remove it";
        own.complain("balance_cookie", why, help, complaints);
    }
    match (word.as_str(), cookie) {
        ("least-connections", _) => BalanceMethod::LeastConnections,
        ("client", _) => BalanceMethod::Client,
        ("cookie", Some(cookie)) => BalanceMethod::Cookie(cookie),
        ("cookie", None) => {
            let why = "is `cookie`, but no cookie is named";
            let help = "add `balance_cookie = \"PHPSESSID\"`";
            own.complain("balance", why, help, complaints);
            BalanceMethod::Client
        }
        _ => BalanceMethod::RoundRobin,
    }
}

fn health_check(own: &SectionTable, complaints: &mut Complaints) -> Option<HealthCheckConfig> {
    check::not_empty(own, "health_status", "a status", complaints);
    let Some(path) = own.given::<String>("health_check") else {
        for name in OF_CHECKS.iter().filter(|name| own.has(name)) {
            let why = "is given, but there is no `health_check`";
            let help = "add `health_check = \"/health\"`, or remove it";
            own.complain(name, why, help, complaints);
        }
        return None;
    };
    if path.ends_with('*') {
        let why = format!("is `{path}`, which is not one path");
        let help = "write the whole path of a page or a script";
        own.complain("health_check", why, help, complaints);
    }
    // The table's bounds fit.
    let count = |name| u32::try_from(own.value::<u64>(name)).unwrap_or(1);
    let statuses: Vec<u64> = own.given("health_status").unwrap_or_default();
    let (interval, timeout): (Duration, Duration) =
        (own.value("health_interval"), own.value("health_timeout"));
    Some(HealthCheckConfig {
        path,
        interval,
        timeout,
        rise: count("health_rise"),
        fall: count("health_fall"),
        statuses: statuses
            .into_iter()
            .filter_map(|status| u16::try_from(status).ok())
            .collect(),
    })
}

/// No server twice, and not only backup servers.
pub(crate) fn servers(
    given: &SectionTable,
    upstream: &UpstreamConfig,
    complaints: &mut Complaints,
) {
    match upstream {
        UpstreamConfig::Http(servers) => {
            let names: Vec<String> = servers.iter().map(HttpUpstream::to_string).collect();
            no_name_twice(given, "upstream", &names, complaints);
            let has_primary = servers.is_empty() || servers.iter().any(|one| !one.share.is_backup);
            primary(given, "upstream", has_primary, complaints);
        }
        UpstreamConfig::Php(servers) => {
            let names = servers.iter().map(|one| one.address.to_string());
            no_name_twice(given, "php", &names.collect::<Vec<_>>(), complaints);
            let has_primary = servers.is_empty() || servers.iter().any(|one| !one.share.is_backup);
            primary(given, "php", has_primary, complaints);
        }
        UpstreamConfig::Managed | UpstreamConfig::Program(_) | UpstreamConfig::Files => {}
    }
}

fn no_name_twice(
    given: &SectionTable,
    option: &str,
    names: &[String],
    complaints: &mut Complaints,
) {
    for (index, name) in names.iter().enumerate() {
        if names.iter().take(index).any(|earlier| earlier == name) {
            let why = format!("names `{name}` a second time");
            let help = "remove one of the two; `weight` gives a server a larger share";
            given.complain(option, why, help, complaints);
        }
    }
}

fn primary(given: &SectionTable, option: &str, has_primary: bool, complaints: &mut Complaints) {
    if !has_primary {
        let why = "has only backup servers";
        given.complain(option, why, "remove `backup` from one of them", complaints);
    }
}

const OF_CHECKS: &[&str] = &[
    "health_interval",
    "health_timeout",
    "health_rise",
    "health_fall",
    "health_status",
];
