//! End-to-end tests: the real `galley` binary with real PHP, Apache, nginx, Redis and WordPress, scripted origins, and clients
//! that send arbitrary bytes. Each module tests one feature.

#![expect(
    clippy::unwrap_used,
    reason = "a failed unwrap fails the test, also in helpers"
)]
#![expect(
    clippy::format_collect,
    reason = "a few hundred fields; readable code matters more than speed"
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
mod denied_files;
mod dialects;
mod durable;
mod durable_large;
mod esi;
mod esi_hostile;
mod esi_stage;
mod fast_path;
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
mod http;
mod http2;
mod http_limits;
mod http_upstream;
mod image_formats;
mod import;
mod import_comparison;
mod invalid_upstream_cases;
mod invalid_upstream_responses;
mod large_files;
mod listeners;
mod load;
mod logs;
mod managed_php;
mod members;
mod neighbors;
mod outages;
mod overload;
mod overload_outage;
mod page_markers;
mod php_sandbox;
mod poison;
mod pool;
mod privileged;
mod process;
mod program;
mod purge;
mod purge_forward;
mod purge_races;
mod purge_tokens;
mod reload;
mod renewal;
mod revalidation;
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
mod tls_certificates;
mod tls_equivalence;
mod tls_support;
mod tls_upstream;
mod traces;
mod trusted_proxies;
mod turns;
mod unread;
mod unsafe_requests;
mod upgrade;
mod upgrade_certificates;
mod uploads;
mod waiting;
mod wordpress;
