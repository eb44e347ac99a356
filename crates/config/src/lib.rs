//! The configuration file: parses and checks it into a [`Config`], or returns diagnostics.
//!
//! One table of options ([`options()`]) defines everything: the names, how a value is read, its bounds and its default, the
//! reference page and the sample file. A file is read once and completely. One run reports all diagnostics of all files,
//! each with its position, the reason and a remedy. Nothing is guessed, capped or dropped silently: a [`Config`] is
//! complete and valid.
//!
//! This crate reads the file system (includes, roots, token files), but opens no sockets and starts nothing.

mod access;
mod acme;
mod assemble;
mod audit;
mod balance;
mod certificates;
mod changed;
mod check;
mod cluster;
mod config;
mod config_files;
mod crawlers;
mod dashboard;
mod diagnostic;
mod effective;
mod effective_option;
mod forward;
mod forward_check;
mod headers;
mod include;
mod internal;
mod kept;
mod limit;
mod listen;
mod load;
mod log;
mod log_field;
mod machine;
mod names;
mod object_cache;
mod options;
mod php;
mod quantity;
mod read;
mod read_crawlers;
mod read_forward;
mod reader;
mod redirect;
mod root;
mod rule;
mod server;
mod servers;
mod site;
mod table;
mod text;
mod tls;
mod tree;
mod upgrade;
mod upstream;
mod value;
mod walk;

pub use changed::{ChangedOption, changed_options};
pub use config::{
    AcmeChallenge, AcmeConfig, AdminConfig, Cache, CacheDisk, ClusterConfig, Config, DnsProof,
    MAX_ERROR_PAGE, MAX_TOKEN_FILE, ProcessConfig, ServerConfig, SiteConfig, SpoolConfig,
    TlsVersion,
};
pub use config_files::{MachineFinding, OptionPath};
pub use crawlers::{CrawlerFile, CrawlerLists};
pub use diagnostic::{Diagnostic, Diagnostics, Warning};
pub use effective_option::{EffectiveOption, EffectiveSection};
pub use forward::{ForwardKind, PurgeForward};
pub use include::included;
pub use listen::{AdminListen, Listen};
pub use load::{ConfigSource, from_text, load, load_admin};
pub use log::{LogConfig, LogFormat, LogLevel, LogTarget, OtlpConfig};
pub use log_field::{KnownField, LogField};
pub use machine::{memory, runtime_dir};
pub use names::in_order;
pub use options::{Fallback, OptionRow, OptionSection, ValueKind};
pub use quantity::{
    RunInterval, parse_duration, parse_size, rounded_duration, rounded_size, write_duration,
    write_size,
};
pub use site::default_token_file;
pub use table::{ADDED_TO_SITE, AS_IN_SITE, STATUS, options};
pub use upstream::{
    BalanceMethod, HealthCheckConfig, HttpUpstream, LoadBalancing, ManagedPhp, PhpAddress,
    PhpSandbox, PhpServer, PhpWritable, Program, ServerShare, UpstreamConfig, UpstreamLimits,
    UpstreamTls,
};
