//! The server as a whole: the real binary, real PHP and Apache, raw clients. Each module tries to break one side of it.

#![expect(clippy::unwrap_used, reason = "tests, their helpers too")]
#![expect(
    clippy::format_collect,
    reason = "a few hundred fields, written to be read"
)]

mod access;
mod balancing;
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
mod durable;
mod durable_large;
mod esi;
mod esi_hostile;
mod esi_stage;
mod fastcgi;
mod fastcgi_broken;
mod files;
mod forged_fragments;
mod forged_private;
mod front_rules;
mod health;
mod hosts;

mod fast_path;
mod fastcgi_programs;
mod http;
mod http2;
mod http_limits;
mod http_upstream;
mod import_try;
mod imported;
mod large_files;
mod listeners;
mod load;
mod lock_age;
mod logs;
mod managed;
mod members;
mod missing_generated_files;
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
mod proxied;
mod purge;
mod purge_forward;
mod reload;
mod renewal;
mod revalidation;
mod secrets;
mod serving;
mod shared_limits;
mod slow_attacks;
mod slow_clients;
mod small_files;
mod stream_request;
mod streaming;
mod support;
mod system_calls;
mod thread_scheduling;
mod tiers;
mod tls;
mod tls_alike;
mod tls_support;
mod tls_upstream;
mod traces;
mod unread_responses;
mod unsafe_requests;
mod unstorable_bodies;
mod upgrade;
mod upgrade_certificates;
mod uploads;
mod upstream_strict;
mod waiters;
mod wordpress;
