//! The editorial events, in the order in which they are done: what, through which door, and whether pages may change.
//!
//! Each uses things of its own, so that any selection of them can be run alone; none depends on one before it.

mod blocks;
mod comments;
mod languages;
mod lists;
mod looks;
mod posts;
mod shop;
mod shop_settings;
mod spared;

use super::{Form, editor::Editor};
use crate::TestkitError;

/// The theme that an event needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Theme {
    Classic,
    Block,
}

impl Theme {
    /// In the order in which they are active.
    pub(super) const ALL: [Self; 2] = [Self::Classic, Self::Block];

    /// For a table: its folder, and what is counted apart from the other events.
    pub(super) fn label(self, form: Form) -> &'static str {
        match (self, form) {
            (Self::Classic, Form::Shop) => "twentytwentyone, shop",
            (Self::Block, Form::Shop) => "twentytwentythree, shop",
            (_, Form::Short | Form::Long | Form::Large { .. }) => self.name(),
        }
    }

    /// Its folder.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Classic => "twentytwentyone",
            Self::Block => "twentytwentythree",
        }
    }
}

/// What an event has to do to the pages of the long form; anything else means that it did not work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    Change,
    Nothing,
}

/// One event.
pub(super) struct Act {
    /// One word, for the command line.
    pub(super) name: &'static str,
    /// For a table.
    pub(super) what: &'static str,
    /// The door.
    pub(super) way: &'static str,
    pub(super) effect: Effect,
    pub(super) short: bool,
    /// PHP that lets time pass before the reference is generated, where WordPress itself shows a change only later.
    pub(super) later: Option<&'static str>,
    pub(super) run: fn(&mut Editor<'_>) -> Result<(), TestkitError>,
}

/// The acts of a form under a theme, in order.
pub(super) fn of(form: Form, theme: Theme) -> Vec<&'static Act> {
    let groups: &[&[Act]] = match (form, theme) {
        (Form::Shop, Theme::Classic) => &[
            shop::ACTS,
            languages::ACTS,
            languages::CLASSIC,
            shop_settings::ACTS,
            languages::LAST,
        ],
        (Form::Shop, Theme::Block) => &[
            shop::ACTS,
            languages::ACTS,
            shop_settings::ACTS,
            languages::LAST,
        ],
        (_, Theme::Classic) => &[
            posts::ACTS,
            comments::ACTS,
            lists::ACTS,
            looks::ACTS,
            spared::CLASSIC,
        ],
        (_, Theme::Block) => &[blocks::ACTS, spared::BLOCK],
    };
    let all = groups.iter().flat_map(|acts| acts.iter());
    all.filter(|act| form != Form::Short || act.short).collect()
}

/// The names of all events. Those of the shop are the same under both themes.
pub fn names() -> Vec<&'static str> {
    let mut all = named(Form::Long);
    for name in named(Form::Shop) {
        if !all.contains(&name) {
            all.push(name);
        }
    }
    all
}

/// The names of the events of the short form.
pub fn short_names() -> Vec<&'static str> {
    named(Form::Short)
}

fn named(form: Form) -> Vec<&'static str> {
    Theme::ALL
        .into_iter()
        .flat_map(|theme| of(form, theme))
        .map(|act| act.name)
        .collect()
}

/// An act that changes pages, in the long form only.
const fn act(
    name: &'static str,
    way: &'static str,
    what: &'static str,
    run: fn(&mut Editor<'_>) -> Result<(), TestkitError>,
) -> Act {
    Act {
        name,
        what,
        way,
        effect: Effect::Change,
        short: false,
        later: None,
        run,
    }
}

impl Act {
    /// Also in the short form.
    const fn short(mut self) -> Self {
        self.short = true;
        self
    }

    /// WordPress shows it only after some time; this is what has passed then.
    const fn later(mut self, code: &'static str) -> Self {
        self.later = Some(code);
        self
    }

    /// No page may change by it.
    const fn changes_nothing(mut self) -> Self {
        self.effect = Effect::Nothing;
        self
    }
}

const REST: &str = "REST";
const AJAX: &str = "admin-ajax";
const FORM: &str = "form";
const LINK: &str = "link";
const VISITOR: &str = "visitor";
const CLI: &str = "PHP CLI";
const API: &str = "REST of the plugin";

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_and_there_are_enough() {
        let shop: BTreeSet<_> = named(Form::Shop).into_iter().collect();
        assert!(shop.len() >= 30, "{}", shop.len());
        let others = named(Form::Long);
        assert!(others.iter().all(|name| !shop.contains(name)));
        assert_eq!(others.iter().collect::<BTreeSet<_>>().len(), others.len());
        for theme in Theme::ALL {
            let of_theme = of(Form::Shop, theme);
            let names: BTreeSet<_> = of_theme.iter().map(|act| act.name).collect();
            assert_eq!(names.len(), of_theme.len(), "{theme:?}");
        }
        let all = names();
        assert!(all.len() >= 40, "{}", all.len());
        let short = short_names();
        assert!((8..=14).contains(&short.len()), "{}", short.len());
        assert!(short.iter().all(|name| all.contains(name)));
    }
}
