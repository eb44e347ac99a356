//! Everything that needs real directories: what paths mean, `.htaccess` files, and that nothing
//! leaves the root.
#![expect(
    clippy::unwrap_used,
    reason = "tests: a failure to set the scene is a failure"
)]

mod htaccess;
mod pictures;
mod property;
mod resolve;
mod site;
