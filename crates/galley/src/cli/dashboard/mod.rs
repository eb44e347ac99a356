//! `galley dashboard`: a small web server on this machine's loopback address that shows the running server in a browser.
//!
//! It stores no data. All figures are requested from the admin interface with the token of the command, so that the server
//! decides what the user can see and purge. It ends with the command, and the server itself opens no listener for browsers.

mod address;
mod command;
mod forward;
mod live;
mod opener;
mod router;
mod sampler;
mod state;

pub(super) use command::dashboard;
