//! Names that never leave, whatever is in the files and whether or not they exist.
//!
//! The list is on by default, because each of these has been read or run on real sites: version
//! control, configuration and its backups, database dumps and logs, scripts where visitors may
//! upload. It looks at names only, so that an answer does not tell whether the file is there.
//! `readme.html` and `license.txt` are allowed: what they tell, every page tells.

use crate::path::RelPath;

/// What a file name says about running it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScriptName {
    /// `.php`, in lower case: run by PHP.
    Runs,
    /// Other names that PHP or Apache may take for a script, and copies of scripts: neither run nor
    /// sent.
    Never,
    /// Not a script.
    No,
}

/// Whether `path` must not be answered. `multisite`: the first segment may be a site's name.
pub(crate) fn forbids(path: &RelPath, multisite: bool) -> bool {
    is_hidden(path)
        || path.last().is_some_and(is_private)
        || is_root_manifest(path)
        || is_database(path)
        || is_misplaced_script(path, multisite)
}

/// What `name` says about running it.
pub(crate) fn script_name(name: &[u8]) -> ScriptName {
    if name.len() > 4 && name.ends_with(b".php") {
        return ScriptName::Runs;
    }
    let name = name.to_ascii_lowercase();
    let mut parts = name.rsplit(|b| *b == b'.');
    let last = parts.next().unwrap_or_default();
    let before = parts.next().unwrap_or_default();
    let has_extension = name.contains(&b'.');
    let is_script = has_extension
        && (last.starts_with(b"php") || [&b"pht"[..], b"phtml", b"phar"].contains(&last));
    let is_copy = before == b"php" && parts.next().is_some() && is_copy_ending(last);
    if is_script || is_copy {
        return ScriptName::Never;
    }
    ScriptName::No
}

/// Dot files and dot directories, but for `/.well-known` (RFC 8615).
fn is_hidden(path: &RelPath) -> bool {
    let is_open = |(index, segment): (usize, &[u8])| {
        !segment.starts_with(b".") || (index == 0 && segment == b".well-known")
    };
    !path.segments().enumerate().all(is_open)
}

/// Files that are private by their name alone, in any directory.
fn is_private(name: &[u8]) -> bool {
    let name = name.to_ascii_lowercase();
    PRIVATE_NAMES.contains(&name.as_slice())
        || PRIVATE_ENDINGS
            .iter()
            .any(|ending| name.len() > ending.len() && name.ends_with(ending))
        || is_configuration(&name)
        || is_rotated_log(&name)
        || extension(&name).is_some_and(|e| e.starts_with(b"sqlite") || e.starts_with(b"db-"))
        || (name.starts_with(b"#") && name.ends_with(b"#"))
}

/// `wp-config.php` and what people and editors leave beside it, but not the sample, and not a page
/// about the topic.
fn is_configuration(lower_name: &[u8]) -> bool {
    let Some(rest) = lower_name.strip_prefix(b"wp-config") else {
        return false;
    };
    match rest.first() {
        Some(b'.' | b'~' | b'_' | b' ') => true,
        Some(_) if rest == b"-sample.php" => false,
        Some(b'-') => extension(rest).is_some_and(|e| e.starts_with(b"php") || is_copy_ending(e)),
        Some(_) | None => false,
    }
}

/// `debug.log.1`, `access.log.2.gz`.
fn is_rotated_log(lower_name: &[u8]) -> bool {
    let mut parts = lower_name.split(|b| *b == b'.').skip(1);
    parts.any(|part| part == b"log")
        && parts.all(|part| part.iter().all(u8::is_ascii_digit) || is_copy_ending(part))
}

/// Lists of what a site is built from, at the root only: below it they belong to published
/// packages.
fn is_root_manifest(path: &RelPath) -> bool {
    path.len() == 1
        && path
            .last()
            .is_some_and(|name| ROOT_MANIFESTS.contains(&name))
}

/// The directory of the `SQLite` drop-in.
fn is_database(path: &RelPath) -> bool {
    contains_pair(path, path.len(), b"wp-content", |next| next == b"database")
}

/// A script below a directory that visitors, or the server itself, write to, or one of core's parts
/// called directly.
fn is_misplaced_script(path: &RelPath, multisite: bool) -> bool {
    path.segments().enumerate().any(|(index, segment)| {
        script_name(segment) != ScriptName::No
            && (is_below_writable(path, index, multisite) || is_core_part(path, index))
    })
}

fn is_below_writable(path: &RelPath, script: usize, multisite: bool) -> bool {
    let is_at = |index: usize, names: &[&[u8]]| {
        index < script
            && path
                .segment(index)
                .is_some_and(|segment| names.contains(&segment))
    };
    contains_pair(path, script, b"wp-content", |next| WRITABLE.contains(&next))
        || contains_pair(path, script, b"app", |next| next == b"uploads")
        || is_at(0, &[b"files", b"uploads"])
        || (multisite && is_at(1, &[b"files"]))
}

/// `wp-includes/*.php`, but for the two that are meant to be asked for.
fn is_core_part(path: &RelPath, script: usize) -> bool {
    let Some(at) = path
        .segments()
        .take(script)
        .position(|segment| segment == b"wp-includes")
    else {
        return false;
    };
    let below = path.up_to(script + 1);
    !CORE_ENTRANCES.contains(&&*below.after(at + 1))
}

/// Whether two neighbours among the first `end` segments are `first` and one that `second` accepts.
fn contains_pair(path: &RelPath, end: usize, first: &[u8], second: impl Fn(&[u8]) -> bool) -> bool {
    (1..end).any(|index| {
        path.segment(index - 1) == Some(first) && path.segment(index).is_some_and(&second)
    })
}

fn extension(name: &[u8]) -> Option<&[u8]> {
    let dot = name.iter().rposition(|b| *b == b'.')?;
    name.get(dot + 1..)
}

/// Endings that people and tools put behind a file's name when they keep a copy of it.
fn is_copy_ending(ending: &[u8]) -> bool {
    COPY_ENDINGS.contains(&ending) || (!ending.is_empty() && ending.iter().all(u8::is_ascii_digit))
}

const COPY_ENDINGS: &[&[u8]] = &[
    b"7z", b"backup", b"bak", b"bz2", b"copy", b"dist", b"gz", b"new", b"old", b"orig", b"rar",
    b"save", b"src", b"swp", b"tar", b"tgz", b"tmp", b"txt", b"xz", b"zip", b"zst",
];

const PRIVATE_NAMES: &[&[u8]] = &[b"error_log", b"php.ini", b"php_errorlog"];

const PRIVATE_ENDINGS: &[&[u8]] = &[
    b"~",
    b".bak",
    b".db",
    b".log",
    b".old",
    b".orig",
    b".save",
    b".sql",
    b".sql.bz2",
    b".sql.gz",
    b".sql.xz",
    b".sql.zip",
    b".sql.zst",
    b".swo",
    b".swp",
];

const ROOT_MANIFESTS: &[&[u8]] = &[
    b"composer.json",
    b"composer.lock",
    b"package-lock.json",
    b"package.json",
    b"yarn.lock",
];

/// Directories of `wp-content` that hold what was uploaded or generated.
const WRITABLE: &[&[u8]] = &[
    b"blogs.dir",
    b"cache",
    b"upgrade",
    b"upgrade-temp-backup",
    b"uploads",
];

const CORE_ENTRANCES: &[&[u8]] = &[b"js/tinymce/wp-tinymce.php", b"ms-files.php"];

#[cfg(test)]
mod tests {
    use super::*;

    fn denied(path: &str, multisite: bool) -> bool {
        forbids(&RelPath::parse(path.as_bytes()).unwrap(), multisite)
    }

    #[test]
    fn names_that_never_leave() {
        let paths = "
            /.htaccess /.htpasswd /.git/config /a/.svn/entries /.env /.env.local
            /wp-content/.DS_Store /.well-known/.secret /a/.well-known/x /.user.ini
            /wp-config.php /wp-config.php~ /wp-config.php.bak /wp-config.bak
            /wp-config.php.orig /wp-config.old /wp-config.txt /wp-config.php.save
            /wp-config_old.php /wp-config-backup.php /wp-config-2.zip /WP-CONFIG.PHP
            /wp-config.php/ /#wp-config.php# /dump.sql /a/dump.SQL /dump.sql.gz /dump.sql.zip
            /x.bak /x.old /x.orig /x.save /x.php.swp /index.php~ /wp-content/debug.log
            /debug.log.1 /access.log.2.gz /data.sqlite /data.sqlite3 /x.sqlite-journal /x.db
            /x.db-wal /composer.json /composer.lock /package.json /package-lock.json /error_log
            /wp-admin/error_log /php.ini /wp-content/database/x.txt
            /blog/wp-content/database/.ht.sqlite";
        for path in paths.split_whitespace() {
            assert!(denied(path, false), "{path}");
        }
    }

    #[test]
    fn names_that_may_leave() {
        let paths = "
            / /index.php /wp-login.php /readme.html /license.txt
            /.well-known/acme-challenge/tok-en_1 /robots.txt /wp-config-sample.php
            /wp-config-explained/ /wp-config-editor.js /wp-content/plugins/a/composer.json
            /wp-content/plugins/a/package.json /catalog.html /my.log.html /blog /old /a.b.c
            /x.inc /~user/ /x.sqlx /wp-content/uploads/a.php_.jpg /wp-content/uploads/a.jpg
            /wp-content/cache/min/x.js /log/ /db";
        for path in paths.split_whitespace() {
            assert!(!denied(path, false), "{path}");
        }
    }

    #[test]
    fn scripts_only_where_they_belong() {
        let paths = "
            /wp-content/uploads/x.php /wp-content/uploads/2020/01/x.php
            /wp-content/uploads/a.jpg/x.php /wp-content/uploads/x.php/y.jpg
            /wp-content/uploads/x.phtml /wp-content/uploads/x.PHP /wp-content/uploads/x.phar
            /wp/wp-content/uploads/x.php /app/uploads/x.php /uploads/x.php /files/x.php
            /wp-content/blogs.dir/2/x.php /wp-content/cache/x.php /wp-content/upgrade/a/x.php
            /wp-includes/version.php /wp-includes/blocks/a/b.php /site2/wp-includes/load.php
            /wp-includes/js/tinymce/x.php /wp-includes/js/tinymce/wp-tinymce.php/x.php";
        for path in paths.split_whitespace() {
            assert!(denied(path, false), "{path}");
        }
        let paths = "
            /wp-includes/js/tinymce/wp-tinymce.php /wp-includes/ms-files.php
            /site2/wp-includes/ms-files.php /wp-content/plugins/a/x.php
            /wp-content/plugins/uploads/x.php /wp-admin/admin-ajax.php /site2/files/x.php
            /wp-content/themes/a/cache/x.php";
        for path in paths.split_whitespace() {
            assert!(!denied(path, false), "{path}");
        }
        assert!(denied("/site2/files/x.php", true));
    }

    #[test]
    fn what_runs() {
        for (name, expected) in [
            ("index.php", ScriptName::Runs),
            ("a.b.php", ScriptName::Runs),
            (".php", ScriptName::Never),
            ("a.PHP", ScriptName::Never),
            ("a.php5", ScriptName::Never),
            ("a.phps", ScriptName::Never),
            ("a.phtml", ScriptName::Never),
            ("a.pht", ScriptName::Never),
            ("a.phar", ScriptName::Never),
            ("a.php~", ScriptName::Never),
            ("a.php_bak", ScriptName::Never),
            ("a.php.txt", ScriptName::Never),
            ("a.php.1", ScriptName::Never),
            ("a.php.zip", ScriptName::Never),
            ("a.php.jpg", ScriptName::No),
            ("php", ScriptName::No),
            ("a.html", ScriptName::No),
            ("photo.phg", ScriptName::No),
            ("", ScriptName::No),
        ] {
            assert_eq!(script_name(name.as_bytes()), expected, "{name}");
        }
    }
}
