//! Files below a site's root: which file a path means, whether it may be sent, and in what form.
//!
//! [`Root::resolve`] does for WordPress what `try_files` does elsewhere. It never opens anything outside the root, anything
//! but regular files, or anything that the list of denied names or a `.htaccess` closes. [`answer()`] turns a file into a
//! response. Everything in [`Root`] may block on the disk: callers run it outside the threads that serve connections.
//!
//! Read in this order: `resolve` (what a path means), `tree` (how anything is opened), `deny` and `htaccess` (what is
//! closed), `asset` (an opened file), `answer`.

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
