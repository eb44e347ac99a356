//! `galley dashboard`: a small web server on this machine's loopback address that shows the running server in a browser.
//!
//! It holds no data. Every figure is an answer of the admin interface, asked with the token that the command was started with, so
//! the server decides what is seen and purged. It ends with the command, and the server itself opens nothing for browsers.

mod address;
mod command;
mod forward;
mod live;
mod opener;
mod router;
mod sampler;
mod state;

pub(super) use command::dashboard;
