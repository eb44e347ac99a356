//! Files below a site's root: which one is meant, whether it may leave, and in what form.
//!
//! [`Root::resolve`] does for WordPress what `try_files` does elsewhere, and never opens anything
//! outside the root, anything but regular files, or anything that the names' deny list or a
//! `.htaccess` closes. [`answer()`] turns a file into a response. Everything in [`Root`] may block
//! on the disk: callers run it off the threads that serve connections.
//!
//! The order of reading: `resolve` (what a path means), `tree` (how anything is opened), `deny` and
//! `htaccess` (what is closed), `asset` (an opened file), `answer`.

mod asset;
mod deny;
#[cfg(fuzzing)]
pub mod fuzzing;
mod htaccess;
mod memory_look;
mod open_root;
mod options;
mod path;
mod pictures;
mod recheck;
mod resolve;
mod response;
mod root;
mod root_names;
mod tree;
mod types;

pub use asset::{Asset, FileForm};
pub use options::Options;
pub use resolve::Resolved;
pub use response::{FileResponse, IMMUTABLE, Part, answer, is_immutable, validators};
pub use root::Root;
