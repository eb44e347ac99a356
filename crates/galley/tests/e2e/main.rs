//! The server as a whole: the real binary, real PHP and Apache, raw clients. Each module tries to break one side of it.

#![expect(clippy::unwrap_used, reason = "tests, their helpers too")]
#![expect(
    clippy::format_collect,
    reason = "a few hundred fields, written to be read"
)]

mod access;
mod caching;
mod caching_rules;
mod check;
mod cluster;
mod cluster_pages;
mod codings_live;
mod codings_upstream;
mod collapsing;
mod coming_from;
mod compress;
mod contract;
mod cron;
mod dialects;
mod disk_large_objects;
mod disk_persistence;
mod esi;
mod esi_hostile;
mod esi_stage;
mod fastcgi;
mod fastcgi_broken;
mod files;
mod forged_fragments;
mod forged_private;
mod front_rules;
mod greedy;
mod heal;
mod health;
mod hosts;
mod load_balancing;

mod early_refresh;
mod fast_path;
mod http;
mod http2;
mod http_limits;
mod http_upstream;
mod import_try;
mod imported;
mod large_files;
mod listeners;
mod load;
mod logs;
mod managed;
mod members;
mod overload;
mod overload_outage;
mod page_markers;
mod php_sandbox;
mod pictures;
mod poison;
mod pool;
mod privileged;
mod privileged_upgrade;
mod process;
mod program;
mod proxied;
mod purge;
mod purge_forward;
mod purge_tiers;
mod reload;
mod revalidation;
mod secrets;
mod serving;
mod shared_limits;
mod silence;
mod site_isolation;
mod slow_clients;
mod small_files;
mod stored;
mod stream_request;
mod streaming;
mod support;
mod system_calls;
mod test_cluster;
mod tls;
mod tls_alike;
mod tls_support;
mod tls_upstream;
mod traces;
mod turns;
mod unread;
mod unsafe_requests;
mod upgrade_certificates;
mod uploads;
mod upstream_outages;
mod upstream_strict;
mod waiting;
mod websocket;
mod wordpress;
