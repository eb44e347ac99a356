//! `galley dashboard`: a small web server on this machine's loopback address that shows the running server in a browser.
//!
//! It stores no data. Every figure comes from the admin interface, requested with the token of the command, so the server
//! decides what can be seen and purged. It ends with the command, and the server itself opens nothing for browsers.

mod address;
mod command;
mod forward;
mod live;
mod opener;
mod router;
mod sampler;
mod state;

pub(super) use command::dashboard;
