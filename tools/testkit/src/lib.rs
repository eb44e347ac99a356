//! Starts the real things that tests, demo and bench need: PHP-FPM, MariaDB, Apache, WordPress, Chromium, Pebble, Knot, Galley itself.
//!
//! Every part has its own directory (usually below a [`Scratch`]), its own unix socket or a free TCP port on 127.0.0.1, and
//! ends with its handle; if the process that started it dies without a word, a watcher ends it. Nothing here touches
//! the services, data or ports of the machine. Works as root (workers run as `www-data`, the database as `mysql`) and as
//! an ordinary user (everything runs as oneself).
//!
//! What real parts cannot do on command is scripted: [`origin`] answers byte by byte, [`client`] asks byte by byte.
//! [`faults`] does to a running server what must not harm it, [`growth`] measures it while it grows, [`stress`] under
//! adverse load, [`cluster`] harms several that share an engine. [`exactness`] counts what purges miss and what they hit without need.

mod account;
mod apache;
mod axe;
mod chromium;
pub mod client;
pub mod cluster;
mod error;
pub mod exactness;
pub mod faults;
mod fcgiwrap;
mod galley;
mod group;
pub mod growth;
mod knot;
mod mariadb;
mod nginx;
pub mod origin;
mod pebble;
mod php_fpm;
mod place;
mod process;
mod redis;
mod scratch;
pub mod slow;
mod spread;
mod strace;
pub mod stress;
mod template;
mod wait;
mod wordpress;

pub use account::{require_reachable, runs_as_root};
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
pub use place::free_port;
pub use redis::Redis;
pub use rustix::process::Signal;
pub use scratch::Scratch;
pub use spread::Spread;
pub use strace::Strace;
pub use template::wordpress_from_template;
pub use wait::wait_for;
pub use wordpress::{Cron, Options, SampleContent, WordPress};
