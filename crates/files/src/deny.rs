//! Names that are never sent, and places where scripts do not run.
//!
//! The list is on by default, because each of these files has been read or run on real sites. Only names are checked, so a
//! response does not reveal whether the file exists. Names that are ordinary words in URLs are denied only if a file has
//! them ([`forbids_file`]). A site may permit private names ([`Options::allowed`]), but no PHP source, no name that begins
//! with a dot, and no copy of `wp-config.php`. `readme.html` and `license.txt` are not denied: every page reveals the same
//! information.

mod names;

use crate::options::Options;
use crate::path::RelPath;
use crate::types;
use names::{
    ARCHIVES, COPY_ENDINGS, CORE_ENTRANCES, ENVIRONMENTS, PACKED, PRIVATE_ENDINGS, PRIVATE_FOLDERS,
    PRIVATE_NAMES, PRIVATE_UPLOADS, PRIVATE_WORDS, PROGRAMS, ROOT_MANIFESTS, UPLOADED, WRITABLE,
};

/// Whether a file with this name is a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScriptName {
    /// `.php` in lower case: run by PHP.
    Runs,
    /// Other names that PHP or Apache may treat as a script, and copies of scripts: neither run nor sent.
    Never,
    /// Not a script.
    No,
}

/// Whether a request for `path` must be denied, whether a file exists or not.
pub(crate) fn forbids(path: &RelPath, options: &Options) -> bool {
    is_hidden(path)
        || path.last().is_some_and(is_source)
        || is_misplaced_script(path, options.multisite)
        || (is_private_path(path, options) && !options.allows(path))
}

/// Whether a regular file at `path` must not be sent: for names that are too common to deny them to pages.
pub(crate) fn forbids_file(path: &RelPath, options: &Options) -> bool {
    let name = path.last().unwrap_or_default().to_ascii_lowercase();
    PRIVATE_WORDS.contains(&trimmed(&name)) && !options.allows(path)
}

/// Whether a regular file at `path` is a program by its extension, which must not be sent as text.
pub(crate) fn is_program(path: &RelPath, options: &Options) -> bool {
    let name = path.last().unwrap_or_default().to_ascii_lowercase();
    let is_program = extension(&name).is_some_and(|ending| PROGRAMS.contains(&ending));
    options.wordpress && is_program && !options.allows(path)
}

/// Whether a file at `path` must not be sent even if the site's upstream names it: sources and hidden files.
pub(crate) fn is_never_sent(path: &RelPath) -> bool {
    is_hidden(path)
        || path
            .last()
            .is_none_or(|name| is_source(name) || script_name(name) != ScriptName::No)
}

/// As [`forbids`], for a path below a folder that links may lead to: its directories say nothing about their purpose.
pub(crate) fn forbids_linked(path: &RelPath, options: &Options) -> bool {
    let is_bad = |name: &[u8]| is_source(name) || (is_private(name) && !options.allows(path));
    is_hidden(path) || path.last().is_some_and(is_bad)
}

/// Classifies a file name.
pub(crate) fn script_name(name: &[u8]) -> ScriptName {
    if name.len() > 4 && name.ends_with(b".php") {
        return ScriptName::Runs;
    }
    let name = name.to_ascii_lowercase();
    let mut parts = trimmed(&name).rsplit(|b| *b == b'.').peekable();
    let last = parts.next().unwrap_or_default();
    // The first part is not an extension; that of `.php` is empty.
    if parts.peek().is_some() && (last.starts_with(b"php") || is_script_ending(last)) {
        return ScriptName::Never;
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_some() && is_script_ending(part) {
            return ScriptName::Never;
        }
    }
    ScriptName::No
}

/// `php`, `php7`, `phtml` and similar.
fn is_script_ending(lower: &[u8]) -> bool {
    match lower.strip_prefix(b"ph") {
        Some(b"ar" | b"t" | b"tml" | b"ps") => true,
        Some(rest) => rest
            .strip_prefix(b"p")
            .is_some_and(|version| version.iter().all(u8::is_ascii_digit)),
        None => false,
    }
}

/// Whether the path contains a dot file or dot directory, except `/.well-known` (RFC 8615).
fn is_hidden(path: &RelPath) -> bool {
    let is_open = |(index, segment): (usize, &[u8])| {
        !segment.starts_with(b".") || (index == 0 && segment == b".well-known")
    };
    !path.segments().enumerate().all(is_open)
}

/// Whether the name is a source that no server runs: PHP to be included, shown or kept as a copy, and `wp-config.php` with
/// all copies that people and editors make of it.
fn is_source(name: &[u8]) -> bool {
    let name = name.to_ascii_lowercase();
    let is_copy = trimmed(&name).len() < name.len() && script_name(&name) != ScriptName::No;
    is_copy
        || any_form(&name, |form, _| {
            let ending = extension(form).unwrap_or_default();
            let is_named_copy = ending.starts_with(b"php") && !is_script_ending(ending);
            let is_included = is_named_copy || matches!(ending, b"inc" | b"phps");
            let is_included = is_included && form.len() > ending.len() + 1;
            let is_copy = form.len() < name.len() && script_name(form) != ScriptName::No;
            is_included || is_copy || is_configuration(form)
        })
}

/// Whether `test` matches a form of `lower_name`: the name itself, and the name without the endings of copies. The second
/// argument of `test`: whether such endings have been removed. Too many endings count as a match.
fn any_form(lower_name: &[u8], test: impl Fn(&[u8], bool) -> bool) -> bool {
    let mut form = trimmed(lower_name);
    for count in 0..MAX_FORMS {
        if test(form, count > 0) {
            return true;
        }
        match without_copy_ending(form) {
            Some(inner) => form = inner,
            None => return false,
        }
    }
    true
}

/// Returns `x` for `x.bak`, `x.1`, `x-2024-01-01` and `x~`.
fn without_copy_ending(name: &[u8]) -> Option<&[u8]> {
    if let Some(ending) = extension(name).filter(|ending| COPY_ENDINGS.contains(ending)) {
        let inner = name.get(..name.len() - ending.len() - 1)?;
        return (!inner.is_empty()).then_some(inner);
    }
    let is_number = |b: &u8| b.is_ascii_digit() || b"-_.~".contains(b);
    let last = name.iter().rposition(|b| !is_number(b))?;
    (last + 1 < name.len()).then(|| &name[..=last])
}

/// The name without trailing dots and spaces, which Windows ignores, as do some authors of rules.
fn trimmed(name: &[u8]) -> &[u8] {
    let end = name.iter().rposition(|b| !b". ".contains(b));
    name.get(..end.map_or(0, |at| at + 1)).unwrap_or_default()
}

/// Whether the path is private by its name or by the directory that contains it.
fn is_private_path(path: &RelPath, options: &Options) -> bool {
    path.last().is_some_and(is_private)
        || is_root_manifest(path)
        || is_in_private_folder(path)
        || is_misplaced_archive(path, options)
}

/// Whether the name is private in every directory.
fn is_private(name: &[u8]) -> bool {
    let name = name.to_ascii_lowercase();
    (name.starts_with(b"#") && name.ends_with(b"#"))
        || any_form(&name, |form, is_copy| {
            PRIVATE_NAMES.contains(&form)
                || (is_copy && name.contains(&b'.') && PRIVATE_WORDS.contains(&form))
                || PRIVATE_ENDINGS
                    .iter()
                    .any(|ending| form.len() > ending.len() && form.ends_with(ending))
                || is_environment(form)
                || extension(form)
                    .is_some_and(|e| e.starts_with(b"sqlite") || e.starts_with(b"db-"))
        })
        || is_compose_file(&name)
}

/// Whether the name is `wp-config.php` or a copy that people and editors make of it, but not the sample, and not a page
/// about the topic.
fn is_configuration(lower_name: &[u8]) -> bool {
    let Some(rest) = lower_name.strip_prefix(b"wp-config") else {
        return false;
    };
    match rest.first() {
        Some(b'.' | b'~' | b'_' | b' ' | b'0'..=b'9') => true,
        Some(_) if rest == b"-sample.php" => false,
        Some(b'-') => {
            extension(rest).is_some_and(|e| e.starts_with(b"php") || COPY_ENDINGS.contains(&e))
        }
        Some(_) | None => false,
    }
}

/// Whether the name is like `env.local` or `env.production`.
fn is_environment(lower_name: &[u8]) -> bool {
    let kind = lower_name.strip_prefix(b"env.");
    kind.is_some_and(|kind| ENVIRONMENTS.contains(&kind))
}

/// Whether the name is like `docker-compose.yml` or `docker-compose.prod.yaml`.
fn is_compose_file(lower_name: &[u8]) -> bool {
    lower_name.starts_with(b"docker-compose")
        && matches!(extension(lower_name), Some(b"yml" | b"yaml"))
}

fn is_root_manifest(path: &RelPath) -> bool {
    path.len() == 1
        && path
            .last()
            .is_some_and(|name| is_one_of(name, ROOT_MANIFESTS))
}

/// Whether the path is in a directory of a backup plugin or of the `SQLite` drop-in, or is one of two lists that tools write.
fn is_in_private_folder(path: &RelPath) -> bool {
    let has_prefix = |name: &[u8], list: &[&[u8]]| {
        let lower = name.to_ascii_lowercase();
        list.iter().any(|start| lower.starts_with(start))
    };
    let length = path.len();
    contains_pair(path, length, b"wp-content", |next| {
        has_prefix(next, PRIVATE_FOLDERS)
    }) || contains_pair(path, length, b"uploads", |next| {
        has_prefix(next, PRIVATE_UPLOADS)
    }) || path
        .segment(0)
        .is_some_and(|first| first.eq_ignore_ascii_case(b"wp-snapshots"))
        || contains_pair(path, length, b"composer", |next| {
            next.eq_ignore_ascii_case(b"installed.json")
        })
        || contains_pair(path, length, b"cvs", |next| {
            is_one_of(next, &[b"entries", b"repository", b"root"])
        })
}

/// Whether the path is an archive, or another file that people upload for others, outside the directories for it.
fn is_misplaced_archive(path: &RelPath, options: &Options) -> bool {
    let name = path.last().unwrap_or_default().to_ascii_lowercase();
    let is_upload = extension(trimmed(&name)).is_some_and(|ending| UPLOADED.contains(&ending));
    let is_archive = || any_form(&name, |form, _| is_archive(form));
    if is_upload {
        !is_in_uploads(path, options)
    } else if options.wordpress {
        is_archive() && !is_in_uploads(path, options) && !is_in_package(path)
    } else {
        // The site's directories are unknown: only at the top, where copies of whole sites are often left.
        path.len() == 1 && is_archive()
    }
}

fn is_archive(lower_name: &[u8]) -> bool {
    let Some(ending) = extension(lower_name) else {
        return false;
    };
    let inner = lower_name.get(..lower_name.len() - ending.len() - 1);
    let is_shown = inner.is_some_and(|inner| types::content_type(inner) != types::BYTES);
    ARCHIVES.contains(&ending) || (PACKED.contains(&ending) && !is_shown)
}

/// Whether the path is in a directory for files that editors upload for download.
fn is_in_uploads(path: &RelPath, options: &Options) -> bool {
    let file = path.len().saturating_sub(1);
    options.wordpress
        && (contains_pair(path, file, b"wp-content", |next| {
            is_one_of(next, &[b"blogs.dir", b"uploads"])
        }) || is_root_upload(path, file, options.multisite))
}

/// Whether the path belongs to a plugin, a theme or WordPress. An archive next to the plugins is a copy of one.
fn is_in_package(path: &RelPath) -> bool {
    let folder = path.len().saturating_sub(2);
    contains_pair(path, folder, b"wp-content", |next| {
        is_one_of(next, &[b"mu-plugins", b"plugins", b"themes"])
    }) || path
        .segments()
        .take(folder)
        .any(|segment| is_one_of(segment, &[b"wp-admin", b"wp-includes"]))
}

/// Whether the path is a script below a directory to which visitors or the server write, or a part of WordPress that must
/// not be called directly.
fn is_misplaced_script(path: &RelPath, multisite: bool) -> bool {
    path.segments().enumerate().any(|(index, segment)| {
        script_name(segment) != ScriptName::No
            && (is_below_writable(path, index, multisite) || is_core_part(path, index))
    })
}

fn is_below_writable(path: &RelPath, script: usize, multisite: bool) -> bool {
    contains_pair(path, script, b"wp-content", |next| {
        is_one_of(next, WRITABLE)
    }) || is_root_upload(path, script, multisite)
}

/// Whether the path is in uploads outside `wp-content`: of old networks, and of sites with such a layout.
fn is_root_upload(path: &RelPath, end: usize, multisite: bool) -> bool {
    let is_at = |index: usize, names: &[&[u8]]| {
        index < end
            && path
                .segment(index)
                .is_some_and(|segment| is_one_of(segment, names))
    };
    contains_pair(path, end, b"app", |next| is_one_of(next, &[b"uploads"]))
        || is_at(0, &[b"files", b"uploads"])
        || (multisite && is_at(1, &[b"files"]))
}

/// Whether the path is `wp-includes/*.php`, except for the two scripts that are meant to be requested.
fn is_core_part(path: &RelPath, script: usize) -> bool {
    let Some(at) = path
        .segments()
        .take(script)
        .position(|segment| segment.eq_ignore_ascii_case(b"wp-includes"))
    else {
        return false;
    };
    let below = path.up_to(script + 1);
    !CORE_ENTRANCES.contains(&&*below.after(at + 1))
}

/// Whether two adjacent segments among the first `end` are `first` and one that `second` accepts. Ignores case, as some
/// file systems do.
fn contains_pair(path: &RelPath, end: usize, first: &[u8], second: impl Fn(&[u8]) -> bool) -> bool {
    (1..end).any(|index| {
        let is_first = |segment: &[u8]| segment.eq_ignore_ascii_case(first);
        path.segment(index - 1).is_some_and(is_first) && path.segment(index).is_some_and(&second)
    })
}

fn is_one_of(name: &[u8], list: &[&[u8]]) -> bool {
    list.iter().any(|one| name.eq_ignore_ascii_case(one))
}

fn extension(name: &[u8]) -> Option<&[u8]> {
    let dot = name.iter().rposition(|b| *b == b'.')?;
    name.get(dot + 1..)
}

/// The maximum number of copy endings on a name; copies of copies have fewer.
const MAX_FORMS: usize = 8;

#[cfg(test)]
mod tests;
