//! Page markers: a file for each stored page, named like nginx's cache files, whose removal purges the page.
//!
//! Plugins for nginx compute the name from the address of a page and remove the file, without a request. Galley creates a
//! file of the same name (a *marker*) in a folder **before** it fetches the page, and watches the folder:
//!
//! - If a marker is removed, the page is purged hard. If a folder is removed, or events were lost, the site is purged.
//! - Every marker is a hard link to a file in `.galley`, which contains the page's key: it identifies the page after the
//!   marker was removed. A file without its marker at the start means that the marker was removed while Galley was stopped.
//!   If `.galley` is missing, all markers were.
//! - A removal takes effect when its event has been read, after milliseconds. It is not acknowledged, as with nginx.
//! - There are at most 100,000 markers. Above that, the oldest is removed and its page is purged.
//!
//! One thread owns the folder, so removals and new markers have an order. PHP's user may write to it: no name in it is
//! followed as a link, and the contents of `.galley` can only purge pages of this site.

mod folder;
mod handle;
mod owner;
mod thread;

pub use handle::PageMarkers;
pub use owner::FolderOwner;
