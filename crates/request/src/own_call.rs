//! Internal requests: runs of WordPress's scheduler, and the first request, which shows that PHP works.
//!
//! They skip access control, the cache and the site's queue. They name a host of the site, and come from this machine.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use galley_files::Resolved;
use galley_policy::cgi::Script;
use galley_policy::class::Standing;
use galley_policy::forward::{self, BodyLength, Client};
use galley_policy::request_info::{RequestInfo, RequestLineInfo, Scheme};
use galley_policy::route::HostPattern;
use galley_policy::site::UpstreamTimeouts;
use tokio::task::spawn_blocking;

use super::folder::{FileLookup, WantedFile};
use super::site::{PoolHandle, Site, SiteCron, Upstream};
use galley_fetch::cron::{CronError, CronJob};
use galley_upstream::UpstreamCall;
use galley_upstream::body::RequestBody;

/// Runs the scheduler of a site, and returns when the run has ended. Dropping the future aborts the run.
pub async fn run_cron(site: &Site, cron: &SiteCron) -> Result<(), CronError> {
    let call = OwnCall {
        target: CRON,
        path: Some(CRON_PATH),
        host: &cron.host,
        id: "cron",
    };
    call.send(site, &cron.pool, true).await
}

/// Requests the front page of a site, and returns when the response is complete. `None`: the site has no upstream.
///
/// # Errors
///
/// Any response without success is an error, including a redirect.
pub async fn probe(site: &Site) -> Option<Result<(), CronError>> {
    let (Upstream::Php(pool) | Upstream::Http(pool)) = &site.upstream else {
        return None;
    };
    let host = site.config.hosts.iter().find_map(HostPattern::exact);
    let call = OwnCall {
        target: b"/",
        path: None,
        host: host.unwrap_or("localhost"),
        id: "ready",
    };
    Some(call.send(site, pool, false).await)
}

struct OwnCall<'c> {
    target: &'c [u8],
    /// The script that the target must resolve to; `None`: any.
    path: Option<&'c [u8]>,
    host: &'c str,
    /// The prefix of its request id.
    id: &'c str,
}

impl OwnCall<'_> {
    async fn send(&self, site: &Site, pool: &PoolHandle, is_cron: bool) -> Result<(), CronError> {
        // A plugin that redirects everything to HTTPS would redirect this request, too.
        let scheme = if site.speaks_tls() {
            Scheme::Https
        } else {
            Scheme::Http
        };
        let line = RequestLineInfo {
            method: "GET",
            target: self.target,
            scheme,
            host: self.host,
            has_body: false,
            upgrade: false,
            country: None,
        };
        let fields = || std::iter::once(("user-agent", AGENT));
        let mut info = RequestInfo::default();
        info.parse(&line, fields(), &site.core.policy)
            .map_err(|_| CronError::Host)?;
        let script = match site.upstream {
            Upstream::Php(_) => Some(self.script(site, &info).await?),
            Upstream::Http(_) | Upstream::Files => None,
        };
        let random = u64::from_ne_bytes(galley_sys::random_bytes()) >> 24;
        let request_id = format!("{}-{random:010x}", self.id);
        let client = Client {
            address: HERE,
            port: 0,
            request_id: &request_id,
        };
        let mut request = forward::whole(&info, fields(), &client, BodyLength::None);
        if is_cron {
            forward::capabilities(&mut request, &site.core.policy);
            forward::for_plugin(&mut request, &site.core.acknowledged.line());
            forward::schedule(&mut request, forward::Schedule::Run);
        }
        let job = CronJob {
            site: Arc::clone(&site.core),
            pool: pool.index,
            call: UpstreamCall {
                request,
                script,
                client_address: HERE,
                client_port: 0,
                request_id,
                server_port: scheme.default_port(),
                server_address: None,
                body: RequestBody::Empty,
                timeouts: UpstreamTimeouts::default(),
                interim: None,
                switch: None,
                trace: None,
                standing: Standing::BACKGROUND,
            },
        };
        pool.fetch_thread.cron(job).await
    }

    /// The script of the target. Without a scheduler below the root, WordPress would respond with a page instead.
    async fn script(&self, site: &Site, info: &RequestInfo) -> Result<Script, CronError> {
        let script = script_of(site, info).await.ok_or(CronError::Missing)?;
        let is_wanted = self.path.is_none_or(|path| script.name == path);
        is_wanted.then_some(script).ok_or(CronError::Missing)
    }
}

/// The script below the site's root that generates the response to a request.
pub(super) async fn script_of(site: &Site, info: &RequestInfo) -> Option<Script> {
    let folder = site.folder.clone()?;
    let runs_program = site.names_program(info);
    if let Some(script) = folder.script(info, runs_program) {
        return Some(script);
    }
    let wanted = WantedFile::of(info, runs_program);
    match spawn_blocking(move || folder.look(&wanted)).await {
        Ok(FileLookup::Other(Resolved::Script(script))) => Some(script),
        Ok(FileLookup::Other(_) | FileLookup::Kept(_) | FileLookup::File(_)) | Err(_) => None,
    }
}

/// As WordPress calls itself, without the number that would have to match its own lock.
const CRON: &[u8] = b"/wp-cron.php?doing_wp_cron";
const CRON_PATH: &[u8] = b"/wp-cron.php";

/// WordPress's own calls use this form, so security plugins permit it.
const AGENT: &[u8] = b"WordPress/Galley";

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
