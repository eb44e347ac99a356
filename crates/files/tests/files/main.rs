//! Tests on real directories: resolving paths, `.htaccess` files, image siblings, and that nothing outside the root is served.
#![expect(clippy::unwrap_used, reason = "tests")]

mod compressed_siblings;
mod front_controllers;
mod htaccess;
mod image_siblings;
mod links;
mod properties;
mod resolve;
mod sent_files;
mod site;
