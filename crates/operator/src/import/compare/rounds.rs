//! Sends the requests to both servers, follows redirects and links, and collects the differences.

use std::cell::Cell;
use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use super::body;
use super::differ::{differences, location};
use super::difference::{ComparedResponses, DifferenceKind, VisibleDifference};
use super::endpoints::{TryEndpoints, VisitedHost};
use super::exchange::send;
use super::findings::Findings;
use super::origin::StatementFinder;
use super::pages::of_url;
use super::seen::SeenResponse;
use super::visit::{TryVisit, VisitMethod};
use crate::outcome::talk;
use crate::setup::links;

/// Whether links in pages are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Crawling {
    Off,
    Links,
}

/// One comparison.
pub(super) struct TryRun<'t> {
    pub(super) endpoints: &'t TryEndpoints,
    pub(super) hosts: &'t [VisitedHost],
    pub(super) finder: StatementFinder<'t>,
    pub(super) crawling: Crawling,
    /// The number of responses that remained uncompressed after repeated requests.
    pub(super) uncompressed: Cell<usize>,
}

/// The requests to send, each once.
#[derive(Default)]
struct VisitQueue {
    waiting: VecDeque<TryVisit>,
    known: HashSet<TryVisit>,
}

impl VisitQueue {
    fn add(&mut self, visit: TryVisit) {
        if self.known.len() < MAX_VISITS && visit.is_fit() && self.known.insert(visit.clone()) {
            self.waiting.push_back(visit);
        }
    }
}

impl TryRun<'_> {
    /// Sends all requests, in order.
    pub(super) async fn run(&self, visits: Vec<TryVisit>) -> Findings {
        let mut queue = VisitQueue::default();
        for visit in visits {
            queue.add(visit);
        }
        let mut findings = Findings::default();
        while let Some(visit) = queue.waiting.pop_front() {
            self.visit(&visit, &mut queue, &mut findings).await;
            findings.requests += 1;
            if findings.requests.is_multiple_of(PROGRESS) {
                talk(&format!(
                    "try: {} of {} requests, {} kinds of differences",
                    findings.requests,
                    queue.known.len(),
                    findings.groups.len()
                ));
            }
        }
        findings.sort();
        findings
    }

    async fn visit(&self, visit: &TryVisit, queue: &mut VisitQueue, findings: &mut Findings) {
        let addresses = self.endpoints.of(visit);
        let old = send(visit, addresses.old).await;
        let galley = send(visit, addresses.galley).await;
        let mut compared = differences(visit, &old, &galley, &self.endpoints.ports);
        self.settle_body(visit, &old, &galley, &mut compared).await;
        self.settle_coding(visit, &mut compared).await;
        if compared.differences.is_empty() {
            self.stored(visit, &old, &galley, &mut compared).await;
            self.revalidated(visit, &old, &galley, &mut compared).await;
            self.follow(visit, &old, queue);
        } else {
            self.settle_redirect(visit, &old, &galley, &mut compared)
                .await;
        }
        findings.add(visit, compared, &self.finder);
    }

    /// If the old server's page changes with each request, compares only the lines that do not change.
    async fn settle_body(
        &self,
        visit: &TryVisit,
        old: &SeenResponse,
        galley: &SeenResponse,
        compared: &mut ComparedResponses,
    ) {
        let is_body = |kind: &DifferenceKind| *kind == DifferenceKind::Body;
        if old.status != Some(200) || !compared.differences.iter().any(|one| is_body(&one.kind)) {
            return;
        }
        let again = send(visit, self.endpoints.of(visit).old).await;
        if body::is_same(&again, galley) || body::is_same_but_for_changes(old, &again, galley) {
            compared.differences.retain(|one| !is_body(&one.kind));
            compared.is_harmless("pages that change with each request");
        }
    }

    /// Repeats requests to Galley, which compresses after its first response: a later one may be compressed.
    async fn settle_coding(&self, visit: &TryVisit, compared: &mut ComparedResponses) {
        let is_coding = |one: &VisibleDifference| one.kind == DifferenceKind::Coding;
        if !compared.differences.iter().any(is_coding) || self.uncompressed.get() >= MAX_WAITS {
            return;
        }
        for _ in 0..CODING_TRIES {
            tokio::time::sleep(CODING_PAUSE).await;
            let again = send(visit, self.endpoints.of(visit).galley).await;
            if again.field("content-encoding").is_some() {
                compared.differences.retain(|one| !is_coding(one));
                compared.is_harmless("compressed from the second response on");
                return;
            }
        }
        self.uncompressed.set(self.uncompressed.get() + 1);
    }

    /// Compares Galley's second response, which may be from its cache, with the first one.
    async fn stored(
        &self,
        visit: &TryVisit,
        old: &SeenResponse,
        galley: &SeenResponse,
        compared: &mut ComparedResponses,
    ) {
        let is_page =
            visit.method == VisitMethod::Get && galley.status == Some(200) && galley.is_html();
        if !is_page
            || !galley
                .field("cache-status")
                .is_some_and(|status| status.contains("stored"))
        {
            return;
        }
        let again = send(visit, self.endpoints.of(visit).galley).await;
        let mut second = differences(visit, old, &again, &self.endpoints.ports);
        self.settle_body(visit, old, &again, &mut second).await;
        let first = second.differences.into_iter().next();
        if let Some(difference) = first {
            compared.differs(
                DifferenceKind::StoredPage,
                difference.old,
                difference.galley,
            );
        }
    }

    /// Revalidates the file with each server's own validators, like a browser that has stored it.
    async fn revalidated(
        &self,
        visit: &TryVisit,
        old: &SeenResponse,
        galley: &SeenResponse,
        compared: &mut ComparedResponses,
    ) {
        let is_plain = visit.fields.is_empty() && visit.method == VisitMethod::Get;
        let [Some(was), Some(is)] = [old, galley].map(|seen| seen.field("last-modified")) else {
            return;
        };
        if !is_plain || old.status != Some(200) || old.is_html() {
            return;
        }
        let addresses = self.endpoints.of(visit);
        let revalidations = [was, is].map(|date| visit.with("if-modified-since", &date));
        let old = send(&revalidations[0], addresses.old).await;
        let galley = send(&revalidations[1], addresses.galley).await;
        if old.status != galley.status {
            let [was, is] = [&old, &galley].map(SeenResponse::status_text);
            compared.differs(DifferenceKind::Status, was, is);
        }
    }

    /// Ignores a difference if both servers redirect to the same page, but Galley in fewer steps.
    async fn settle_redirect(
        &self,
        visit: &TryVisit,
        old: &SeenResponse,
        galley: &SeenResponse,
        compared: &mut ComparedResponses,
    ) {
        if !old.is_redirect() {
            return;
        }
        if let (Some(401 | 403), Some(end)) = (
            galley.status,
            self.chain(visit, old, Side::Old).await.last(),
        ) {
            if end.ends_with(&format!(" {}", galley.status_text())) {
                compared.differences.clear();
                compared.is_harmless("refusals that come before a redirect");
            }
            return;
        }
        if !galley.is_redirect() || old.is_permanent_redirect() != galley.is_permanent_redirect() {
            return;
        }
        let [was, is] = [
            self.chain(visit, old, Side::Old).await,
            self.chain(visit, galley, Side::Galley).await,
        ];
        if was.last() == is.last() && is.len() <= was.len() && was.last().is_some() {
            compared
                .differences
                .retain(|one| one.kind != DifferenceKind::Redirect);
            compared.is_harmless("a shorter chain of redirects to the same page");
        }
    }

    /// The URLs to which a server redirects, the last one with its status.
    async fn chain(&self, visit: &TryVisit, first: &SeenResponse, side: Side) -> Vec<String> {
        let ports = &self.endpoints.ports;
        let mut chain = vec![location(visit, first, ports)];
        while chain.len() < MAX_REDIRECTS
            && let Some(next) = chain.last().and_then(|url| of_url(url, self.hosts))
        {
            let next = TryVisit {
                fields: visit.fields.clone(),
                from: visit.from,
                ..next
            };
            let addresses = self.endpoints.of(&next);
            let address = match side {
                Side::Old => addresses.old,
                Side::Galley => addresses.galley,
            };
            let response = send(&next, address).await;
            if !response.is_redirect() {
                chain.push(format!("{} {}", next.url(), response.status_text()));
                break;
            }
            chain.push(location(&next, &response, ports));
        }
        chain
    }

    /// Adds the target of a redirect, and the links of a page, to the queue.
    fn follow(&self, visit: &TryVisit, old: &SeenResponse, queue: &mut VisitQueue) {
        if old.is_redirect() {
            let next = of_url(&location(visit, old, &self.endpoints.ports), self.hosts);
            next.filter(|next| self.endpoints.serves(&next.host, next.is_tls))
                .into_iter()
                .for_each(|next| queue.add(next));
        }
        let is_plain = visit.fields.is_empty() && visit.method == VisitMethod::Get;
        if self.crawling == Crawling::Links && is_plain && old.status == Some(200) && old.is_html()
        {
            let html = String::from_utf8_lossy(&old.body);
            for path in links(&html, &visit.host, MAX_LINKS) {
                queue.add(TryVisit::get(&visit.host, visit.is_tls, &path));
            }
        }
    }
}

#[derive(Clone, Copy)]
enum Side {
    Old,
    Galley,
}

/// The maximum number of requests of a comparison.
const MAX_VISITS: usize = 10_000;
/// The maximum number of links of a page.
const MAX_LINKS: usize = 200;
/// The maximum number of redirects that are followed. Browsers follow twenty.
const MAX_REDIRECTS: usize = 10;
const PROGRESS: usize = 100;
/// The number of repetitions. Galley loads a file into memory, and compresses it, some seconds after it was written.
const CODING_TRIES: usize = 20;
const CODING_PAUSE: Duration = Duration::from_millis(200);
/// The number of responses that may remain uncompressed before the comparison no longer waits.
const MAX_WAITS: usize = 3;
