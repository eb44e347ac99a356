//! Data from disks: the configuration, `.htaccess`, file paths, stored pages, the purge log; and shared pages in the engine of a
//! cluster.

/// Arbitrary text results in a configuration or errors.
#[cfg(feature = "config")]
pub fn config(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    // An include would read arbitrary files.
    if text.contains("include") {
        return;
    }
    let _ = galley_config::from_text("galley.toml", text);
    let _ = galley_config::parse_size(text);
    let _ = galley_config::parse_duration(text);
}

/// Parses a `.htaccess` and evaluates it for a path.
pub fn htaccess(data: &[u8]) {
    let (path, text) = match data.iter().position(|byte| *byte == b'\n') {
        Some(end) => data.split_at(end),
        None => (&b"/a/b.txt"[..], data),
    };
    galley_files::fuzzing::htaccess(text, path);
}

/// A decoded path resolves to a path below the root or to nothing.
pub fn path(data: &[u8]) {
    galley_files::fuzzing::path(data);
}

/// Parses a stored page, unchanged and with corrected checksums.
pub fn disk_entry(data: &[u8]) {
    galley_cache::fuzzing::disk_entry(data);
}

/// Parses a purge log, unchanged and with corrected checksums.
pub fn purge_log(data: &[u8]) {
    galley_cache::fuzzing::purge_log(data);
}

/// Parses a shared page of the engine, unchanged and with a correct MAC.
#[cfg(feature = "cluster")]
pub fn page_value(data: &[u8]) {
    galley_cluster::fuzz_page_value(data);
}
