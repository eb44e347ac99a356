//! A file for each stored page, named as nginx names its cache files, whose removal purges the page.
//!
//! Plugins for nginx compute the name from the address of a page and remove the file, without a request. Galley creates a
//! file of the same name (a *marker*) in a folder **before** it fetches the page, and watches the folder:
//!
//! - If a marker is removed, the page is purged hard. If a folder is removed, or events were lost, the site is purged.
//! - Every marker is a hard link to a file in `.galley`, which contains the page's key: it identifies the page when the
//!   marker is gone. A file without its marker at the start means that the marker was removed while Galley was stopped; if
//!   `.galley` is missing, everything was.
//! - A removal takes effect when its event has been read, after milliseconds. Nobody acknowledges it, as with nginx.
//! - There are at most 100,000: the oldest is removed, and its page with it.
//!
//! One thread owns the folder, so removals and new markers have an order. PHP's user may write in it: no name in it is
//! followed as a link, and the contents of `.galley` can purge pages of this site and nothing else.

mod folder;
mod handle;
mod owner;
mod thread;

pub use handle::PageMarkers;
pub use owner::FolderOwner;
