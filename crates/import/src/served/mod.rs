//! What visitors may notice of the other server's configuration: its hosts, and each statement with the paths that it is about.
//!
//! `galley import --try` derives requests from it, and names the statement behind a difference.

mod apache;
mod nginx;
mod paths;
mod read;
mod samples;
mod statement;
mod words;

pub use paths::StatementPaths;
pub use read::served;
pub use statement::{
    ServedConfiguration, ServedHost, ServedListener, ServedStatement, StatementSubject,
};
