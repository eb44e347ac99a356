//! Forwards the purges of all sites, on a separate thread, and applies changes of the configuration.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::LocalSet;

use super::queue::{TargetQueue, TargetStats};
use super::target::ForwardTarget;
use super::worker::{ForwardWorker, SiteForwarding, inbox};
use crate::{ForwardInbox, ForwardInboxes, SitePurges};
use galley_sys::Lock;

/// Forwards the purges of all sites; see the module.
pub struct PurgeForwarder {
    inboxes: ForwardInboxes,
    state: Lock<ForwarderState>,
}

#[derive(Default)]
struct ForwarderState {
    /// The channel to the thread, which starts with the first site.
    jobs: Option<mpsc::UnboundedSender<ForwardJob>>,
    sites: HashMap<String, RunningSite>,
}

struct RunningSite {
    inbox: ForwardInbox,
    forwarding: Arc<SiteForwarding>,
}

/// The targets of one site.
pub struct ForwardingSite {
    /// The site's purges, which also have its name.
    pub purges: Arc<SitePurges>,
    /// The targets of the site.
    pub targets: Vec<ForwardTarget>,
}

/// A task for the thread to start. There are as many as sites and targets in a configuration.
enum ForwardJob {
    Site(ForwardWorker),
    Target(Arc<SiteForwarding>, Arc<TargetQueue>),
}

impl PurgeForwarder {
    /// A forwarder without sites.
    pub fn new(inboxes: ForwardInboxes) -> Self {
        Self {
            inboxes,
            state: Lock::default(),
        }
    }

    /// Starts forwarding for new sites, before they receive purges.
    pub fn begin(&self, sites: Vec<ForwardingSite>) -> io::Result<()> {
        let mut state = self.state.lock();
        for site in sites {
            if !state.sites.contains_key(site.purges.site()) {
                state.configure(&self.inboxes, site)?;
            }
        }
        self.inboxes.replace(state.inboxes());
        Ok(())
    }

    /// Forwards the purges of exactly these sites from now on. Queued purges are kept for targets that remain, and dropped for
    /// targets that are removed.
    pub fn configure(&self, wanted: Vec<ForwardingSite>) -> io::Result<()> {
        let mut state = self.state.lock();
        let names: Vec<String> = wanted
            .iter()
            .filter(|site| !site.targets.is_empty())
            .map(|site| site.purges.site().to_owned())
            .collect();
        for site in wanted {
            state.configure(&self.inboxes, site)?;
        }
        state.sites.retain(|name, site| {
            let remains = names.contains(name);
            if !remains {
                drop(site.forwarding.retarget(Vec::new()));
            }
            remains
        });
        self.inboxes.replace(state.inboxes());
        Ok(())
    }

    /// The statistics of a site's targets.
    pub fn stats(&self, site: &str) -> Vec<TargetStats> {
        let state = self.state.lock();
        let site = state.sites.get(site);
        site.map(|site| site.forwarding.stats()).unwrap_or_default()
    }
}

impl ForwarderState {
    fn configure(&mut self, inboxes: &ForwardInboxes, site: ForwardingSite) -> io::Result<()> {
        let name = site.purges.site().to_owned();
        if site.targets.is_empty() && !self.sites.contains_key(&name) {
            return Ok(());
        }
        let jobs = self.thread()?;
        let running = self.sites.get(&name);
        if let Some(forwarding) = running.map(|running| &running.forwarding) {
            start_targets(&jobs, forwarding, site.targets);
            return Ok(());
        }
        let (inbox, incoming) = inbox();
        let needs = Arc::clone(&inbox.needs);
        let folder = inboxes.folder().clone();
        let forwarding = Arc::new(SiteForwarding::new(site.purges, needs, folder));
        // A worker needs its targets when it starts. The thread ends with the process.
        start_targets(&jobs, &forwarding, site.targets);
        let worker = ForwardWorker::new(Arc::clone(&forwarding), incoming);
        let _ = jobs.send(ForwardJob::Site(worker));
        self.sites.insert(name, RunningSite { inbox, forwarding });
        Ok(())
    }

    fn thread(&mut self) -> io::Result<mpsc::UnboundedSender<ForwardJob>> {
        if let Some(jobs) = &self.jobs {
            return Ok(jobs.clone());
        }
        let jobs = start_thread()?;
        self.jobs = Some(jobs.clone());
        Ok(jobs)
    }

    fn inboxes(&self) -> HashMap<String, ForwardInbox> {
        let sites = self.sites.iter();
        let sites = sites.filter(|(_, site)| site.forwarding.has_targets());
        sites
            .map(|(name, site)| (name.clone(), site.inbox.clone()))
            .collect()
    }
}

fn start_targets(
    jobs: &mpsc::UnboundedSender<ForwardJob>,
    forwarding: &Arc<SiteForwarding>,
    targets: Vec<ForwardTarget>,
) {
    for queue in forwarding.retarget(targets) {
        let _ = jobs.send(ForwardJob::Target(Arc::clone(forwarding), queue));
    }
}

fn start_thread() -> io::Result<mpsc::UnboundedSender<ForwardJob>> {
    let (jobs, mut incoming) = mpsc::unbounded_channel::<ForwardJob>();
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build()?;
    let thread = std::thread::Builder::new().name("purge-forward".to_owned());
    thread.spawn(move || {
        let work = async move {
            while let Some(job) = incoming.recv().await {
                match job {
                    ForwardJob::Site(worker) => tokio::task::spawn_local(worker.run()),
                    ForwardJob::Target(site, queue) => {
                        tokio::task::spawn_local(async move { site.work(queue).await })
                    }
                };
            }
        };
        LocalSet::new().block_on(&runtime, work);
    })?;
    Ok(jobs)
}
