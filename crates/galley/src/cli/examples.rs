//! The examples at the end of each command's `--help`. Tests parse each of them.

use clap::Command;

/// Adds the examples to each command.
pub(super) fn add(mut program: Command) -> Command {
    for (path, examples) in EXAMPLES {
        program = at(program, path, &text(examples));
    }
    program
}

fn at(command: Command, path: &[&str], text: &str) -> Command {
    match path.split_first() {
        None => command.after_help(text.to_owned()),
        Some((name, rest)) => command.mut_subcommand(name, |inner| at(inner, rest, text)),
    }
}

fn text(examples: &[&str]) -> String {
    let lines = examples
        .iter()
        .map(|example| format!("\n  galley {example}"));
    format!("Examples:{}", lines.collect::<String>())
}

/// The examples by the names of their command and subcommand.
const EXAMPLES: &[(&[&str], &[&str])] = &[
    (
        &["run"],
        &[
            "run",
            "run --config /etc/galley/galley.toml",
            "run --root /var/www/html",
        ],
    ),
    (
        &["check"],
        &["check", "check --config galley.toml", "check --diff"],
    ),
    (&["reload"], &["reload", "reload --json"]),
    (&["upgrade"], &["upgrade", "upgrade --json"]),
    (
        &["purge"],
        &[
            "purge --url https://example.com/hello-world/",
            "purge --site example.com --prefix /shop/ --soft",
            "purge --all",
        ],
    ),
    (&["audit"], &["audit", "audit --site example.com --json"]),
    (
        &["status"],
        &[
            "status",
            "status --json",
            "status --admin http://127.0.0.1:8079 --token-file token",
        ],
    ),
    (
        &["dashboard"],
        &["dashboard", "dashboard --port 8078 --no-open"],
    ),
    (
        &["why"],
        &[
            "why https://example.com/shop/",
            "why https://example.com/shop/ -H 'Cookie: currency=EUR'",
            "why https://example.com/wp-login.php --method POST --from 192.0.2.7",
        ],
    ),
    (
        &["crawlers"],
        &[
            "crawlers",
            "crawlers 66.249.66.1",
            "crawlers --agent GPTBot/1.2 --json",
        ],
    ),
    (&["doctor"], &["doctor", "doctor --json"]),
    (&["setup"], &["setup", "setup --dry-run", "setup --undo"]),
    (
        &["import"],
        &[
            "import /etc/nginx",
            "import --nginx /etc/nginx/nginx.conf --varnish /etc/varnish/default.vcl --output galley.toml",
            "import --nginx /etc/nginx/nginx.conf --try",
        ],
    ),
    (
        &["load"],
        &[
            "load https://example.com/ --rate 50",
            "load https://example.com/ --ramp 10:500 --html report.html",
        ],
    ),
    (
        &["plugin"],
        &[
            "plugin install /var/www/html",
            "plugin remove /var/www/html",
        ],
    ),
    (
        &["plugin", "install"],
        &[
            "plugin install /var/www/html",
            "plugin install /var/www/html --object-cache",
        ],
    ),
    (
        &["plugin", "remove"],
        &[
            "plugin remove /var/www/html",
            "plugin remove /var/www/html --json",
        ],
    ),
    (&[], &["run --root /var/www/html", "setup", "status"]),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::command;

    /// The words of an example; quotes keep spaces.
    fn words(example: &str) -> Vec<String> {
        let mut words = vec!["galley".to_owned()];
        for (index, part) in example.split('\'').enumerate() {
            if index % 2 == 1 {
                words.push(part.to_owned());
            } else {
                words.extend(part.split_whitespace().map(str::to_owned));
            }
        }
        words
    }

    #[test]
    fn every_example_is_a_valid_call_of_its_command() {
        for (path, examples) in EXAMPLES {
            for example in *examples {
                let parsed = command().try_get_matches_from(words(example));
                assert!(parsed.is_ok(), "{example}: {:?}", parsed.err());
                assert!(example.starts_with(&path.join(" ")), "{example}");
            }
        }
    }

    #[test]
    fn the_help_of_every_command_ends_with_two_or_three_examples() {
        fn check(command: &Command) {
            let is_listed = |inner: &&Command| !inner.is_hide_set() && inner.get_name() != "help";
            let inner: Vec<&Command> = command.get_subcommands().filter(is_listed).collect();
            for inner in &inner {
                check(inner);
            }
            let help = command.get_after_help().map(ToString::to_string);
            let help = help.unwrap_or_default();
            let examples = help.strip_prefix("Examples:\n").unwrap_or_default();
            let count = examples.lines().count();
            let name = command.get_name();
            assert!((2..=3).contains(&count), "{name}: {count} examples");
            let whole = command.clone().render_long_help().to_string();
            let end = whole.rsplit_once("Examples:").map(|(_, end)| end);
            assert!(
                end.is_some_and(|end| !end.contains("--help")),
                "{name}: {whole}"
            );
        }
        check(&command());
    }
}
