//! Options that keep their values until a restart, whatever the files contain.
//!
//! The option table marks them, and their fields are in the structs that [`Config::keep_fixed`] copies.

use crate::config::{Cache, Config};
use crate::effective_option::{EffectiveOption, EffectiveSection};
use crate::options::OptionRow;
use crate::table;

impl Config {
    /// Copies what was fixed at the start from the current configuration. Returns the options whose values differ
    /// (`cache.memory`), or the section if all its options are fixed (`[cluster]`); [`Config::effective`] shows their current values.
    pub fn keep_fixed(&mut self, running: &Self) -> Vec<String> {
        let new = self.effective();
        // There is memory for small files only if the first configuration had some.
        let needs_memory = self.cache.max_file > 0 && self.has_root() && !running.has_root();
        let cache = Cache {
            memory_per_site: self.cache.memory_per_site,
            ..running.cache.clone()
        };
        let (server, admin) = (&mut self.server, &mut self.admin);
        let sections = [
            keep(&mut server.process, &running.server.process, "[server]"),
            keep(&mut server.spool, &running.server.spool, "[server]"),
            keep(&mut admin.listen, &running.admin.listen, "[admin]"),
            keep(&mut self.cache, &cache, "[cache]"),
            keep(&mut self.cluster, &running.cluster, "[cluster]"),
        ];
        let sections: Vec<&str> = sections.into_iter().flatten().collect();
        if !sections.is_empty() {
            self.kept = differing(&running.effective(), &new);
        }
        let mut names: Vec<String> = self.kept.iter().map(|(row, _)| shown(row)).collect();
        if names.is_empty() {
            // The same text means something else, such as a relative path in another folder.
            names.extend(sections.into_iter().map(str::to_owned));
        }
        names.dedup();
        let max_file = "cache.max_file".to_owned();
        if needs_memory && !names.contains(&max_file) {
            names.push(max_file);
        }
        names
    }

    fn has_root(&self) -> bool {
        self.sites.iter().any(|site| site.root.is_some())
    }
}

/// Returns `section` if the values differed.
fn keep<T: Clone + PartialEq>(
    new: &mut T,
    running: &T,
    section: &'static str,
) -> Option<&'static str> {
    let differs = new != running;
    new.clone_from(running);
    differs.then_some(section)
}

/// The fixed options with other values in `new`, with those of `running`. Values that no file sets follow from others, so they
/// count only if no other value differs.
fn differing(
    running: &[EffectiveSection],
    new: &[EffectiveSection],
) -> Vec<(&'static OptionRow, Option<EffectiveOption>)> {
    let (mut set, mut derived) = (Vec::new(), Vec::new());
    for row in table::options().filter(|row| row.needs_restart) {
        let [old, new] = [running, new].map(|sections| {
            let section = EffectiveSection::find(sections, row.section.header())?;
            EffectiveOption::find(&section.options, row.name)
        });
        if old.map(|one| one.digest) != new.map(|one| one.digest) {
            let is_set = [old, new].iter().flatten().any(|one| one.spot.is_some());
            let list = if is_set { &mut set } else { &mut derived };
            list.push((row, old.cloned()));
        }
    }
    if set.is_empty() { derived } else { set }
}

/// The option, or its section if no option of it changes without a restart.
fn shown(row: &OptionRow) -> String {
    if table::rows(row.section).all(|row| row.needs_restart) {
        return row.section.header().to_owned();
    }
    row.path()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::changed::changed_options;
    use crate::load::from_text;

    const CACHE: &str = "[cache]\nmemory = \"64MiB\"\ndisk = \"/tmp/pages\"\n";
    const CLUSTER: &str = "[cluster]\nengine = \"redis://10.0.0.1\"\nnode = \"n\"\n";

    fn config(text: &str) -> Config {
        let site = "[[site]]\nhosts = [\"a.test\"]\nroot = \"/\"\n";
        from_text("galley.toml", &format!("{text}{site}")).unwrap()
    }

    /// What needs a restart, and the options that change nevertheless.
    fn reload(running: &Config, new: &mut Config) -> [String; 2] {
        let names = new.keep_fixed(running);
        let changed = changed_options(&running.effective(), &new.effective());
        let changed: Vec<String> = changed.into_iter().map(|one| one.name).collect();
        [names, changed].map(|all| all.join(" "))
    }

    #[test]
    fn fixed_options_keep_their_values_and_are_named() {
        let running = config(CACHE);
        let larger = CACHE.replace("64MiB", "128MiB");
        for (text, restart, changed) in [
            (
                format!("[server]\nworkers = 7\nwatch = true\n{larger}"),
                "server.workers cache.memory",
                "watch",
            ),
            (
                format!("{CACHE}disk_size = \"2GiB\"\nmemory_per_site = \"32MiB\""),
                "cache.disk_size",
                "memory_per_site",
            ),
            (CACHE.replace("64MiB", "65536KiB"), "", "memory"),
            // The default of `spool_size` follows from `request_body`.
            (
                format!("[server]\nrequest_body = \"8GiB\"\n{CACHE}"),
                "server.spool_size",
                "request_body",
            ),
            (format!("{CACHE}{CLUSTER}"), "[cluster]", ""),
        ] {
            let mut new = config(&format!("{text}\n"));
            assert_eq!(reload(&running, &mut new), [restart, changed], "{text}");
            assert_eq!(new.cache.memory, running.cache.memory);
            assert_eq!(new.server.spool, running.server.spool);
        }
    }

    #[test]
    fn the_next_reload_compares_with_kept_values() {
        let running = config(CLUSTER);
        let mut new = config("[cache]\nmemory = \"128MiB\"\n");
        assert_eq!(reload(&running, &mut new), ["[cluster] cache.memory", ""]);
        assert_eq!(reload(&new, &mut config(CLUSTER)), ["", ""]);
    }
}
