//! What is read from disks: the configuration, `.htaccess`, paths of files, stored pages, the log of purges; and shared pages in
//! the engine of a cluster.

/// A configuration is taken or complained about.
#[cfg(feature = "config")]
pub fn config(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    // Includes would read whatever the bytes name.
    if text.contains("include") {
        return;
    }
    let _ = galley_config::from_text("galley.toml", text);
    let _ = galley_config::parse_size(text);
    let _ = galley_config::parse_duration(text);
}

/// A `.htaccess` is read, and asked about a name.
pub fn htaccess(data: &[u8]) {
    let (path, text) = match data.iter().position(|byte| *byte == b'\n') {
        Some(end) => data.split_at(end),
        None => (&b"/a/b.txt"[..], data),
    };
    galley_files::fuzzing::htaccess(text, path);
}

/// A decoded path becomes one below the root, or nothing.
pub fn path(data: &[u8]) {
    galley_files::fuzzing::path(data);
}

/// A stored page, as it lies there and with its checksums made right.
pub fn disk_entry(data: &[u8]) {
    galley_cache::fuzzing::disk_entry(data);
}

/// A log of purges, as it lies there and with its checks made right.
pub fn purge_log(data: &[u8]) {
    galley_cache::fuzzing::purge_log(data);
}

/// A shared page in the engine, as it lies there and with a correct MAC.
#[cfg(feature = "cluster")]
pub fn page_value(data: &[u8]) {
    galley_cluster::fuzz_page_value(data);
}
