//! From a request to its response. Start with [`handle`] in `respond.rs`.
//!
//! [`admit`] checks and normalizes a head and finds its site, [`authorize`] applies access control, the front thread then
//! receives the body, and [`handle`] responds from memory, from a file, or from the upstream. [`hit()`] is the short way for a request
//! that only memory answers. [`Sites`] has the sites of one configuration, [`Services`] what all of them share.
//!
//! Every failure is a [`fault::Fault`], and only [`fault`] decides what the client sees of it. This crate never reads or writes a
//! socket: the front thread writes the [`Response`]. It never asks an upstream itself, but sends a job to a fetch thread.

mod access;
mod access_control;
mod asked_twice;
pub mod audit;
mod before_lookup;
mod challenge;
mod coded_file;
mod crawler;
mod dashboard;
mod dashboard_gateway;
mod dictionary;
mod dictionary_file;
mod error_page;
mod exchange;
pub mod fault;
mod file;
mod folder;
mod forward;
mod hints;
mod hit;
mod include;
pub mod lookup;
mod miss;
mod own_call;
mod page;
mod parts;
mod private;
mod purge;
mod refreshed_pages;
mod repair;
mod respond;
mod response;
mod sent_file;
mod site;
mod slow_requests;
mod visit;

pub use access::{authorize, limited_site};
pub use access_control::{AccessControl, ClientLists};
pub use before_lookup::{before_lookup, check_head};
pub use crawler::{NameLookup, proven};
pub use dashboard_gateway::{
    DashboardFuture, DashboardGateway, DashboardHost, DashboardRequest, DashboardResponse,
    SiteDashboard,
};
pub use error_page::{ErrorPage, ErrorPages};
pub use exchange::{
    Admission, EarlierLookup, Exchange, FastPathResult, admit, origin, resume, site_mark,
};
pub use folder::{SiteFiles, SmallFiles, TRUSTED, WantedFile};
pub use forward::{
    backend, fetch_request, member_request, needs_visit_link, pass_request, streams_body,
};
pub use hit::{Hit, Keys, hit};
pub use include::SiteIncludes;
pub use own_call::{probe, run_cron};
pub use refreshed_pages::RefreshedPages;
pub use respond::handle;
pub use response::{CACHE_STATUS, Response, ResponseBody, ResponseFields, length_of};
pub use site::{PoolHandle, Services, Site, SiteCron, Sites, Upstream, UpstreamWarnings};
pub use slow_requests::{SlowRequest, SlowRequests};
pub use visit::standing;
