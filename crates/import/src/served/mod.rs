//! The parts of the other server's configuration that visitors may notice: its hosts, and each statement with its paths.
//!
//! `galley import --try` derives requests from them, and names the statement that causes a difference.

mod paths;
mod read;
mod samples;
mod statement;

pub use paths::StatementPaths;
pub use read::served;
pub use statement::{
    ServedConfiguration, ServedHost, ServedListener, ServedStatement, StatementSubject,
};
