//! The commands with which an operator prepares a server: `setup`, `import`, `load` and `plugin`. No server process runs them.
//!
//! Each command is a function from its options to an exit code. Data goes to stdout, messages go to stderr; exit codes: 0 success,
//! 1 failure, 2 wrong usage or configuration. What all commands share is here, too: [`ask`] sends requests to the admin interface
//! of a running server, [`show`] prints data and messages, [`figures`] writes numbers for people, [`outcome`] has the exit codes.

mod admin_options;
pub mod ask;
pub mod figures;
mod import;
mod load;
mod object_cache;
pub mod option_change;
mod options;
pub mod outcome;
mod plugin;
mod setup;
mod setup_command;
pub mod show;

pub use admin_options::AdminOptions;
pub use import::import;
pub use load::{LoadOptions, load};
pub use options::{
    ImportOptions, PluginCommand, PluginOptions, RemoveOptions, SetupOptions, TlsOption,
};
pub use plugin::plugin;
pub use setup_command::setup;
