//! Files below a site's root: which file a path means, whether it may be sent, and in which form.
//!
//! [`Root::resolve`] does for WordPress what `try_files` does in nginx. It never opens a path outside the root, anything
//! but regular files, or a file that the list of denied names or a `.htaccess` denies. [`respond()`] turns a file into a
//! response. The functions of [`Root`] may block on the disk (except [`Root::resolve_script`]): callers run them outside the
//! threads that serve connections.
//!
//! Read in this order: `resolve` (the meaning of a path), `tree` (how files are opened), `deny` and `htaccess` (which files
//! are denied), `asset` (an opened file), `respond`.

mod apache_lines;
mod asset;
mod cached_lookup;
mod deny;
mod front_controller;
#[cfg(fuzzing)]
pub mod fuzzing;
mod htaccess;
mod links;
mod open_root;
mod options;
mod path;
mod pictures;
mod recheck;
mod resolve;
mod response;
mod root;
mod root_names;
mod sent_file;
mod sent_files;
mod tree;
mod types;

pub use apache_lines::{ApacheLine, apache_lines};
pub use asset::{Asset, FileForm};
pub use links::links_out_of;
pub use options::Options;
pub use resolve::Resolved;
pub use response::{BodyPiece, FileResponse, IMMUTABLE, is_immutable, respond, validators};
pub use root::Root;
pub use sent_file::SentFile;
pub use sent_files::SentFiles;
