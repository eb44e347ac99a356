//! One run of WordPress's scheduler, which nobody asked for: the request is Galley's own.
//!
//! It goes through no gate and no cache, and to the site's upstream past its queue. Its host is the first of the site's that
//! is one, its address this machine's, and it tells the plugin that Galley makes the runs.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use galley_files::Resolved;
use galley_policy::cgi::Script;
use galley_policy::class::Class;
use galley_policy::forward::{self, BodyLength, Client};
use galley_policy::request_info::{RequestInfo, RequestLineInfo, Scheme};
use galley_policy::site::UpstreamTimeouts;
use tokio::task::spawn_blocking;

use super::folder::{FileLookup, WantedFile};
use super::site::{Site, SiteCron, Upstream};
use crate::body::RequestBody;
use crate::fetch::cron::{CronJob, CronTrouble};
use crate::sys;
use crate::upstream::UpstreamCall;

/// Has the scheduler of a site run, and returns when the run has ended. Dropping it gives the run up.
pub async fn run_cron(site: &Site, cron: &SiteCron) -> Result<(), CronTrouble> {
    // A plugin that sends everybody to HTTPS would send the scheduler there, too.
    let scheme = if site.speaks_tls {
        Scheme::Https
    } else {
        Scheme::Http
    };
    let line = RequestLineInfo {
        method: "GET",
        target: TARGET,
        scheme,
        host: &cron.host,
        has_body: false,
        upgrade: false,
    };
    let fields = || std::iter::once(("user-agent", AGENT));
    let mut info = RequestInfo::default();
    info.parse(&line, fields(), &site.core.rules)
        .map_err(|_| CronTrouble::Host)?;
    let script = match site.upstream {
        Upstream::Php(_) => Some(script(site, &info).await?),
        Upstream::Http(_) | Upstream::Files => None,
    };
    let request_id = format!(
        "cron-{:010x}",
        u64::from_ne_bytes(sys::random_bytes()) >> 24
    );
    let client = Client {
        address: HERE,
        port: 0,
        request_id: &request_id,
    };
    let mut request = forward::whole(&info, fields(), &client, BodyLength::None);
    forward::capabilities(&mut request, &site.core.rules);
    forward::for_plugin(&mut request, &site.core.acknowledged.line());
    forward::schedule(&mut request, forward::Schedule::Run);
    let job = CronJob {
        site: Arc::clone(&site.core),
        pool: cron.pool.index,
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
            class: Class::Background,
        },
    };
    cron.pool.fetch_thread.cron(job).await
}

/// The scheduler's own file; a WordPress without one below the root answers such a request with a page.
async fn script(site: &Site, info: &RequestInfo) -> Result<Script, CronTrouble> {
    let folder = site.folder.clone().ok_or(CronTrouble::Missing)?;
    let wanted = WantedFile::of(info, false);
    let looked = spawn_blocking(move || folder.look(&wanted)).await;
    match looked {
        Ok(FileLookup::Other(Resolved::Script(script))) if script.name == PATH => Ok(script),
        Ok(FileLookup::Other(_) | FileLookup::Kept(_) | FileLookup::File(_)) | Err(_) => {
            Err(CronTrouble::Missing)
        }
    }
}

/// As WordPress calls itself, but for a number that would have to fit its own lock.
const TARGET: &[u8] = b"/wp-cron.php?doing_wp_cron";
const PATH: &[u8] = b"/wp-cron.php";

/// WordPress's own calls have this form, and security plugins let it pass.
const AGENT: &[u8] = b"WordPress/Galley";

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
