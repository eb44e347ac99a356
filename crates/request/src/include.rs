//! ESI includes: the stored response, or a fetch as for an anonymous client.
//!
//! The rules of a request for the same address apply to an include: the rule of its path, redirects, access control, the
//! files below the root. Anything but a shared response for all clients is rejected.

use std::net::SocketAddr;
use std::sync::{Arc, Weak};

use galley_cache::entry::Entry;
use galley_http::head::{self, HeadBuffer, ParsedHead};
use galley_policy::decide::{self, Decision, PathKind};
use galley_policy::esi::target::{IncludeRefused, IncludeTarget, is_for_everybody};
use galley_policy::forward::Credentials;
use galley_policy::outcome::{MissWhy, PassWhy};
use galley_policy::proxied::Port;
use galley_policy::purge::is_below_purge;
use galley_policy::request_info::{RequestInfo, RequestLineInfo};
use galley_policy::route;
use galley_policy::site::ValidationPolicy;

use super::exchange::Exchange;
use super::file::{self, FileMatch};
use super::forward::{backend, page_job, pool};
use super::lookup::{LookupPurpose, LookupResult, lookup};
use super::site::{Services, Site};
use galley_fetch::{IncludeFound, IncludeLookup, IncludeLookupFuture, IncludingPage};

/// The includes of one site.
pub struct SiteIncludes {
    services: Arc<Services>,
    /// The site. It owns this value, so the reference is weak.
    site: Weak<Site>,
}

impl SiteIncludes {
    /// Enables includes for a site, if its configuration permits them.
    pub fn enable(services: &Arc<Services>, site: &Arc<Site>) {
        if site.core.policy.esi.is_some() {
            let includes = Self {
                services: Arc::clone(services),
                site: Arc::downgrade(site),
            };
            let _ = site.includes.set(Arc::new(includes));
        }
    }

    async fn find(
        &self,
        page: &IncludingPage,
        address: &str,
    ) -> Result<IncludeFound, IncludeRefused> {
        let site = self.site.upgrade().ok_or(IncludeRefused::Address)?;
        let esi = site.core.policy.esi.as_ref();
        let hosts = esi.map_or(&[][..], |esi| &esi.hosts);
        let target = IncludeTarget::resolve(address, &page.info, hosts)?;
        let bytes = target.head(&page.info);
        let mut buffer = HeadBuffer::new();
        let Ok(ParsedHead::Whole { head, .. }) =
            head::parse(&bytes, &head::HeadLimits::default(), &mut buffer)
        else {
            return Err(IncludeRefused::Address);
        };
        let host = route::canonical_host(target.authority.as_bytes());
        let host = host.map_err(|_| IncludeRefused::Address)?;
        let line = RequestLineInfo {
            method: head.method,
            target: head.target,
            scheme: page.info.scheme(),
            host: &host,
            has_body: false,
            upgrade: false,
            // The assembled page is stored for clients of all countries.
            country: None,
        };
        let mut info = RequestInfo::default();
        let port = Port::Given(page.info.port());
        info.parse_at(&line, port, head.fields(), &site.core.policy)
            .map_err(|_| IncludeRefused::Address)?;
        self.check(&site, page, &info)?;
        let client = SocketAddr::new(page.call.client_address, page.call.client_port);
        let mut exchange = Exchange::of_include(&head, info, site, client, page);
        exchange.write_key();
        self.stored_or_fetch(&exchange, page).await
    }

    fn check(
        &self,
        site: &Site,
        page: &IncludingPage,
        info: &RequestInfo,
    ) -> Result<(), IncludeRefused> {
        let policy = &site.core.policy;
        let has_tls = self.services.has_tls(site, info.host());
        if decide::before_lookup(info, policy, has_tls).is_some() {
            return Err(IncludeRefused::Redirect);
        }
        let is_purge = policy.flags.purge_get && is_below_purge(info.path());
        if is_purge || !is_for_everybody(policy, &page.info, info) {
            return Err(IncludeRefused::Personal);
        }
        Ok(())
    }

    async fn stored_or_fetch(
        &self,
        exchange: &Exchange<'_>,
        page: &IncludingPage,
    ) -> Result<IncludeFound, IncludeRefused> {
        let services = &*self.services;
        let found = lookup(services, exchange, LookupPurpose::Serve).await;
        let decision = found.decide(&exchange.info, exchange.policy());
        let stale = match decision {
            Decision::Hit | Decision::HitAndRefresh => {
                let entry = found.response().ok_or(IncludeRefused::Personal)?;
                return Ok(IncludeFound::Stored(Arc::clone(entry)));
            }
            Decision::StaleWhileRevalidate
            | Decision::StaleAccepted
            | Decision::Fetch {
                stale_on_error: true,
                ..
            } => found.response().cloned(),
            Decision::Fetch { .. } | Decision::Patch | Decision::Pass(PassWhy::Partition) => None,
            _ => return Err(IncludeRefused::Personal),
        };
        let (below, script) = match file::find(exchange).await {
            Ok(FileMatch::Script(script)) => (PathKind::Script, Some(script)),
            Ok(FileMatch::Missing) => (PathKind::Missing, None),
            Ok(FileMatch::Response(_)) | Err(_) => return Err(IncludeRefused::File),
        };
        let fetch = fetch_decision().below_root(&exchange.info, below, backend(exchange));
        let pool = pool(exchange).map_err(|_| IncludeRefused::File)?;
        if fetch != fetch_decision() {
            return Err(IncludeRefused::File);
        }
        let (standing, credentials) = (page.call.standing, Credentials::None);
        let mut job = page_job(services, exchange, &pool, script, standing, credentials);
        job.call.trace.clone_from(&page.call.trace);
        job.held = held(exchange, &found);
        if decision == Decision::Pass(PassWhy::Partition) {
            job = job.while_partitioned();
        }
        Ok(IncludeFound::Fetch {
            job: Box::new(job),
            stale,
        })
    }
}

impl IncludeLookup for SiteIncludes {
    fn look_up<'a>(&'a self, page: &'a IncludingPage, address: &'a str) -> IncludeLookupFuture<'a> {
        Box::pin(self.find(page, address))
    }
}

/// The stored response, to be revalidated by RFC 9111.
fn held(exchange: &Exchange<'_>, found: &LookupResult) -> Option<Arc<Entry>> {
    let is_origin = exchange.policy().storage.validation == ValidationPolicy::Origin;
    let entry = found.response().filter(|entry| entry.pieces().is_none());
    entry.filter(|_| is_origin).cloned()
}

const fn fetch_decision() -> Decision {
    Decision::Fetch {
        why: MissWhy::Uri,
        stale_on_error: false,
    }
}
