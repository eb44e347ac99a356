//! A server's configuration as one file that can run beside it: on other ports, with its own files for logs, caches and process ids.
//!
//! The copy decides as the original does. What it has to change is named in [`ServerCopy::changes`]. TLS stays TLS, with another
//! certificate: conditions on the scheme, also those in a `.htaccess` that is read in place, hold as they do today.

mod apache;
mod builder;
mod caddy;
mod key;
mod nginx;
mod server_copy;

pub use builder::{CopiedListener, CopyError, CopyWorkspace};
pub(crate) use key::listen_key;
pub use server_copy::{ServerCopy, copy};
