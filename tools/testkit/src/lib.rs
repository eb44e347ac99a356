//! Services for tests, demo and bench: PHP-FPM, MariaDB, Apache, WordPress, Chromium, Pebble, Knot, and Galley itself.
//!
//! Every service has a private directory (usually in a [`Scratch`]), listens on a unix socket or a free TCP port of 127.0.0.1,
//! and ends when its handle is dropped. If the owning process ends first, a watcher ends the service. The kit does not use the
//! services, data or ports of the machine. It works as root (workers run as `www-data`, the database as `mysql`) and as an
//! ordinary user (all services run as this user).
//!
//! [`origin`] provides scripted upstreams, and [`client`] a client for raw requests, for behavior that real programs do not have.
//! [`faults`] injects faults into a running server, [`growth`] measures it while its load grows, [`stress`] measures it under
//! adverse load, and [`cluster`] injects faults into a cluster that shares an engine. [`exactness`] counts stale pages and
//! unnecessary purges.

mod account;
mod addresses;
mod apache;
mod axe;
mod chromium;
pub mod client;
pub mod cluster;
mod control_group;
mod error;
pub mod exactness;
pub mod faults;
mod fcgiwrap;
mod galley;
pub mod growth;
mod knot;
mod mariadb;
mod nginx;
pub mod origin;
mod pebble;
mod php_fpm;
mod process;
mod programs;
mod quartiles;
mod redis;
mod scratch;
mod skip;
pub mod slow;
mod strace;
pub mod stress;
mod template;
mod wait;
mod wordpress;

pub use account::{require_reachable, runs_as_root};
pub use addresses::free_port;
pub use apache::{Apache, ApacheOptions};
pub use chromium::{Chromium, Tab};
pub use error::TestkitError;
pub use fcgiwrap::FcgiWrap;
pub use galley::{Galley, Launch};
pub use knot::Knot;
pub use mariadb::{Durability, MariaDb};
pub use nginx::Nginx;
pub use pebble::{Pebble, PebbleOptions};
pub use php_fpm::{FpmListen, FpmOptions, PhpFpm};
pub use quartiles::Quartiles;
pub use redis::Redis;
pub use rustix::process::Signal;
pub use scratch::Scratch;
pub use skip::skip;
pub use strace::Strace;
pub use template::wordpress_from_template;
pub use wait::wait_for;
pub use wordpress::{Cron, Options, SampleContent, WordPress};
