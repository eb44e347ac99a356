//! The operating system: descriptors, listening sockets, accounts, privileges, processors, signal numbers.
//!
//! The only crate that may contain `unsafe` code: system calls that no library offers. [`clock`] gives the time.
//!
//! These calls are made at the start or on the control thread, except for [`unsent`], which is called for slow clients, and
//! [`PageSender`]. This crate never knows a site or a request.

pub mod account;
pub mod cgroup;
pub mod clock;
pub mod connect;
mod deferred_accept;
mod lock;
pub mod memory_file;
mod own_pages;
pub mod packets;
mod pages;
pub mod privileges;
mod process;
pub mod reach;
pub mod sandbox;
mod scheduling;
pub mod sockets;
pub mod stamps;

pub use lock::Lock;
pub use own_pages::{OwnPages, PageSender};
pub use pages::use_small_pages;
pub use process::{
    HELPERS, cores, descriptors, is_out_of_descriptors, lower_priority, owner,
    raise_descriptor_limit, raise_priority, random_bytes, running_processes, unsent,
    usual_priority, yield_processor,
};
