//! The reference page and the sample file, generated from the option table.

use std::fmt::Write as _;

use galley_config::{
    ADDED_TO_SITE, AS_IN_SITE, Fallback, OptionRow, OptionSection, STATUS, options,
};

/// The reference page, in Markdown.
pub fn reference() -> String {
    let mut out = String::from(REFERENCE_HEAD);
    for section in OptionSection::ALL {
        let title = match section {
            OptionSection::Top => "Top of the file".to_owned(),
            other => format!("`{}`", other.header()),
        };
        let _ = write!(out, "\n## {title}\n\n{}\n\n", section.text());
        out.push_str("| option | value | default | meaning |\n|---|---|---|---|\n");
        let of_site = |row: &&OptionRow| [AS_IN_SITE, ADDED_TO_SITE].contains(&row.text);
        for row in rows(section).filter(|row| !of_site(row)) {
            let cells = [
                format!("`{}`", name(row)),
                short(&value(row)).replace(" to ", "–"),
                fallback(row),
                format!("{}{}", row.text, mark(row)),
            ];
            let _ = writeln!(
                out,
                "| {} |",
                cells.map(|cell| cell.replace('|', "\\|")).join(" | ")
            );
        }
        if section == OptionSection::SiteRule {
            let names = |text: &str| {
                let rows = rows(section).filter(|row| row.text == text);
                rows.map(|row| format!("`{}`", row.name))
                    .collect::<Vec<_>>()
                    .join(", ")
            };
            let _ = write!(
                out,
                "\nAs in the site, in place of its value: {}. Added to the site's: {}.\n",
                names(AS_IN_SITE),
                names(ADDED_TO_SITE)
            );
        }
    }
    out
}

/// A sample file: a minimal configuration, and all other options as comments.
pub fn sample() -> String {
    let mut out = String::from(SAMPLE_HEAD);
    for section in OptionSection::ALL {
        if section != OptionSection::Top {
            // The site at the end of the sample is the only section that is not commented out.
            let mark = if section == OptionSection::Site {
                ""
            } else {
                "# "
            };
            let _ = write!(out, "\n{mark}{}\n", section.header());
        }
        for row in rows(section) {
            let mark = if SAMPLE_SITE.contains(&row.name) && section == OptionSection::Site {
                ""
            } else {
                "# "
            };
            let _ = writeln!(out, "{mark}{} = {}", sample_name(row), row.example);
        }
    }
    out
}

/// The rows of one section.
pub(crate) fn rows(section: OptionSection) -> impl Iterator<Item = &'static OptionRow> {
    options().filter(move |row| row.section == section)
}

/// The purpose without links, which only the manual can follow, and whether a change costs the stored pages or needs a restart.
pub(crate) fn full_text(row: &OptionRow) -> String {
    let note = match (row.shapes_keys, row.needs_restart) {
        (true, _) => " After a change, Galley fetches the pages of the site again.",
        (false, true) => " A change needs a restart.",
        (false, false) => "",
    };
    format!("{}{note}", without_links(row.text))
}

/// The text with each Markdown link replaced by its label.
fn without_links(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("](")
        && let (Some((prose, label)), Some((_, tail))) =
            (before.rsplit_once('['), after.split_once(')'))
    {
        out.push_str(prose);
        out.push_str(label);
        rest = tail;
    }
    out.push_str(rest);
    out
}

pub(crate) fn name(row: &OptionRow) -> &'static str {
    if row.name == STATUS {
        "\"200\", \"404\", ..."
    } else {
        row.name
    }
}

fn sample_name(row: &OptionRow) -> &'static str {
    if row.name == STATUS {
        "\"404\""
    } else {
        row.name
    }
}

pub(crate) fn value(row: &OptionRow) -> String {
    let unit = if row.unit.is_empty() {
        String::new()
    } else {
        format!(" of {}", row.unit)
    };
    let bounds = row
        .kind
        .bounds()
        .map_or_else(String::new, |(least, most)| format!(", {least} to {most}"));
    format!("{}{unit}{bounds}", row.kind.describe())
}

pub(crate) fn fallback(row: &OptionRow) -> String {
    match row.fallback {
        Fallback::Value(text) => format!("`{text}`"),
        Fallback::Computed(how) => how.to_owned(),
        Fallback::Absent => "none".to_owned(),
        Fallback::Required => "required".to_owned(),
    }
}

/// The value in the words that the head of the page explains.
fn short(value: &str) -> String {
    [
        (" such as `\"32MiB\"`", ""),
        (" such as `\"64MiB\"`", ""),
        (" such as `\"30s\"`", ""),
        (" such as `\"60s\"`", ""),
        ("a whole number of ", ""),
        ("`true` or `false`", "boolean"),
        (
            "the two letters of a country such as `\"DE\"`",
            "country such as `\"DE\"`",
        ),
        ("an address or a network such as", "network such as"),
        ("an address, a network such as", "network such as"),
        ("the name of a header field", "header"),
        ("a header field, ", ""),
        ("network such as `\"10.0.0.0/8\"`", "network"),
        ("country such as `\"DE\"`", "country"),
        ("path such as `\"/form\"` or `\"/form*\"`", "URL path"),
        ("request method such as `\"GET\"`", "method"),
        (
            "`\"address:port\"`, `\"unix:/path\"` or `\"systemd:name\"`",
            "listener",
        ),
        ("a list, each a ", "list: "),
        ("a list, each ", "list: "),
    ]
    .iter()
    .fold(value.to_owned(), |text, (long, short)| {
        text.replace(long, short)
    })
    .trim_start_matches("a ")
    .to_owned()
}

/// The effect of a change, in a word that the head of the page explains.
fn mark(row: &OptionRow) -> &'static str {
    match (row.shapes_keys, row.needs_restart) {
        (true, _) => " *Refetch.*",
        (false, true) => " *Restart.*",
        (false, false) => "",
    }
}

const SAMPLE_SITE: [&str; 3] = ["hosts", "root", "php"];

const REFERENCE_HEAD: &str = "# The configuration file

<!-- Written from the table of options by the tests of galley-config; change the table. -->

The file is TOML. Galley rejects unknown options and suggests the nearest name; `galley check` reports all errors in one run:

```toml,broken
[cache]
memroy = \"256MiB\"
```

- A size is a whole number with `KiB`, `MiB`, `GiB`, `kB`, `MB` or `GB`, or of bytes: `\"32MiB\"`.
- A duration is a whole number with `ms`, `s`, `m`, `h` or `d`: `\"30s\"`.
- A path is absolute, or starts at the folder of the file that names it. A secret file must be readable by its owner only.
- A listener is `\"address:port\"`, `\"unix:/path\"` or `\"systemd:name\"`, a network `\"10.0.0.0/8\"` or an address, a country
  `\"DE\"`, a URL path `\"/form\"` or, with all that begin so, `\"/form*\"`.
- *Restart*: a change needs a restart. *Refetch*: after a change, Galley fetches the pages of the site again. Other changes need
  [a reload](../how-to/reload.md).
- Editors with a TOML plugin complete and check the file if its first line is `#:schema file:///usr/share/galley/galley.schema.json`.

A site needs three options. Examples of the manual that begin without a section continue such a site:

```toml
[[site]]
hosts = [\"example.com\", \"www.example.com\"]
root = \"/var/www/example.com\"
php = \"unix:/run/php/php-fpm.sock\"
```
";

const SAMPLE_HEAD: &str = "#:schema file:///usr/share/galley/galley.schema.json
# Every option. Lines without `#` in front are the minimum that works; the others show the default or an example.
# What each option does: options.md beside this file, or an editor that reads the first line.

";
