//! Visitors of a site: the pages that they request, and their request heads.

mod ab;
mod access_log;
mod browser;
mod generator;
mod pages;
mod sitemap;

pub use self::{
    ab::AbRequests,
    access_log::{LoggedRequests, access_log},
    generator::{VisitorShares, Visitors},
    pages::{PageMethod, VisitedPage},
    sitemap::{Sitemap, sitemap},
};
