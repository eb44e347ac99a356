//! Copies a server's configuration to one file that can run at the same time as the original: on other ports, with separate
//! files for logs, caches and process ids.
//!
//! The copy makes the same decisions as the original. [`ServerCopy::changes`] lists the necessary changes. TLS listeners use
//! TLS with another certificate, so conditions on the scheme, also those in a `.htaccess` that is read in place, apply as in
//! the original.

mod apache;
mod builder;
mod caddy;
mod key;
mod nginx;
mod server_copy;

pub use builder::{CopiedListener, CopyError, CopyWorkspace};
pub(crate) use key::listen_key;
pub use server_copy::{ServerCopy, copy};
