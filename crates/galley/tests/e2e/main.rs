//! The server as a whole: the real binary, real PHP and Apache, raw clients. Each module tries to break one side of it.

#![expect(clippy::unwrap_used, reason = "tests, their helpers too")]
#![expect(
    clippy::format_collect,
    reason = "a few hundred fields, written to be read"
)]

mod access_control;
mod balancing;
mod caching;
mod caching_rules;
mod check_command;
mod cluster;
mod cluster_pages;
mod collapsing;
mod compress;
mod compress_streaming;
mod compress_upstream;
mod contract;
mod cron;
mod durable;
mod durable_large;
mod esi;
mod esi_hostile;
mod esi_support;
mod fastcgi;
mod fastcgi_errors;
mod files;
mod forged_fragments;
mod forged_private_fragments;
mod greedy;
mod heal;
mod health;
mod hosts;
mod nginx_migration;
mod plugin_protocols;
mod redirects_and_headers;

mod fast_path;
mod http1;
mod http1_limits;
mod http2;
mod http_upstream;
mod import_try;
mod imported;
mod large_files;
mod listeners;
mod load;
mod logs;
mod managed;
mod members;
mod neighbors;
mod outages;
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
mod reload;
mod renewal;
mod revalidation;
mod secrets;
mod serving;
mod shared_limits;
mod silence;
mod slow_clients;
mod small_files;
mod stored;
mod stream_request;
mod streaming;
mod support;
mod system_calls;
mod tiers;
mod tls;
mod tls_alike;
mod tls_support;
mod tls_upstream;
mod traces;
mod turns;
mod unread;
mod unsafe_requests;
mod upgrade;
mod upgrade_certificates;
mod uploads;
mod upstream_strict;
mod waiting;
mod wordpress;
