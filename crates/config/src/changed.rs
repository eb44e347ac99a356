//! The options that differ between two configurations, with both values.
//!
//! Values are compared as written in the files, ignoring white space, and shown as [`EffectiveOption`] shows them: secrets
//! are masked. Options that neither file sets are omitted: their defaults follow from others.

use crate::effective_option::{EffectiveOption, EffectiveSection};

/// An option with different values in two configurations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedOption {
    /// The section, as [`EffectiveSection::header`].
    pub header: String,
    /// The name within the section.
    pub name: String,
    /// The value before; `None` if there was none.
    pub before: Option<EffectiveOption>,
    /// The value after; `None` if there is none.
    pub after: Option<EffectiveOption>,
}

impl ChangedOption {
    /// Whether both values look the same because they differ only in masked or omitted parts.
    pub fn differs_in_hidden_part(&self) -> bool {
        match (&self.before, &self.after) {
            (Some(before), Some(after)) => before.value == after.value,
            _ => false,
        }
    }

    fn of(
        header: &str,
        before: Option<&EffectiveOption>,
        after: Option<&EffectiveOption>,
    ) -> Option<Self> {
        let is_same = before.map(|one| one.digest) == after.map(|one| one.digest);
        let is_set = [before, after].into_iter().flatten();
        let is_set = is_set.into_iter().any(|one| one.spot.is_some());
        let name = before.or(after)?.name.clone();
        (is_set && !is_same).then(|| Self {
            header: header.to_owned(),
            name,
            before: before.cloned(),
            after: after.cloned(),
        })
    }
}

/// The options whose values differ, in the order of `after`. Options that are only in `before` are last in their section.
pub fn changed_options(
    before: &[EffectiveSection],
    after: &[EffectiveSection],
) -> Vec<ChangedOption> {
    let removed = before
        .iter()
        .filter(|old| EffectiveSection::find(after, &old.header).is_none());
    let mut changed = Vec::new();
    for section in after.iter().chain(removed) {
        let header = &section.header;
        let [old, new] = [before, after].map(|sections| {
            EffectiveSection::find(sections, header).map_or(&[][..], |one| &one.options)
        });
        let lost = old.iter();
        let lost = lost.filter(|option| EffectiveOption::find(new, &option.name).is_none());
        changed.extend(new.iter().chain(lost).filter_map(|option| {
            let [old, new] = [old, new].map(|all| EffectiveOption::find(all, &option.name));
            ChangedOption::of(header, old, new)
        }));
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::load::from_text;

    const SITE: &str = "[[site]]\nhosts = [\"a.test\"]\nupstream = [\"http://127.0.0.1:81\"]\n";

    fn config(text: &str) -> Config {
        from_text("galley.toml", &format!("{text}{SITE}")).unwrap()
    }

    /// Header, name, and both values of each changed option.
    fn lines(before: &Config, after: &Config) -> Vec<String> {
        let changed = changed_options(&before.effective(), &after.effective());
        let value = |side: &Option<EffectiveOption>| {
            let side = side.as_ref();
            side.map_or("-".to_owned(), |option| option.value.clone())
        };
        let line = |one: &ChangedOption| {
            let (before, after) = (value(&one.before), value(&one.after));
            format!("{} {} {before} {after}", one.header, one.name)
        };
        changed.iter().map(line).collect()
    }

    #[test]
    fn only_options_that_a_file_sets_are_shown_with_both_values() {
        let before = config("[server]\nhead_timeout = \"9s\"\n[cache]\nmemory = \"64MiB\"\n");
        let after = config("[server]\nworkers = 2\n[cache]\n# More.\nmemory   =   \"128MiB\"\n");
        // `max_object` depends on `memory`, and no file sets it.
        assert_eq!(
            lines(&before, &after),
            [
                "[server] workers 0 2",
                "[server] head_timeout \"9s\" \"10s\"",
                "[cache] memory \"64MiB\" \"128MiB\"",
            ]
        );
        assert!(lines(&after, &after).is_empty());
    }

    #[test]
    fn added_and_removed_sections_are_shown_completely() {
        let engine = "[cluster]\nengine = \"redis://10.0.0.1:6379\"\n";
        let (without, with) = (config(""), config(engine));
        let shown = "[cluster] engine - \"redis://10.0.0.1:6379\"";
        assert_eq!(lines(&without, &with), [shown]);
        let shown = "[cluster] engine \"redis://10.0.0.1:6379\" -";
        assert_eq!(lines(&with, &without), [shown]);
    }

    #[test]
    fn a_changed_password_is_a_change_but_is_not_shown() {
        let engine = |password: &str| {
            config(&format!(
                "[cluster]\nengine = \"redis://jane:{password}@10.0.0.1:6379\"\n"
            ))
        };
        let (before, after) = (engine("first-secret"), engine("second-secret"));
        let changed = changed_options(&before.effective(), &after.effective());
        assert_eq!(changed.len(), 1, "{changed:?}");
        assert!(changed[0].differs_in_hidden_part());
        let text = format!("{changed:?}");
        assert!(!text.contains("secret"), "{text}");
    }
}
