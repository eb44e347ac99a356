//! `galley.toml(5)`, generated from the option table for the macros of `man(7)`.

use std::fmt::Write as _;

use galley_config::OptionSection;

use super::reference::{fallback, full_text, name, rows, value};

/// The manual page of the configuration file.
pub fn manual_page() -> String {
    let mut out = String::from(HEAD);
    for section in OptionSection::ALL {
        let title = match section {
            OptionSection::Top => "TOP OF THE FILE",
            other => other.header(),
        };
        let _ = writeln!(out, ".SH \"{title}\"\n{}", escaped(section.text()));
        for row in rows(section) {
            let _ = writeln!(
                out,
                ".TP\n\\fB{}\\fR\n{}\n.br\nValue: {}. Default: {}.",
                escaped(name(row)),
                escaped(&full_text(row)),
                escaped(&value(row)),
                escaped(&fallback(row)),
            );
        }
    }
    out.push_str(FOOT);
    out
}

/// Escapes text for `man`, so that it contains no requests and no escape sequences. Words in backticks are bold.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    let mut is_bold = false;
    // A line that begins with one of these characters would be a request.
    if text.starts_with(['.', '\'']) {
        out.push_str("\\&");
    }
    for character in text.chars() {
        match character {
            '\\' => out.push_str("\\e"),
            '-' => out.push_str("\\-"),
            '\'' => out.push_str("\\(aq"),
            '`' => {
                is_bold = !is_bold;
                out.push_str(if is_bold { "\\fB" } else { "\\fR" });
            }
            other => out.push(other),
        }
    }
    out
}

const HEAD: &str = r#".TH galley.toml 5 "" "Galley" "Galley"
.SH NAME
galley.toml \- configuration file of Galley
.SH SYNOPSIS
/etc/galley/galley.toml
.SH DESCRIPTION
The file is TOML.
.B galley check
reports every error with its line.
A size is a whole number with KiB, MiB, GiB, kB, MB or GB, or a plain number of bytes.
A duration is a whole number with ms, s, m, h or d.
A relative path starts at the folder of the file that names it.
A site needs three options:
.PP
.nf
[[site]]
hosts = ["example.com", "www.example.com"]
root = "/var/www/example.com"
php = "unix:/run/php/php\-fpm.sock"
.fi
"#;

const FOOT: &str = ".SH SEE ALSO\n.BR galley (1)\n";

#[test]
fn text_contains_no_requests_and_no_escape_sequences() {
    assert_eq!(escaped(".so x"), "\\&.so x");
    assert_eq!(
        escaped("a `b-c` \\n 'd'"),
        "a \\fBb\\-c\\fR \\en \\(aqd\\(aq"
    );
}
