//! The editorial events in the order of the run: the edit, its interface, and whether pages may change.
//!
//! No event depends on an earlier one, because each edits different objects. So any selection of events can run.

mod block_theme;
mod comments;
mod languages;
mod posts;
mod shop;
mod shop_settings;
mod site_settings;
mod small_changes;
mod terms_menus_media;

use super::{Suite, editor::Editor};
use crate::TestkitError;

/// The active theme during an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Theme {
    Classic,
    Block,
}

impl Theme {
    /// Both themes in the order of the run.
    pub(super) const ALL: [Self; 2] = [Self::Classic, Self::Block];

    /// The name in tables, which count the events of the shop separately.
    pub(super) fn label(self, suite: Suite) -> &'static str {
        match (self, suite) {
            (Self::Classic, Suite::Shop) => "twentytwentyone, shop",
            (Self::Block, Suite::Shop) => "twentytwentythree, shop",
            (_, Suite::Short | Suite::Long | Suite::Scripts | Suite::Large { .. }) => self.name(),
        }
    }

    /// The theme's folder.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Classic => "twentytwentyone",
            Self::Block => "twentytwentythree",
        }
    }
}

/// The required effect of an event on the pages of the long suite. Any other effect means that the event did not work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    ChangesPages,
    ChangesNothing,
}

/// An edit that a run makes.
pub(super) struct Event {
    /// The name on the command line.
    pub(super) name: &'static str,
    /// The description in tables.
    pub(super) description: &'static str,
    /// The interface that makes the edit.
    pub(super) interface: &'static str,
    pub(super) effect: Effect,
    pub(super) is_short: bool,
    /// PHP code that runs before the reference is generated, for changes that WordPress itself shows only after some time.
    pub(super) before_reference: Option<&'static str>,
    pub(super) run: fn(&mut Editor<'_>) -> Result<(), TestkitError>,
}

/// The events of a suite under a theme, in order.
pub(super) fn of(suite: Suite, theme: Theme) -> Vec<&'static Event> {
    let groups: &[&[Event]] = match (suite, theme) {
        (Suite::Shop, Theme::Classic) => &[
            shop::EVENTS,
            languages::EVENTS,
            languages::CLASSIC,
            shop_settings::EVENTS,
            languages::LAST,
        ],
        (Suite::Shop, Theme::Block) => &[
            shop::EVENTS,
            languages::EVENTS,
            shop_settings::EVENTS,
            languages::LAST,
        ],
        (_, Theme::Classic) => &[
            posts::EVENTS,
            comments::EVENTS,
            terms_menus_media::EVENTS,
            site_settings::EVENTS,
            small_changes::CLASSIC,
        ],
        (_, Theme::Block) => &[block_theme::EVENTS, small_changes::BLOCK],
    };
    let all = groups.iter().flat_map(|events| events.iter());
    all.filter(|event| suite != Suite::Short || event.is_short)
        .collect()
}

/// The names of all events. Events of the shop have the same names under both themes.
pub fn names() -> Vec<&'static str> {
    let mut all = names_of(Suite::Long);
    for name in names_of(Suite::Shop) {
        if !all.contains(&name) {
            all.push(name);
        }
    }
    all
}

/// The names of the events of the short suite.
pub fn short_names() -> Vec<&'static str> {
    names_of(Suite::Short)
}

fn names_of(suite: Suite) -> Vec<&'static str> {
    Theme::ALL
        .into_iter()
        .flat_map(|theme| of(suite, theme))
        .map(|event| event.name)
        .collect()
}

/// An event that changes pages and is not in the short suite.
const fn event(
    name: &'static str,
    interface: &'static str,
    description: &'static str,
    run: fn(&mut Editor<'_>) -> Result<(), TestkitError>,
) -> Event {
    Event {
        name,
        description,
        interface,
        effect: Effect::ChangesPages,
        is_short: false,
        before_reference: None,
        run,
    }
}

impl Event {
    /// Adds the event to the short suite.
    const fn short(mut self) -> Self {
        self.is_short = true;
        self
    }

    /// Runs this PHP code before the reference is generated, to simulate that time has passed.
    const fn before_reference(mut self, code: &'static str) -> Self {
        self.before_reference = Some(code);
        self
    }

    /// Requires that the event changes no page.
    const fn changes_nothing(mut self) -> Self {
        self.effect = Effect::ChangesNothing;
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
    fn event_names_are_unique_and_suites_have_the_expected_size() {
        let shop: BTreeSet<_> = names_of(Suite::Shop).into_iter().collect();
        assert!(shop.len() >= 30, "{}", shop.len());
        let others = names_of(Suite::Long);
        assert!(others.iter().all(|name| !shop.contains(name)));
        assert_eq!(others.iter().collect::<BTreeSet<_>>().len(), others.len());
        for theme in Theme::ALL {
            let of_theme = of(Suite::Shop, theme);
            let names: BTreeSet<_> = of_theme.iter().map(|event| event.name).collect();
            assert_eq!(names.len(), of_theme.len(), "{theme:?}");
        }
        let all = names();
        assert!(all.len() >= 40, "{}", all.len());
        let short = short_names();
        assert!((8..=14).contains(&short.len()), "{}", short.len());
        assert!(short.iter().all(|name| all.contains(name)));
    }
}
