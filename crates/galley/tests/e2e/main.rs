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

mod access_control;
mod access_countries;
mod admin_commands;
mod admin_limits;
mod audit;
mod caching;
mod caching_freshness;
mod caching_rules;
mod check_command;
mod circuit_breaker;
mod cluster;
mod cluster_objects;
mod cluster_pages;
mod collapsing;
mod compress;
mod compress_streaming;
mod compress_upstream;
mod contract;
mod crawl;
mod crawlers;
mod cron;
mod denied_files;
mod dictionaries;
mod dictionary_support;
mod disk_large_objects;
mod disk_persistence;
mod early_refresh;
mod esi;
mod esi_hostile;
mod esi_support;
mod fast_path;
mod fastcgi;
mod fastcgi_errors;
mod fastcgi_limits;
mod fastcgi_programs;
mod files;
mod files_forbidden;
mod files_in_pages;
mod forged_fragments;
mod forged_private_fragments;
mod health;
mod hosts;
mod http1;
mod http1_limits;
mod http2;
mod http3;
mod http_upstream;
mod image_formats;
mod import;
mod import_comparison;
mod invalid_private_fragments;
mod invalid_upstream_cases;
mod invalid_upstream_responses;
mod large_files;
mod listeners;
mod load;
mod load_balancing;
mod lock_age;
mod logs;
mod managed_php;
mod members;
mod missing_generated_files;
mod next_pages;
mod nginx_migration;
mod overload;
mod page_markers;
mod php_sandbox;
mod plugin_protocols;
mod poison;
mod pool;
mod privileged;
mod process;
mod purge;
mod purge_forward;
mod purge_races;
mod purge_tiers;
mod purge_tokens;
mod redirects_and_headers;
mod reload;
mod response_repairs;
mod revalidation;
mod sent_files;
mod serving;
mod shared_limits;
mod site_isolation;
mod site_names;
mod slow_attacks;
mod slow_clients;
mod small_files;
mod stream_request;
mod streaming;
mod support;
mod system_calls;
mod test_cluster;
mod thread_scheduling;
mod tls;
mod tls_certificates;
mod tls_equivalence;
mod tls_support;
mod tls_upstream;
mod traces;
mod trusted_proxies;
mod unreachable_upstreams;
mod unread_responses;
mod unsafe_requests;
mod unstorable_bodies;
mod upgrade_certificates;
mod uploads;
mod upstream_outages;
mod waiters;
mod websocket;
mod wordpress;
