//! Statements of nginx with one result wherever they are: those that visitors do not notice, and those without an equivalent. A statement
//! whose effect depends on its context or value is converted elsewhere; one that is nowhere is reported as not carried.

use crate::report::StatementOutcome;

/// The result for a statement by its name alone.
pub(super) fn outcome_of(name: &str) -> Option<StatementOutcome> {
    let is_in = |list: &[&str]| {
        list.iter().any(|known| match known.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => name == *known,
        })
    };
    if let Some((_, why)) = NOT_NEEDED.iter().find(|(names, _)| is_in(names)) {
        return Some(StatementOutcome::NotNeeded((*why).to_owned()));
    }
    let (_, remedy) = NOT_CARRIED.iter().find(|(names, _)| is_in(names))?;
    Some(StatementOutcome::NotCarried((*remedy).to_owned()))
}

/// Names of statements, with `*` at their ends, and a reason.
type KnownNames = (&'static [&'static str], &'static str);

/// Tuning of the process, of buffers and of connections. None of these statements changes what a visitor gets.
const NOT_NEEDED: &[KnownNames] = &[
    (
        &[
            "user",
            "pid",
            "daemon",
            "master_process",
            "worker_*",
            "pcre_jit",
            "thread_pool",
            "timer_resolution",
            "lock_file",
            "events",
            "use",
            "multi_accept",
            "accept_mutex*",
            "debug_connection",
        ],
        "Galley sizes its threads and limits by the machine; systemd or `server.user` sets the user",
    ),
    (
        &[
            "sendfile*",
            "tcp_nopush",
            "tcp_nodelay",
            "aio",
            "aio_write",
            "directio*",
            "output_buffers",
            "postpone_output",
            "read_ahead",
            "reset_timedout_connection",
            "lingering_*",
            "chunked_transfer_encoding",
            "connection_pool_size",
            "request_pool_size",
            "server_names_hash_*",
            "types_hash_*",
            "variables_hash_*",
            "map_hash_*",
            "proxy_headers_hash_*",
            "open_file_cache*",
            "open_log_file_cache",
            "client_body_in_*",
            "client_body_buffer_size",
            "client_body_temp_path",
            "client_header_buffer_size",
            "keepalive_requests",
            "keepalive_disable",
            "send_lowat",
            "http2",
            "http2_*",
            "log_not_found",
            "log_subrequest",
            "uninitialized_variable_warn",
            "rewrite_log",
            "server_tokens",
            "msie_*",
            "resolver",
            "resolver_timeout",
        ],
        "Galley does this by itself, in its own way: connections, memory and messages",
    ),
    (
        &["gzip*", "brotli*", "zstd*", "gunzip*"],
        "Galley compresses once, when it stores a page (`compress`)",
    ),
    (
        &[
            "ssl_protocols",
            "ssl_ciphers",
            "ssl_prefer_server_ciphers",
            "ssl_session_*",
            "ssl_dhparam",
            "ssl_ecdh_curve",
            "ssl_stapling*",
            "ssl_buffer_size",
            "ssl_early_data",
            "ssl_trusted_certificate",
        ],
        "Galley offers TLS 1.2 and 1.3 with current ciphers (`server.tls_min_version`)",
    ),
    (
        &[
            "fastcgi_index",
            "fastcgi_split_path_info",
            "fastcgi_buffer*",
            "fastcgi_busy_buffers_size",
            "fastcgi_temp_*",
            "fastcgi_max_temp_file_size",
            "fastcgi_keep_conn",
            "fastcgi_send_timeout",
            "fastcgi_send_lowat",
            "fastcgi_request_buffering",
            "fastcgi_socket_keepalive",
            "fastcgi_catch_stderr",
            "proxy_http_version",
            "proxy_buffer*",
            "proxy_busy_buffers_size",
            "proxy_temp_*",
            "proxy_max_temp_file_size",
            "proxy_send_timeout",
            "proxy_send_lowat",
            "proxy_request_buffering",
            "proxy_socket_keepalive",
            "proxy_ssl_session_reuse",
            "keepalive",
            "keepalive_time",
            "zone",
        ],
        "Galley has buffers that protect the upstream from slow clients, and keeps connections to it",
    ),
    (
        &[
            "fastcgi_cache",
            "proxy_cache",
            "fastcgi_cache_key",
            "proxy_cache_key",
            "fastcgi_cache_methods",
            "proxy_cache_methods",
            "fastcgi_cache_min_uses",
            "proxy_cache_min_uses",
            "fastcgi_cache_lock*",
            "proxy_cache_lock*",
            "fastcgi_cache_use_stale",
            "proxy_cache_use_stale",
            "fastcgi_cache_background_update",
            "proxy_cache_background_update",
            "fastcgi_cache_revalidate",
            "proxy_cache_revalidate",
            "fastcgi_cache_bypass",
            "fastcgi_no_cache",
            "proxy_cache_bypass",
            "proxy_no_cache",
        ],
        "Galley caches by its WordPress preset: one fetch per page, stale pages during failures; the conditions are converted where they are",
    ),
];

const NOT_CARRIED: &[KnownNames] = &[
    (
        &["alias"],
        "Galley has one `root` per site: link the folder into it, or make it a site of its own",
    ),
    (&["autoindex*", "random_index"], "Galley lists no folders"),
    (
        &[
            "default_type",
            "types",
            "charset*",
            "override_charset",
            "source_charset",
        ],
        "Galley sends the usual media types with `charset=utf-8` for text, and unknown ones as bytes",
    ),
    (
        &[
            "log_format",
            "stub_status",
            "vhost_traffic_status*",
            "status_zone",
        ],
        "`galley status`, `GET /metrics` and the columns of Galley's access log contain this, in another form",
    ),
    (
        &["limit_req_*"],
        "Galley answers 429 to limited requests, and logs them",
    ),
    (
        &[
            "fastcgi_intercept_errors",
            "proxy_intercept_errors",
            "recursive_error_pages",
        ],
        "Galley forwards error pages of the upstream unchanged",
    ),
    (
        &["proxy_redirect", "proxy_cookie_*"],
        "Galley forwards redirects and cookies of the upstream unchanged",
    ),
    (
        &["proxy_next_upstream*", "fastcgi_next_upstream*"],
        "Galley tries another server if the connection to one fails",
    ),
    (
        &["fastcgi_cache_purge", "proxy_cache_purge"],
        "Galley accepts PURGE from `purge_allow`, and `GET /purge/` with `purge_get = true`",
    ),
    (
        &[
            "limit_rate*",
            "max_ranges",
            "etag",
            "if_modified_since",
            "disable_symlinks",
            "merge_slashes",
            "absolute_redirect",
            "port_in_redirect",
            "server_name_in_redirect",
            "underscores_in_headers",
            "ignore_invalid_headers",
            "large_client_header_buffers",
        ],
        "Galley has a behavior of its own here, without an option of this kind: compare with `galley import --try`",
    ),
    (
        &["geoip2", "geoip_*"],
        "set `geoip` in `[server]` to the database, and `allow_countries` or `deny_countries`",
    ),
    (
        &["stream", "mail"],
        "Galley serves HTTP only: keep nginx for this",
    ),
    (
        &["uwsgi_*", "scgi_*", "grpc_*", "memcached_*"],
        "Galley connects to FastCGI and HTTP servers only",
    ),
    (
        &[
            "ssl_client_certificate",
            "ssl_verify_depth",
            "ssl_crl",
            "ssl_ocsp",
            "ssl_password_file",
        ],
        "Galley does not ask clients for certificates, and keys must not be encrypted",
    ),
    (
        &["satisfy"],
        "Galley asks for both: networks and the password",
    ),
];
