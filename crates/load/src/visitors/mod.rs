//! Visitors of a site: which pages they ask for, and with which heads.

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
