//! A file for each stored page, named as nginx names its cache files, whose removal purges the page.
//!
//! Plugins for nginx compute the name from the address of a page and remove the file, without a request. Galley puts an equally named
//! file (a *marker*) in a folder **before** it fetches the page, and watches the folder:
//!
//! - A marker is removed: the page is purged, hard. A folder is removed, or events were lost: the site is purged.
//! - Every marker is a hard link of a file in `.galley`, which has the page's key in it: that says which page is meant once the marker
//!   is gone. One without its marker at the start was removed while nobody watched; without `.galley` everything was.
//! - A removal is in force when its event has been read, milliseconds later at most. Nobody acknowledges it, as nginx does not.
//! - There are at most 100,000: the oldest goes, and its page with it.
//!
//! One thread owns the folder, so that removals and new markers have an order. The user of PHP may write in it: no name there is
//! followed as a link, and what `.galley` says can purge pages of this site and nothing else.

mod folder;
mod handle;
mod owner;
mod thread;

pub use handle::PageMarkers;
pub use owner::FolderOwner;
