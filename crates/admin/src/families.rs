//! Every metric family of `GET /metrics`: name, type and help text. Names do not change once released.

use super::text::{MetricFamily, MetricKind};

macro_rules! families {
    ($($kind:ident $family:ident $name:literal $help:literal)+) => {
        $(pub(super) const $family: MetricFamily = MetricFamily {
            name: $name,
            kind: MetricKind::$kind,
            help: $help,
        };)+
    };
}

// The process.
families! {
    Gauge INFO "galley_info" "1, with the version as a label"
    Gauge UPTIME "galley_uptime_seconds" "seconds since the start"
    Gauge DESCRIPTORS "galley_descriptors" "open file descriptors"
    Gauge DESCRIPTORS_LIMIT "galley_descriptors_limit" "limit of open file descriptors"
    Gauge CONNECTIONS "galley_connections" "client connections open"
    Counter CONNECTIONS_CLOSED "galley_connections_closed_total" "connections closed by Galley, by reason"
    Counter LOG_LINES_DROPPED "galley_log_lines_dropped_total" "access log lines dropped"
    Counter SPANS_EXPORTED "galley_spans_exported_total" "spans that the collector has taken"
    Counter SPANS_DROPPED "galley_spans_dropped_total" "spans that the collector has not taken in time, or has rejected"
    Gauge UPSTREAM_IN_FLIGHT "galley_upstream_in_flight" "exchanges in progress with upstreams"
    Gauge UPSTREAM_WAITING "galley_upstream_waiting" "requests waiting for a slot at an upstream"
}

// Stored pages in memory.
families! {
    Gauge STORE_ENTRIES "galley_store_entries" "stored pages and hit-for-pass entries"
    Gauge STORE_BYTES "galley_store_bytes" "bytes of stored pages"
    Gauge STORE_RESERVED "galley_store_reserved_bytes" "bytes of stored pages, pages arriving and bodies being sent"
    Gauge STORE_LIMIT "galley_store_limit_bytes" "memory limit of all of these, in bytes"
    Counter STORE_EVICTIONS "galley_store_evictions_total" "entries evicted to make room"
}

// Stored pages on the disk.
families! {
    Gauge DISK_STORING "galley_disk_storing" "1 while pages are written to the disk"
    Gauge DISK_PURGES_KEPT "galley_disk_purges_kept" "1 while purges reach the disk before they are acknowledged"
    Gauge DISK_ENTRIES "galley_disk_entries" "pages on the disk"
    Gauge DISK_BYTES "galley_disk_bytes" "bytes used on disk, in blocks of 4096"
    Gauge DISK_LIMIT "galley_disk_limit_bytes" "limit of bytes on disk"
    Gauge DISK_INDEX "galley_disk_index_bytes" "bytes of memory used by the index"
    Gauge DISK_WAITING "galley_disk_waiting" "pages waiting to be written"
    Counter DISK_HITS "galley_disk_hits_total" "pages that were read from the disk"
    Counter DISK_TIMEOUTS "galley_disk_timeouts_total" "lookups abandoned because the disk was too slow"
    Counter DISK_WRITTEN "galley_disk_written_total" "pages written"
    Counter DISK_REJECTED "galley_disk_rejected_total" "pages not written because the disk was full or failing"
    Counter DISK_EVICTIONS "galley_disk_evictions_total" "pages evicted, or removed because they were not requested"
    Counter DISK_DAMAGED "galley_disk_damaged_total" "damaged files removed"
    Counter DISK_FAILURES "galley_disk_failures_total" "failed reads"
}

// Bodies outside of stored pages.
families! {
    Gauge SPOOL_MEMORY "galley_spool_memory_bytes" "bytes of request and response bodies in memory"
    Gauge SPOOL_MEMORY_LIMIT "galley_spool_memory_limit_bytes" "limit of these bytes"
    Gauge SPOOL_DISK "galley_spool_disk_bytes" "bytes of request and response bodies in files"
    Gauge SPOOL_DISK_LIMIT "galley_spool_disk_limit_bytes" "limit of these bytes"
    Counter SPOOL_REQUESTS "galley_spool_requests_total" "request bodies written to a file"
    Counter SPOOL_RESPONSES "galley_spool_responses_total" "responses written to a file because their client was slower than PHP"
    Counter SPOOL_REJECTED "galley_spool_rejected_total" "request bodies rejected because the spool was full"
    Counter SPOOL_BLOCKED "galley_spool_blocked_total" "responses that occupied PHP until their client had received them, because the spool was full"
    Gauge SMALL_FILES_ENTRIES "galley_small_files_entries" "small files in memory"
    Gauge SMALL_FILES_BYTES "galley_small_files_bytes" "bytes of small files in memory, in all codings"
    Counter SMALL_FILES_EVICTIONS "galley_small_files_evictions_total" "small files evicted from memory"
    Counter SMALL_FILES_CHECKS "galley_small_files_checks_total" "checks on disk that found a small file unchanged"
    Counter SMALL_FILES_READS "galley_small_files_reads_total" "small files that were read into memory"
    Counter COMPRESSION_PAGES "galley_compression_pages_total" "stored pages that were compressed"
    Counter COMPRESSION_IN "galley_compression_bytes_in_total" "uncompressed bytes, counted once for each coding"
    Counter COMPRESSION_OUT "galley_compression_bytes_out_total" "compressed bytes"
    Counter COMPRESSION_POSTPONED "galley_compression_postponed_total" "pages not compressed because the queue was full"
}

// Requests of a site.
families! {
    Counter REQUESTS "galley_requests_total" "requests by outcome"
    Counter BODY_BYTES "galley_body_bytes_total" "bytes of bodies sent, by outcome"
    Counter MISSES "galley_misses_total" "misses by reason"
    Counter NOT_STORED "galley_not_stored_total" "misses that were not stored, by reason"
    Counter STALE "galley_stale_total" "stale responses by reason"
    Counter PASSES "galley_passes_total" "requests that bypassed the cache, by reason"
    Counter REFUSED "galley_refused_total" "refused requests by reason"
    Counter MISSES_COLLAPSED "galley_misses_collapsed_total" "misses that shared the fetch of another request"
    Histogram REQUEST_DURATION "galley_request_duration_seconds" "from the head of the request to the end of the response"
    Histogram UPSTREAM_DURATION "galley_upstream_duration_seconds" "from the request to the upstream to the head of its response"
}

// Pages of a site.
families! {
    Gauge SITE_MEMORY "galley_site_memory_bytes" "bytes of stored pages in memory, by site"
    Gauge SITE_DISK "galley_site_disk_bytes" "bytes of stored pages on disk, by site"
    Counter PURGES "galley_purges_total" "purges published"
    Counter PAGES_REFRESHED "galley_pages_refreshed_total" "pages refreshed because they named a generated file that is gone"
    Counter AUDITED_PAGES "galley_audit_pages_total" "stored pages that were generated again and compared, by result"
    Counter OBJECT_REQUESTS "galley_object_cache_requests_total" "requests of WordPress that used the object cache"
    Counter OBJECT_ROUND_TRIPS "galley_object_cache_round_trips_total" "answers of the object cache that PHP waited for"
    Counter OBJECT_SENT_AHEAD "galley_object_cache_sent_ahead_total" "values sent before PHP asked for them"
    Counter OBJECT_HITS "galley_object_cache_hits_total" "values that PHP asked for and got"
    Counter OBJECT_MISSES "galley_object_cache_misses_total" "values that PHP asked for and did not get"
    Counter OBJECT_QUERIES "galley_object_cache_queries_total" "database queries of these requests"
    Counter OBJECT_SAVED_QUERIES "galley_object_cache_saved_queries_total" "database queries that the values took when they were stored, which these requests did not make"
    Counter OBJECT_CONFLICTS "galley_object_cache_conflicts_total" "values not stored because another process changed them, too"
    Counter OBJECT_FLUSHES "galley_object_cache_flushes_total" "times that all values were dropped"
    Counter OBJECT_EVICTIONS "galley_object_cache_evictions_total" "values that made room for others"
    Gauge OBJECT_BYTES "galley_object_cache_bytes" "bytes of values in the object cache"
    Counter FILLS "galley_fills_total" "pages fetched from the upstream to be stored, refreshes included"
    Counter FILLS_STORED "galley_fills_stored_total" "of these, stored"
    Counter FILLS_FAILED "galley_fills_failed_total" "of these, failed by the upstream"
    Counter PAGES_PATCHED "galley_pages_patched_total" "stored pages whose purged fragments were replaced"
    Counter PAGES_NOT_PATCHED "galley_pages_not_patched_total" "stored pages that were generated again, because a purged fragment could not be replaced"
    Gauge FRAGMENTS_SWITCHED_OFF "galley_fragments_switched_off" "parts of pages that change without a purge, so that every purge purges their pages"
    Gauge FRAGMENTS_FAILED "galley_fragments_failed" "parts of pages that could not be rendered without their page, so that a purge of them purges their pages"
    Gauge PAGES_AWAITING_PATCH "galley_pages_awaiting_patch" "stored pages whose purged fragments are being replaced in the background"
    Counter ESI_INCLUDES "galley_esi_includes_total" "ESI includes of pages: stored, fetched from the upstream, or missing because they failed"
    Counter ESI_TAGS_LEFT "galley_esi_tags_left_total" "ESI tags that stayed in pages, because Galley does not carry them out"
    Counter PAGES_ASSEMBLED "galley_pages_assembled_total" "stored pages that were sent with a member's own fragments in them"
    Counter PAGES_COMPARED "galley_pages_compared_total" "pages that were generated for a member and compared with the stored one"
    Counter PAGES_DIFFERED "galley_pages_differed_total" "of these, those that differed outside of private fragments"
    Gauge MEMBERS "galley_members" "members and visitors with a cart of whom private fragments are in memory"
    Counter CRON_RUNS "galley_cron_runs_total" "successful runs of scheduled tasks"
    Counter CRON_FAILURES "galley_cron_failures_total" "failed runs of scheduled tasks"
    Gauge CRON_LAST_RUN "galley_cron_last_run_timestamp_seconds" "start of the latest run of scheduled tasks, in seconds since 1970; 0: none"
}

// Upstreams of a site.
families! {
    Gauge UPSTREAM_SLOTS "galley_upstream_slots" "concurrent requests to an upstream, as far as more make it faster"
    Gauge UPSTREAM_SLOTS_LIMIT "galley_upstream_slots_limit" "maximum of concurrent requests to an upstream"
    Gauge UPSTREAM_IDLE "galley_upstream_idle_connections" "idle connections to an upstream"
    Counter UPSTREAM_ADMITTED "galley_upstream_admitted_total" "requests that got a slot at an upstream, by class"
    Counter UPSTREAM_REJECTED "galley_upstream_rejected_total" "requests that timed out in the queue or found it full, by class"
    Counter UPSTREAM_PROMOTED "galley_upstream_promoted_total" "requests that moved to a class with more slots, because a visitor requested the same page"
    Gauge UPSTREAM_UP "galley_upstream_up" "1 while a server passes its health checks and responds"
    Gauge UPSTREAM_PAUSED "galley_upstream_paused" "1 while Galley sends a server no requests because it does not respond"
    Counter UPSTREAM_PAUSES "galley_upstream_pauses_total" "times that Galley stopped sending requests to a server"
    Gauge SERVER_IN_FLIGHT "galley_upstream_server_in_flight" "requests in progress at a server, of all sites"
    Counter SERVER_REQUESTS "galley_upstream_server_requests_total" "requests that Galley sent to a server"
    Counter SERVER_FAILURES "galley_upstream_server_failures_total" "connections that failed, responses that did not come, and 502, 503 or 504 that sent a request to another server"
    Gauge PHP_SLOTS "galley_php_slots" "concurrent requests to a managed PHP"
    Gauge PHP_WORKERS "galley_php_workers" "workers of a managed PHP"
    Gauge PHP_WORKER_BYTES "galley_php_worker_bytes" "peak memory of most of its workers, in bytes"
    Gauge PHP_LARGEST_WORKER "galley_php_largest_worker_bytes" "peak memory of its largest worker, in bytes"
    Gauge PHP_BYTES "galley_php_bytes" "current memory of all its workers, in bytes"
    Gauge PHP_SHARE "galley_php_share_bytes" "memory limit of all its workers, in bytes"
    Counter PHP_REPLACED "galley_php_replaced_total" "workers replaced because of their size or number of requests"
    Counter PHP_OVERDUE "galley_php_overdue_total" "workers ended because a request took too long"
    Counter PHP_RESTARTS "galley_php_restarts_total" "times that a managed PHP ended unexpectedly and was restarted"
}

// TLS, HTTP/2 and certificates.
families! {
    Counter TLS_HANDSHAKES "galley_tls_handshakes_total" "successful TLS handshakes, by session resumption"
    Counter TLS_HANDSHAKE_FAILURES "galley_tls_handshake_failures_total" "TLS handshakes that failed"
    Gauge CERTIFICATE_EXPIRES "galley_certificate_expires_timestamp_seconds" "expiry of the site's certificate, in seconds since 1970"
    Gauge ACME_NEXT_ORDER "galley_acme_next_order_timestamp_seconds" "when the certificate is ordered next, in seconds since 1970"
    Counter ACME_ISSUED "galley_acme_issued_total" "certificates that were issued"
    Counter ACME_FAILURES "galley_acme_failures_total" "orders of certificates that failed"
    Counter HTTP2_CONNECTIONS "galley_http2_connections_total" "HTTP/2 connections that have ended"
    Counter HTTP2_STREAMS "galley_http2_streams_total" "streams that clients opened on them"
    Counter HTTP2_RESETS "galley_http2_resets_total" "streams on them that were reset, by side"
    Counter HTTP2_ENDED "galley_http2_ended_total" "HTTP/2 connections that Galley ended, by reason"
    Counter HTTP3_CONNECTIONS "galley_http3_connections_total" "HTTP/3 connections that have ended"
    Counter HTTP3_STREAMS "galley_http3_streams_total" "requests that clients opened on them"
    Counter HTTP3_RESETS "galley_http3_resets_total" "requests on them that were reset, by side"
    Counter HTTP3_ENDED "galley_http3_ended_total" "HTTP/3 connections that Galley ended, by reason"
}

// Other nodes, and caches on other machines.
families! {
    Gauge CLUSTER_CONNECTED "galley_cluster_connected" "1: this node reads the purges of the others"
    Gauge CLUSTER_LEASE "galley_cluster_lease" "1: this node may answer from stored pages"
    Gauge CLUSTER_MEMBERS "galley_cluster_members" "other nodes registered at the engine"
    Gauge CLUSTER_PURGES_UNSENT "galley_cluster_purges_unsent" "purges waiting for the engine"
    Counter CLUSTER_PURGES "galley_cluster_purges_total" "purges of this node, by reach at acknowledgement"
    Counter CLUSTER_PURGES_OF_OTHERS "galley_cluster_purges_of_others_total" "purges of other nodes that this node has applied"
    Counter CLUSTER_GAPS "galley_cluster_gaps_total" "complete purges because purges of other nodes were missing"
    Gauge CLUSTER_PAGES_PAUSED "galley_cluster_pages_paused" "1: the engine is not asked for pages, because it failed or was slow"
    Counter CLUSTER_PAGE_LOOKUPS "galley_cluster_page_lookups_total" "searches for pages of other nodes, by what they came to"
    Counter CLUSTER_PAGE_REFUSALS "galley_cluster_page_refusals_total" "pages of other nodes that were not used, and lookups without a reply"
    Counter CLUSTER_PAGE_STORES "galley_cluster_page_stores_total" "pages for other nodes, by whether they were stored"
    Gauge FORWARD_PENDING "galley_purge_forward_pending" "purges that wait for a cache of another machine"
    Counter FORWARD_SENT "galley_purge_forward_sent_total" "purges that a cache of another machine has taken"
    Counter FORWARD_FAILURES "galley_purge_forward_failures_total" "attempts to purge a cache of another machine that failed"
    Counter FORWARD_OVERFLOWS "galley_purge_forward_overflows_total" "times that too many purges waited and one of everything took their place"
}
