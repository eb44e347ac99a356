//! A WordPress installation that is created once and copied for each use, which takes about a second instead of ten.
//!
//! Templates are in `$GALLEY_TESTKIT_CACHE`, otherwise in `galley-testkit` below the target directory. The name of a template
//! is a hash of its inputs (packages, seed files, options), so a change of an input creates a new template. Several processes
//! may use a template concurrently: a lock file per template is locked shared during a copy and exclusively during the
//! creation. A single rename publishes a complete template. The creation of a template removes old ones.

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
    process::run,
    programs,
    wordpress::{INSTALLER, package},
};

/// Copies a template to `dir` (`dir/mariadb`, `dir/wordpress`) and starts its database. Creates the template if it does not
/// exist.
///
/// The first call takes as long as an installation, which is some seconds; later calls take about a second.
///
/// # Errors
/// As [`MariaDb::start`] and [`WordPress::install`].
pub fn wordpress_from_template(
    dir: &Path,
    options: &Options,
) -> Result<(MariaDb, WordPress), TestkitError> {
    let cache = cache_dir()?;
    let name = format!("{:016x}", template_hash(options));
    let template = cache.join(&name);
    let _lock = lock_template(&cache, &name, options)?;
    fs::create_dir_all(dir).context(format_args!("create {}", dir.display()))?;
    let database = thread::scope(|scope| {
        // The database starts concurrently with the copy of the files.
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

/// Creates the template if it does not exist; returns a shared lock on it.
fn lock_template(cache: &Path, name: &str, options: &Options) -> Result<fs::File, TestkitError> {
    let lock = lock_file(cache, name)?;
    flock(&lock, FlockOperation::LockShared).context("lock a template")?;
    if cache.join(name).exists() {
        return Ok(lock);
    }
    // The change from a shared to an exclusive lock is not atomic: another process may have created the template.
    flock(&lock, FlockOperation::LockExclusive).context("lock a template")?;
    if !cache.join(name).exists() {
        remove_old_templates(cache, name);
        create_template(cache, name, options)?;
    }
    flock(&lock, FlockOperation::LockShared).context("lock a template")?;
    Ok(lock)
}

/// Installs WordPress in a scratch directory, shuts the database down, copies both to the cache and renames the copy.
fn create_template(cache: &Path, name: &str, options: &Options) -> Result<(), TestkitError> {
    // A scratch directory, because the users of the database and of PHP must be able to enter it.
    let scratch = crate::Scratch::new()?;
    let database = MariaDb::start(&scratch.join("mariadb"), Durability::Discard)?;
    // Each use writes the configuration again, so its options must not create additional templates.
    let template_options = Options {
        url: None,
        mu_plugins: Vec::new(),
        extra_config: String::new(),
        ..options.clone()
    };
    WordPress::install(&scratch.join("wordpress"), &database, &template_options)?;
    database.stop()?;
    for name in PROGRAM_FOLDERS {
        make_read_only(&scratch.join("wordpress").join(name))?;
    }
    let unfinished = cache.join(format!("{name}.unfinished"));
    remove(&unfinished)?;
    fs::create_dir_all(&unfinished).context("create the folder of a template")?;
    for part in ["mariadb", "wordpress"] {
        copy(&scratch.join(part), &unfinished.join(part))?;
    }
    fs::rename(&unfinished, cache.join(name)).context("rename a template")
}

/// Removes all templates except the newest ones and those in use.
fn remove_old_templates(cache: &Path, new: &str) {
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
    for (_, path) in others.into_iter().skip(MAX_TEMPLATES - 1) {
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

/// Copies the folder of a WordPress. The program files, which are most of it, become hard links to the template's files. These
/// are read-only, so that writes to a copy cannot change the template.
fn copy_site(from: &Path, to: &Path) -> Result<(), TestkitError> {
    fs::create_dir_all(to).context(format_args!("create {}", to.display()))?;
    if let Some(user) = account::web_user() {
        user.chown(to)?;
    }
    for entry in fs::read_dir(from).context(format_args!("read {}", from.display()))? {
        let entry = entry.context(format_args!("read {}", from.display()))?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let linked = PROGRAM_FOLDERS
            .iter()
            .any(|name| entry.file_name() == *name)
            && link(&source, &target);
        if !linked {
            remove(&target)?;
            copy(&source, &target)?;
        }
    }
    Ok(())
}

/// Creates hard links for all files of a folder; false if the two paths are on different file systems.
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

/// Makes all files in a folder read-only, but not the folders, so that they can be removed.
fn make_read_only(dir: &Path) -> Result<(), TestkitError> {
    for entry in fs::read_dir(dir).context(format_args!("read {}", dir.display()))? {
        let path = entry
            .context(format_args!("read {}", dir.display()))?
            .path();
        if path.is_dir() {
            make_read_only(&path)?;
        } else {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o444))
                .context(format_args!("make {} read-only", path.display()))?;
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

/// A hash of the inputs of a template.
fn template_hash(options: &Options) -> u64 {
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
        // Size and time represent the version, because running the programs would take longer than the copy.
        let metadata = programs::find(names)
            .ok()
            .and_then(|path| fs::metadata(path).ok());
        metadata
            .map(|metadata| (metadata.len(), metadata.mtime()))
            .hash(&mut hash);
    }
    hash.finish()
}

fn cache_dir() -> Result<PathBuf, TestkitError> {
    let dir = env::var_os("GALLEY_TESTKIT_CACHE")
        .map(PathBuf::from)
        .or_else(cache_dir_in_target)
        .unwrap_or_else(|| {
            let uid = rustix::process::geteuid().as_raw();
            env::temp_dir().join(format!("galley-testkit-{uid}"))
        });
    fs::create_dir_all(&dir).context(format_args!("create {}", dir.display()))?;
    fs::canonicalize(&dir).context(format_args!("find {}", dir.display()))
}

/// A folder in the target directory, which is the parent of the `debug` or `release` directory of this program.
fn cache_dir_in_target() -> Option<PathBuf> {
    let program = env::current_exe().ok()?;
    let profile = program
        .ancestors()
        .find(|path| path.ends_with("debug") || path.ends_with("release"))?;
    Some(profile.parent()?.join("galley-testkit"))
}

/// Must be increased when the creation of templates changes.
const FORMAT: u32 = 2;
/// Folders that WordPress writes to only during an update.
const PROGRAM_FOLDERS: &[&str] = &["wp-admin", "wp-includes"];
const MAX_TEMPLATES: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SampleContent, Scratch};

    #[test]
    fn the_hash_depends_only_on_options_that_affect_the_database() {
        let base = Options::default();
        let same = Options {
            url: Some("http://x".into()),
            extra_config: "// x".into(),
            ..Options::default()
        };
        assert_eq!(template_hash(&base), template_hash(&same));
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
            assert_ne!(template_hash(&base), template_hash(&other));
        }
    }

    #[test]
    fn old_templates_are_removed_unless_in_use() {
        let scratch = Scratch::new().unwrap();
        for number in 0..6 {
            scratch.dir(&format!("old{number}")).unwrap();
        }
        let lock = lock_file(scratch.path(), "old0").unwrap();
        flock(&lock, FlockOperation::LockShared).unwrap();
        remove_old_templates(scratch.path(), "new");
        let remaining = (0..6)
            .filter(|number| scratch.join(format!("old{number}")).exists())
            .count();
        assert!(scratch.join("old0").exists(), "in use");
        assert!(
            remaining == MAX_TEMPLATES - 1 || remaining == MAX_TEMPLATES,
            "{remaining}"
        );
    }
}
