//! How the requests of a site are distributed over several servers, and health checks.

use crate::check;
use crate::diagnostic::Diagnostics;
use crate::tree::SectionTable;
use crate::upstream::{
    BalanceMethod, HealthCheckConfig, LoadBalancing, ServerShare, UpstreamConfig,
};

/// `balance`, `slow_start` and the `health_` options of a site.
pub(crate) fn balancing(options: &SectionTable, diagnostics: &mut Diagnostics) -> LoadBalancing {
    check::not_empty(options, "health_status", "a status", diagnostics);
    LoadBalancing {
        method: method(options, diagnostics),
        slow_start: options.value("slow_start"),
        check: health_check(options, diagnostics),
    }
}

fn method(options: &SectionTable, diagnostics: &mut Diagnostics) -> BalanceMethod {
    let word: String = options.value("balance");
    let cookie: Option<String> = options.get("balance_cookie");
    if word != "cookie" && cookie.is_some() {
        let why = "is given, but applies only with `balance = \"cookie\"`";
        let help = "write `balance = \"cookie\"`, or remove it";
        options.report("balance_cookie", why, help, diagnostics);
    }
    match (word.as_str(), cookie) {
        ("least-connections", _) => BalanceMethod::LeastConnections,
        ("client", _) => BalanceMethod::Client,
        ("cookie", Some(cookie)) => BalanceMethod::Cookie(cookie),
        ("cookie", None) => {
            let why = "is `cookie`, but no cookie is named";
            let help = "add `balance_cookie = \"PHPSESSID\"`";
            options.report("balance", why, help, diagnostics);
            BalanceMethod::Client
        }
        _ => BalanceMethod::RoundRobin,
    }
}

fn health_check(
    options: &SectionTable,
    diagnostics: &mut Diagnostics,
) -> Option<HealthCheckConfig> {
    let Some(path) = options.get::<String>("health_check") else {
        let why = "is given, but there is no `health_check`";
        let help = "add `health_check = \"/health\"`, or remove it";
        options.report_each(OF_CHECKS, why, help, diagnostics);
        return None;
    };
    if path.ends_with('*') {
        let why = format!("is `{path}`, which is not one path");
        options.report("health_check", why, WHOLE_PATH, diagnostics);
    }
    // The bounds in the option table ensure that the value fits.
    let count = |name| u32::try_from(options.value::<u64>(name)).unwrap_or(1);
    let statuses: Vec<u64> = options.get("health_status").unwrap_or_default();
    let statuses = statuses
        .into_iter()
        .filter_map(|status| u16::try_from(status).ok());
    Some(HealthCheckConfig {
        path,
        interval: options.value("health_interval"),
        timeout: options.value("health_timeout"),
        rise: count("health_rise"),
        fall: count("health_fall"),
        statuses: statuses.collect(),
    })
}

/// Rejects a repeated server, and a list with only backup servers.
pub(crate) fn servers(
    section: &SectionTable,
    upstream: &UpstreamConfig,
    diagnostics: &mut Diagnostics,
) {
    let (option, servers): (_, Vec<(String, ServerShare)>) = match upstream {
        UpstreamConfig::Http(servers) => {
            let servers = servers.iter().map(|one| (one.to_string(), one.share));
            ("upstream", servers.collect())
        }
        UpstreamConfig::Php(servers) => {
            let servers = servers
                .iter()
                .map(|one| (one.address.to_string(), one.share));
            ("php", servers.collect())
        }
        UpstreamConfig::Managed | UpstreamConfig::Program(_) | UpstreamConfig::Files => return,
    };
    for (index, (name, _)) in servers.iter().enumerate() {
        if servers
            .iter()
            .take(index)
            .any(|(earlier, _)| earlier == name)
        {
            let why = format!("names `{name}` a second time");
            let help = "remove one of the two; `weight` gives a server a larger share";
            section.report(option, why, help, diagnostics);
        }
    }
    if !servers.is_empty() && servers.iter().all(|(_, share)| share.is_backup) {
        let why = "has only backup servers";
        section.report(option, why, "remove `backup` from one of them", diagnostics);
    }
}

const WHOLE_PATH: &str = "write the whole path of a page or a script";

const OF_CHECKS: &[&str] = &[
    "health_interval",
    "health_timeout",
    "health_rise",
    "health_fall",
    "health_status",
];
