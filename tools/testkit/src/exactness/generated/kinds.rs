//! The kinds of staleness, and those that must not occur.

/// What a page read and where, and what an edit wrote and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kind {
    /// What was read; `core page` for what WordPress itself shows.
    pub read: &'static str,
    /// Where it was shown: `shortcode`, `widget`, `sitemap` and so on.
    pub place: &'static str,
    /// What was written.
    pub write: &'static str,
    /// `plain`, `while a page is generated`, `exit`, `fatal error` or `killed`.
    pub when: &'static str,
}

/// Kinds that must not be stale: each part must match one of the patterns. `*` at the end of a pattern stands for any text.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// Patterns of [`Kind::read`].
    pub reads: &'static [&'static str],
    /// Patterns of [`Kind::place`].
    pub places: &'static [&'static str],
    /// Patterns of [`Kind::write`].
    pub writes: &'static [&'static str],
    /// Patterns of [`Kind::when`].
    pub times: &'static [&'static str],
}

impl Kind {
    /// Whether a single stale page of this kind fails the run.
    pub fn is_held(&self) -> bool {
        HELD.iter().any(|rule| rule.applies_to(self))
    }
}

impl Rule {
    fn applies_to(&self, kind: &Kind) -> bool {
        let matches = |patterns: &[&str], text: &str| patterns.iter().any(|it| matches(it, text));
        matches(self.reads, kind.read)
            && matches(self.places, kind.place)
            && matches(self.writes, kind.write)
            && matches(self.times, kind.when)
    }
}

fn matches(pattern: &str, text: &str) -> bool {
    pattern
        .strip_suffix('*')
        .map_or(pattern == text, |start| text.starts_with(start))
}

/// The read of a page that differs outside of what the plugin shows.
pub(super) const CORE_PAGE: &str = "core page";

/// Kinds that are exact. Extend this list with each kind that becomes exact, and never shorten it.
pub const HELD: &[Rule] = &[
    // What WordPress's own functions read and write.
    Rule {
        reads: &[
            CORE_PAGE,
            "get_the_title",
            "get_the_terms",
            "get_comments",
            "get_userdata",
        ],
        places: &["core", "shortcode", "block", "content", "widget"],
        writes: &[
            "wp_update_*",
            "wp_insert_*",
            "wp_trash_post",
            "wp_set_*",
            "wp_delete_term",
        ],
        times: LIVING,
    },
    // Options, however they are read and written.
    Rule {
        reads: &[
            "option",
            "option *",
            "options by SQL with LIKE",
            "all options",
        ],
        places: &["*"],
        writes: &["*"],
        times: LIVING,
    },
    // What statements read, from tables of plugins and of WordPress.
    Rule {
        reads: &[
            "table: *",
            "tables: *",
            "table and *",
            "derived table",
            "view",
            "post by SQL",
            "posts by SQL",
            "post meta by SQL",
            "post meta and posts by SQL",
            "hidden meta by SQL",
            "terms by SQL",
            "comments by SQL",
            "user by SQL",
        ],
        places: &["*"],
        writes: &["*"],
        times: LIVING,
    },
    // What statements write to the tables of WordPress.
    Rule {
        reads: &[CORE_PAGE, "get_the_terms", "get_comments", "get_userdata"],
        places: &["*"],
        writes: &[
            "wpdb->update posts",
            "UPDATE posts*",
            "UPDATE terms",
            "INSERT term_relationships",
            "UPDATE comments",
            "INSERT comments",
            "UPDATE users",
            "wpdb->update meta",
            "UPDATE meta*",
            "DELETE and INSERT meta",
        ],
        times: LIVING,
    },
    // Titles of posts that a plugin asks for.
    Rule {
        reads: &["WP_Query with properties"],
        places: &["*"],
        writes: &["*"],
        times: LIVING,
    },
    // Tasks that an edit schedules or clears.
    Rule {
        reads: &["scheduled task"],
        places: &["*"],
        writes: &["wp_schedule_single_event", "wp_clear_scheduled_hook"],
        times: LIVING,
    },
];

/// All circumstances but the death of PHP.
const LIVING: &[&str] = &["plain", "while a page is generated", "exit", "fatal error"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exactness::generated::{plugin, reads::READS, writes::writes};

    #[test]
    fn a_rule_applies_to_each_kind_that_its_patterns_match() {
        let kind = Kind {
            read: "table: list",
            place: "widget",
            write: "wpdb->update, same value",
            when: "plain",
        };
        let all: &[&str] = &["*"];
        let rows: [([&'static [&'static str]; 4], bool); 4] = [
            ([all, all, all, all], true),
            (
                [
                    &["x", "table: *"],
                    &["widget"],
                    &["wpdb->update*"],
                    &["plain"],
                ],
                true,
            ),
            ([&["table: *"], &["widget"], &["wpdb->update"], all], false),
            ([&["table: list"], all, all, &["killed"]], false),
        ];
        for ([reads, places, writes, times], expected) in rows {
            let rule = Rule {
                reads,
                places,
                writes,
                times,
            };
            assert_eq!(rule.applies_to(&kind), expected, "{rule:?}");
        }
    }

    #[test]
    fn each_pattern_matches_something_that_occurs() {
        let reads = READS.iter().map(|read| read.name).chain([CORE_PAGE]);
        let reads: Vec<&str> = reads.collect();
        let stores = READS.iter().flat_map(|read| writes(read.store));
        let names: Vec<&str> = stores.map(|write| write.name).collect();
        for rule in HELD {
            for (patterns, known) in [
                (rule.reads, reads.as_slice()),
                (rule.writes, names.as_slice()),
                (rule.places, plugin::PLACES),
                (rule.times, plugin::TIMES),
            ] {
                for pattern in patterns {
                    let occurs = known.iter().any(|name| matches(pattern, name));
                    assert!(occurs, "{pattern}");
                }
            }
        }
    }
}
