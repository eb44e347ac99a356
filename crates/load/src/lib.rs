//! An HTTP load generator in one thread: many connections, every response checked, latency in HDR histograms.
//!
//! A [`LoadClient`] holds connections to one [`Target`] and runs one or more [`Workload`]s on them at the same time, any
//! number of times; the connections stay open between runs. In a closed loop each connection sends its next request when it
//! has received its response. At a constant rate each request has an intended start, from which its latency is measured, so
//! that a stalled server is charged for every request that should have started in that time (no coordinated omission).
//!
//! [`Requests`] produces the requests; a [`Generator`] writes them from a [`Template`] that may have different values in
//! each. A [`LoadOutcome`] is the result of a workload: one histogram for responses as expected, one for responses with
//! another status, one for requests whose connection failed. A request without a response counts with the time that it
//! waited. Several clients in their own threads use several cores; [`LoadOutcome::merge`] adds their results up.
//!
//! [`Visitors`] are requests of browsers for pages in a list, a sitemap or an access log. A [`LoadReport`] is the result of
//! a run, as JSON, as CSV, in the format of ab, or as one HTML page; [`find_knee`] and [`KneeCause`] evaluate a ramp.
//!
//! The crate opens connections only to the target, writes no files and prints nothing.

mod client;
mod connect;
mod error;
mod http1;
mod http2;
#[cfg(feature = "http3")]
mod http3;
mod multiplexed;
mod outcome;
mod report;
mod requests;
mod response;
mod run;
mod schedule;
mod slices;
mod template;
mod timer;
mod trust;
mod visitors;

pub use self::{
    client::{Limit, LoadClient, Timeouts, Workload},
    connect::{Connections, Target, TargetProtocol, TargetTls},
    error::LoadError,
    outcome::{BodySample, LoadOutcome},
    report::{
        Knee, KneeCause, LoadReport, LoadSetup, LoadVerdict, MachineSample, Percentile,
        ReportedSecond, ab_lines, change, csv, escaped, find_knee, html,
    },
    requests::{ExpectedStatus, Generator, RequestOrder, Requests, ResponseCheck},
    response::BodyCoding,
    schedule::Pace,
    slices::LoadSlice,
    template::Template,
    trust::TrustedCertificates,
    visitors::{
        AbRequests, LoggedRequests, PageMethod, Sitemap, VisitedPage, VisitorShares, Visitors,
        access_log, sitemap,
    },
};
