//! `galley doctor`: problems of the machine, of PHP and of WordPress.
//!
//! Exit code 1 if there is a problem; notices do not count. The server does not have to run, except to find PHP that Galley
//! runs itself.

use std::collections::HashSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;

use galley_config::{Config, LogTarget, PhpAddress, SiteConfig, UpstreamConfig};
use galley_policy::route::HostPattern;
use serde_json::{Value, json};

use super::options::{AdminOptions, DoctorOptions};
use crate::app;
use galley_operator::ask as running;
use galley_operator::figures::for_age;
use galley_operator::outcome::{DEFAULT_CONFIG, configuration, print_diagnostics, runtime, talk};
use galley_operator::show::{self, line};

use galley_admin::doctor::{self, DoctorFinding, MemoryPlan, PhpProbe, ProcFs, Severity};
use galley_php::MemoryDivision;

/// Checks everything and prints the findings.
pub(super) fn doctor(options: &DoctorOptions) -> ExitCode {
    let path = options.config.as_deref();
    let path = path.unwrap_or(Path::new(DEFAULT_CONFIG));
    let config = match configuration(path) {
        Ok(config) => config,
        Err(diagnostics) => return print_diagnostics(&diagnostics),
    };
    let machine = ProcFs::at(&options.machine);
    talk("looking at the machine");
    let status = status(path);
    let plan = plan(&config, path, &options.machine);
    let mut findings = doctor::machine(&machine, &plan, &status);
    findings.push(doctor::spool_findings(&status));
    findings.extend(doctor::visit_findings(&status));
    findings.extend(doctor::object_findings(&status));
    findings.extend(doctor::quic_findings(&machine, &config));
    let now = SystemTime::now();
    for (site, file) in app::kept_certificates(&config) {
        findings.push(doctor::stored_certificate(&site, &file, now));
    }
    for site in &config.sites {
        let certificates = site.certificates.iter();
        findings.extend(certificates.map(|files| doctor::certificate(&site.name, files, now)));
        let unreachable = doctor::unreachable(&site.name, &app::upstream_addresses(site));
        let is_reachable = unreachable.is_empty();
        findings.extend(unreachable);
        let response = match php_address(site, &status) {
            // Reported already.
            Ok(_) if !is_reachable => None,
            Ok(address) => probe(site, address).map(|probe| {
                talk(&format!("asking PHP of {}", site.name));
                runtime().and_then(|runtime| runtime.block_on(doctor::ask(&probe)))
            }),
            Err(why) => Some(Err(why)),
        };
        if let Some(response) = response {
            findings.extend(
                doctor::site(&response)
                    .into_iter()
                    .map(|finding| DoctorFinding {
                        seen: format!("{}: {}", site.name, finding.seen),
                        ..finding
                    }),
            );
        }
    }
    doctor::date_findings(&mut findings, &status);
    let is_wrong = findings
        .iter()
        .any(|finding| finding.level == Severity::Wrong);
    if options.json {
        show::data(
            &json!({ "ok": !is_wrong, "findings": findings.iter().map(value).collect::<Vec<_>>() }),
        );
    } else {
        findings.iter().for_each(print);
    }
    if is_wrong {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

/// The status of the running server; otherwise the reason why it is not available.
fn status(path: &Path) -> Result<Value, String> {
    let options = AdminOptions {
        config: Some(path.to_path_buf()),
        admin: None,
        token_file: None,
    };
    let admin = running::admin(&options);
    let status = admin.and_then(|admin| admin.get("/status"));
    status.map_err(|trouble| trouble.to_string())
}

fn value(finding: &DoctorFinding) -> Value {
    json!({
        "check": finding.check, "level": finding.level.word(), "seen": finding.seen, "since_s": finding.since_s, "why": finding.why, "remedy": finding.remedy,
    })
}

fn print(finding: &DoctorFinding) {
    line(&format!(
        "{:<8} {:<12} {}{}",
        finding.level.word(),
        finding.check,
        finding.seen,
        for_age(finding.since_s)
    ));
    for (word, text) in [("why", &finding.why), ("do", &finding.remedy)] {
        if !text.is_empty() {
            line(&format!("{:21} {word}: {text}", ""));
        }
    }
}

/// The memory that the configuration in `file` permits, and the folders that it writes to. `root`: the machine's `/`.
fn plan(config: &Config, file: &Path, root: &Path) -> MemoryPlan {
    let roots = config.sites.iter().filter_map(|site| site.root.clone());
    let logs = config.sites.iter().filter_map(|site| site.access.as_ref());
    let logs = logs.chain([&config.log.access, &config.log.error]);
    let logs = logs.filter_map(|target| match target {
        LogTarget::File(path) => path.parent().map(Path::to_path_buf),
        LogTarget::Stdout | LogTarget::Stderr | LogTarget::Off => None,
    });
    let disk = config.cache.disk.as_ref().map(|disk| disk.path.clone());
    let disk = disk.filter(|path| path.exists());
    let spool = config.server.spool.folder.clone();
    let spool = spool.unwrap_or_else(|| PathBuf::from("/var/tmp"));
    let spool = Some(spool).filter(|_| config.server.spool.size > 0);
    let written = roots.chain(logs).chain(disk.clone()).chain(spool);
    let folders = one_of_each_disk(written.collect());
    let budget = MemoryDivision::of(galley_php::MachineMemory::at(
        root,
        config.cache.memory,
        config.managed_pools(),
    ));
    MemoryPlan {
        memory: galley_config::memory(root).unwrap_or(0),
        cache: config.cache.memory,
        file: file.to_path_buf(),
        other_users: app::sites_of_other_users(config),
        in_flight: config
            .sites
            .iter()
            .map(|site| in_flight(site, &budget))
            .sum(),
        synced: disk.or_else(|| folders.first().cloned()),
        folders,
    }
}

/// One folder of each file system.
fn one_of_each_disk(mut folders: Vec<PathBuf>) -> Vec<PathBuf> {
    folders.sort();
    let mut devices = HashSet::new();
    folders
        .retain(|folder| std::fs::metadata(folder).is_ok_and(|found| devices.insert(found.dev())));
    folders
}

/// The maximum number of concurrent requests of a site to PHP or Apache on this machine.
fn in_flight(site: &SiteConfig, budget: &MemoryDivision) -> u64 {
    let is_here = match &site.upstream {
        UpstreamConfig::Managed | UpstreamConfig::Program(_) => true,
        UpstreamConfig::Php(servers) => servers.iter().any(|server| match &server.address {
            PhpAddress::Unix(_) => true,
            PhpAddress::Tcp(address) => {
                is_loopback(address.rsplit_once(':').map_or(address, |(host, _)| host))
            }
        }),
        UpstreamConfig::Http(all) => all.iter().any(|upstream| is_loopback(&upstream.host)),
        UpstreamConfig::Files => false,
    };
    let limit = match (site.limits.in_flight, &site.upstream) {
        (0, UpstreamConfig::Managed | UpstreamConfig::Program(_)) => match site.managed.workers {
            0 => budget.slots_at_start(),
            named => named,
        },
        (limit, _) => limit,
    };
    if is_here { limit as u64 } else { 0 }
}

fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let address = bare.parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// The address of a site's PHP; `None` if it cannot be queried, because it runs behind Apache or there is none. PHP that
/// Galley runs has a new socket after each start, which only the running server knows. `Err`: the reason why the socket is
/// unknown.
fn php_address(
    site: &SiteConfig,
    status: &Result<Value, String>,
) -> Result<Option<PhpAddress>, String> {
    match &site.upstream {
        UpstreamConfig::Php(servers) => Ok(servers.first().map(|server| server.address.clone())),
        UpstreamConfig::Managed => match status {
            Ok(status) => managed_socket(status, &site.name)
                .map(|socket| Some(PhpAddress::Unix(socket)))
                .ok_or_else(|| unknown_socket("the running server has no such site")),
            Err(why) => Err(unknown_socket(why)),
        },
        UpstreamConfig::Program(_) | UpstreamConfig::Http(_) | UpstreamConfig::Files => Ok(None),
    }
}

fn unknown_socket(why: &str) -> String {
    format!(
        "Galley runs this site's PHP, and only the running server knows its socket, but {why}; PHP and WordPress were not checked"
    )
}

/// The socket of the PHP that the server runs for a site: the first server of its first upstream.
fn managed_socket(status: &Value, site: &str) -> Option<PathBuf> {
    let mut sites = status["sites"].as_array()?.iter();
    let of_site = sites.find(|found| found["name"] == site)?;
    let address = of_site["upstreams"][0]["servers"][0]["address"].as_str()?;
    address.strip_prefix("unix:").map(PathBuf::from)
}

/// The parameters for querying PHP; `None` without a root, because WordPress would be below it.
fn probe(site: &SiteConfig, address: Option<PhpAddress>) -> Option<PhpProbe> {
    let host = site.hosts.iter().find_map(HostPattern::exact);
    Some(PhpProbe {
        address: address?,
        root: site.root.clone()?,
        host: host.unwrap_or("localhost").to_owned(),
    })
}
