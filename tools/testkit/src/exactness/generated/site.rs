//! The site of generated plugins: loads one plugin at a time, on the database as it was at the beginning.

use std::{collections::BTreeMap, fmt::Write as _, fs, io, path::PathBuf};

use super::{
    plugin::{Edit, GeneratedPlugin},
    report::GeneratedSettings,
};
use crate::{
    TestkitError, account,
    error::Context,
    exactness::{ExactnessSettings, test_site::ExactnessSite},
};

/// A page and the reader that it shows; `core` for pages of WordPress.
pub(super) struct OwnedPage {
    pub(super) owner: String,
    pub(super) target: String,
}

/// The site with its original database.
pub(super) struct GeneratedSite {
    pub(super) site: ExactnessSite,
    dump: PathBuf,
}

impl GeneratedSite {
    pub(super) fn start(settings: &GeneratedSettings) -> Result<Self, TestkitError> {
        let mut site = ExactnessSite::start(&ExactnessSettings::for_scripts(
            &settings.galley,
            &settings.plugin,
            &settings.methods,
        ))?;
        fs::create_dir_all(site.scripts_dir()).context("create the folder of scripts")?;
        let compiled = site.notes_dir().join("compiled");
        fs::create_dir_all(&compiled).context("create the folder of compiled files")?;
        if let Some(user) = account::web_user() {
            user.chown(&compiled)?;
        }
        // Each script has its own name.
        site.wordpress.compiled = Some(compiled);
        let dump = site.notes_dir().join("original.sql");
        Ok(Self { site, dump })
    }

    /// Keeps the state of the database for [`load`](Self::load). To be called when the editor is logged in.
    pub(super) fn keep_database(&self) -> Result<(), TestkitError> {
        self.site.database.dump(DATABASE, &self.dump)
    }

    /// Restores the database, and installs a plugin with its edits; returns the pages.
    pub(super) fn load(
        &self,
        plugin: &GeneratedPlugin,
        edits: &[Edit],
    ) -> Result<Vec<OwnedPage>, TestkitError> {
        let notes = self.site.notes_dir();
        let current = notes.join("generated");
        if current.exists() {
            fs::remove_file(&current).context("unload the generated plugin")?;
        }
        self.site.database.restore(DATABASE, &self.dump)?;
        self.set_object_cache(plugin.has_object_cache)?;
        let folder = notes.join(format!("plugins/{}-{}", plugin.seed, plugin.number));
        fs::create_dir_all(&folder).context("create the folder of a plugin")?;
        fs::write(folder.join("plugin.php"), plugin.php()).context("write a plugin")?;
        for edit in edits {
            let file = plugin.script_name(edit);
            fs::write(self.site.scripts_dir().join(file + ".php"), &edit.php)
                .context("write an edit")?;
        }
        let when = if plugin.is_early { "early" } else { "late" };
        fs::write(&current, format!("{}\n{when}", folder.display()))
            .context("load the generated plugin")?;
        let output = self
            .site
            .wordpress
            .php(&format!("{}_setup();", plugin.prefix))?;
        let (pages, ids) = parse_setup(&output)?;
        fs::write(folder.join("ids.php"), ids).context("write the ids of a plugin")?;
        Ok(pages)
    }

    /// Installs or removes the drop-in, and empties it.
    fn set_object_cache(&self, is_wanted: bool) -> Result<(), TestkitError> {
        let kept = self.site.notes_dir().join("object-cache");
        // A request that has not ended yet may write a value meanwhile.
        while let Err(error) = fs::remove_dir_all(&kept) {
            match error.kind() {
                io::ErrorKind::NotFound => break,
                io::ErrorKind::DirectoryNotEmpty => {}
                _ => return Err(error).context("empty the object cache"),
            }
        }
        let file = self.site.wordpress.root.join("wp-content/object-cache.php");
        if is_wanted {
            fs::write(&file, OBJECT_CACHE).context("write the object cache")?;
            return account::web_user().map_or(Ok(()), |user| user.chown(&file));
        }
        if file.exists() {
            fs::remove_file(&file).context("remove the object cache")?;
        }
        Ok(())
    }
}

/// The pages, and a PHP file with the ids.
fn parse_setup(output: &str) -> Result<(Vec<OwnedPage>, String), TestkitError> {
    let (mut pages, mut ids) = (Vec::new(), BTreeMap::new());
    for line in output.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words.as_slice() {
            ["page", owner, target] => pages.push(OwnedPage {
                owner: (*owner).to_owned(),
                target: (*target).to_owned(),
            }),
            ["id", name, id] if id.parse::<u64>().is_ok() => {
                ids.insert(name.replacen('-', " ", 1), *id);
            }
            _ => {
                return Err(TestkitError::Refused(format!(
                    "the setup of the plugin failed:\n{output}"
                )));
            }
        }
    }
    let mut php = "<?php\nreturn array(".to_owned();
    for (name, id) in ids {
        let _ = write!(php, " '{name}' => {id},");
    }
    Ok((pages, php + " );\n"))
}

const DATABASE: &str = "wordpress";
const OBJECT_CACHE: &str = include_str!("../../../assets/exactness/object-cache.php");
