//! A prepared WordPress, made once and copied for each use: about a second instead of ten.
//!
//! Templates lie in `$GALLEY_TESTKIT_CACHE`, else in `galley-testkit` below the target directory. A template's name is
//! a hash of all it is made of (packages, seed files, options), so a change makes a new one. Several processes may come at
//! once: a lock file per template, held shared while copying and alone while making; a template appears by one
//! rename, whole or not at all. Old templates are removed when a new one is made.

use std::{
    env, fs,
    hash::{DefaultHasher, Hash, Hasher},
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    process::Command,
    thread,
};

use rustix::fs::{FlockOperation, flock};

use crate::{
    Durability, MariaDb, Options, WordPress, account,
    error::{Context, TestkitError},
    place,
    process::run,
    wordpress::{INSTALLER, package},
};

/// A running database and an installed WordPress in `dir` (`dir/mariadb`, `dir/wordpress`), copied from a template that is
/// made when it is not there yet.
///
/// The first time takes as long as an installation, some seconds; later times about a second.
///
/// # Errors
/// As [`MariaDb::start`] and [`WordPress::install`].
pub fn wordpress_from_template(
    dir: &Path,
    options: &Options,
) -> Result<(MariaDb, WordPress), TestkitError> {
    let cache = cache_dir()?;
    let name = format!("{:016x}", key(options));
    let template = cache.join(&name);
    let _shared = ready(&cache, &name, options)?;
    fs::create_dir_all(dir).context(format_args!("make {}", dir.display()))?;
    let database = thread::scope(|scope| {
        // The database starts while the files are still being copied.
        let files = scope.spawn(|| copy_site(&template.join("wordpress"), &dir.join("wordpress")));
        let database = copy(&template.join("mariadb"), &dir.join("mariadb"))
            .and_then(|()| MariaDb::start(&dir.join("mariadb"), Durability::Discard));
        files
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        database
    })?;
    let wordpress = WordPress::configure(&dir.join("wordpress"), database.socket(), options)?;
    Ok((database, wordpress))
}

/// Makes the template if it is missing; returns a shared lock on it.
fn ready(cache: &Path, name: &str, options: &Options) -> Result<fs::File, TestkitError> {
    let lock = lock_file(cache, name)?;
    flock(&lock, FlockOperation::LockShared).context("lock a template")?;
    if cache.join(name).exists() {
        return Ok(lock);
    }
    // Going from shared to exclusive may let another process in between: it is looked at again.
    flock(&lock, FlockOperation::LockExclusive).context("lock a template")?;
    if !cache.join(name).exists() {
        prune(cache, name);
        make(cache, name, options)?;
    }
    flock(&lock, FlockOperation::LockShared).context("lock a template")?;
    Ok(lock)
}

/// Installs into a temporary place, shuts the database down and renames the whole.
fn make(cache: &Path, name: &str, options: &Options) -> Result<(), TestkitError> {
    // In a scratch directory, since the database's and PHP's users must be able to walk there.
    let scratch = crate::Scratch::new()?;
    let database = MariaDb::start(&scratch.join("mariadb"), Durability::Discard)?;
    // The configuration is written anew at each use: what varies there must not make further templates.
    let plain = Options {
        url: None,
        mu_plugins: Vec::new(),
        extra_config: String::new(),
        ..options.clone()
    };
    WordPress::install(&scratch.join("wordpress"), &database, &plain)?;
    database.stop()?;
    for name in PROGRAM {
        make_read_only(&scratch.join("wordpress").join(name))?;
    }
    let unfinished = cache.join(format!("{name}.unfinished"));
    remove(&unfinished)?;
    fs::create_dir_all(&unfinished).context("make a folder for a template")?;
    for part in ["mariadb", "wordpress"] {
        copy(&scratch.join(part), &unfinished.join(part))?;
    }
    fs::rename(&unfinished, cache.join(name)).context("move a template into place")
}

/// Removes all templates but the newest few, and none that is in use.
fn prune(cache: &Path, new: &str) {
    let Ok(entries) = fs::read_dir(cache) else {
        return;
    };
    let mut others: Vec<(i64, PathBuf)> = entries
        .flatten()
        .filter(|entry| entry.path().is_dir() && entry.file_name() != new)
        .filter_map(|entry| Some((entry.metadata().ok()?.ctime(), entry.path())))
        .collect();
    others.sort();
    others.reverse();
    for (_, path) in others.into_iter().skip(TEMPLATES_KEPT - 1) {
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
            continue;
        };
        let name = name.trim_end_matches(".unfinished");
        let Ok(lock) = lock_file(cache, name) else {
            continue;
        };
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let _ = fs::remove_dir_all(&path);
        }
    }
}

fn lock_file(cache: &Path, name: &str) -> Result<fs::File, TestkitError> {
    let path = cache.join(format!("{name}.lock"));
    fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(&path)
        .context(format_args!("open {}", path.display()))
}

/// Copies the folder of a WordPress. Its program files, nearly all of it, become further names of the template's files: those
/// are read-only, so nobody can change a template by writing to a copy. The rest is really copied.
fn copy_site(from: &Path, to: &Path) -> Result<(), TestkitError> {
    fs::create_dir_all(to).context(format_args!("make {}", to.display()))?;
    if let Some(user) = account::for_web() {
        user.own(to)?;
    }
    for entry in fs::read_dir(from).context(format_args!("read {}", from.display()))? {
        let entry = entry.context(format_args!("read {}", from.display()))?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let linked =
            PROGRAM.iter().any(|name| entry.file_name() == *name) && link(&source, &target);
        if !linked {
            remove(&target)?;
            copy(&source, &target)?;
        }
    }
    Ok(())
}

/// Hard links for a whole folder; false where the two places are on different file systems.
fn link(from: &Path, to: &Path) -> bool {
    run(
        "cp",
        Command::new("cp")
            .args(["--archive", "--link", "--no-target-directory"])
            .arg(from)
            .arg(to),
    )
    .is_ok()
}

/// Takes the right to write from all files in a folder; folders stay as they are, so that they can be removed.
fn make_read_only(dir: &Path) -> Result<(), TestkitError> {
    for entry in fs::read_dir(dir).context(format_args!("read {}", dir.display()))? {
        let path = entry
            .context(format_args!("read {}", dir.display()))?
            .path();
        if path.is_dir() {
            make_read_only(&path)?;
        } else {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o444))
                .context(format_args!("protect {}", path.display()))?;
        }
    }
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<(), TestkitError> {
    run(
        "cp",
        Command::new("cp")
            .args(["--reflink=auto", "--archive", "--no-target-directory"])
            .arg(from)
            .arg(to),
    )
    .map(drop)
}

fn remove(path: &Path) -> Result<(), TestkitError> {
    if path.exists() {
        fs::remove_dir_all(path).context(format_args!("remove {}", path.display()))
    } else {
        Ok(())
    }
}

/// A hash of everything a template is made of.
fn key(options: &Options) -> u64 {
    let mut hash = DefaultHasher::new();
    FORMAT.hash(&mut hash);
    INSTALLER.hash(&mut hash);
    (
        &options.title,
        &options.user,
        &options.password,
        options.sample,
    )
        .hash(&mut hash);
    account::runs_as_root().hash(&mut hash);
    fs::read(package().join("wp-includes/version.php"))
        .unwrap_or_default()
        .hash(&mut hash);
    for names in [&["mariadbd", "mysqld"][..], &["php"]] {
        // Size and time stand for the version: asking the programs would take longer than the copy.
        let about = place::program(names)
            .ok()
            .and_then(|path| fs::metadata(path).ok());
        about
            .map(|about| (about.len(), about.mtime()))
            .hash(&mut hash);
    }
    hash.finish()
}

fn cache_dir() -> Result<PathBuf, TestkitError> {
    let dir = env::var_os("GALLEY_TESTKIT_CACHE")
        .map(PathBuf::from)
        .or_else(below_target)
        .unwrap_or_else(|| {
            let uid = rustix::process::geteuid().as_raw();
            env::temp_dir().join(format!("galley-testkit-{uid}"))
        });
    fs::create_dir_all(&dir).context(format_args!("make {}", dir.display()))?;
    fs::canonicalize(&dir).context(format_args!("find {}", dir.display()))
}

/// The target directory is the one above `debug` or `release`, in which this test or program was built.
fn below_target() -> Option<PathBuf> {
    let program = env::current_exe().ok()?;
    let profile = program
        .ancestors()
        .find(|path| path.ends_with("debug") || path.ends_with("release"))?;
    Some(profile.parent()?.join("galley-testkit"))
}

/// Raised when the way of making a template changes.
const FORMAT: u32 = 2;
/// Folders of WordPress that only an update would write to.
const PROGRAM: &[&str] = &["wp-admin", "wp-includes"];
const TEMPLATES_KEPT: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SampleContent, Scratch};

    #[test]
    fn the_key_changes_with_what_is_in_the_database_and_with_nothing_else() {
        let base = Options::default();
        let same = Options {
            url: Some("http://x".into()),
            extra_config: "// x".into(),
            ..Options::default()
        };
        assert_eq!(key(&base), key(&same));
        for other in [
            Options {
                title: "Other".into(),
                ..Options::default()
            },
            Options {
                password: "other".into(),
                ..Options::default()
            },
            Options {
                sample: SampleContent::None,
                ..Options::default()
            },
        ] {
            assert_ne!(key(&base), key(&other));
        }
    }

    #[test]
    fn old_templates_go_unless_in_use() {
        let scratch = Scratch::new().unwrap();
        for number in 0..6 {
            scratch.dir(&format!("old{number}")).unwrap();
        }
        let held = lock_file(scratch.path(), "old0").unwrap();
        flock(&held, FlockOperation::LockShared).unwrap();
        prune(scratch.path(), "new");
        let left = (0..6)
            .filter(|number| scratch.join(format!("old{number}")).exists())
            .count();
        assert!(scratch.join("old0").exists(), "in use");
        assert!(
            left == TEMPLATES_KEPT - 1 || left == TEMPLATES_KEPT,
            "{left}"
        );
    }
}
