//! One row of the option table.
//!
//! A row is the only definition of an option: reading, bounds, default, reference page and sample follow from it. The rows
//! themselves are in `table`.

use std::time::Duration;

use crate::quantity::{write_duration, write_size};

/// One option.
#[derive(Clone, Copy, Debug)]
pub struct OptionRow {
    /// The section of the option.
    pub section: OptionSection,
    /// The name within the section.
    pub name: &'static str,
    /// The kind of its value, with bounds.
    pub kind: ValueKind,
    /// The value if the file does not set the option.
    pub fallback: Fallback,
    /// The unit of a plain number; empty if the kind defines it.
    pub unit: &'static str,
    /// An example of a value, for sample and help.
    pub example: &'static str,
    /// The purpose of the option, in whole sentences.
    pub text: &'static str,
    /// Whether a change makes Galley fetch the pages of the site again: keys or stored bytes depend on the option.
    pub shapes_keys: bool,
    /// Whether the option keeps its value until a restart.
    pub needs_restart: bool,
}

/// The part of the file that contains an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OptionSection {
    /// Options before the first section.
    Top,
    /// `[server]`.
    Server,
    /// `[admin]`.
    Admin,
    /// `[cache]`.
    Cache,
    /// `[log]`.
    Log,
    /// `[acme]`.
    Acme,
    /// `[cluster]`.
    Cluster,
    /// `[[site]]`.
    Site,
    /// `[site.ttl]`.
    SiteTtl,
    /// `[[site.rule]]`.
    SiteRule,
    /// `[site.error_pages]`.
    SiteErrorPages,
    /// `[site.log]`.
    SiteLog,
}

/// The kind of a value.
#[derive(Clone, Copy, Debug)]
pub enum ValueKind {
    /// `true` or `false`.
    Flag,
    /// A whole number, bounds included.
    Count {
        /// The minimum.
        least: u64,
        /// The maximum.
        most: u64,
    },
    /// A number of bytes, bounds included.
    Size {
        /// The minimum, in bytes.
        least: u64,
        /// The maximum, in bytes.
        most: u64,
    },
    /// A size as [`ValueKind::Size`], or `off`, which is 0.
    SizeOrOff {
        /// The minimum.
        least: u64,
        /// The maximum.
        most: u64,
    },
    /// A duration, bounds included.
    Time {
        /// The minimum.
        least: Duration,
        /// The maximum.
        most: Duration,
    },
    /// A duration, bounds included, or `off`.
    TimeOrOff {
        /// The minimum.
        least: Duration,
        /// The maximum.
        most: Duration,
    },
    /// One of these words.
    Word(&'static [&'static str]),
    /// Any text that is not empty.
    Text,
    /// A path; a relative one starts at the folder of the file that contains it.
    Path,
    /// A path whose last components may contain `*` and `?`.
    Glob,
    /// `ip:port`, `unix:/path` or `systemd:name`.
    Listen,
    /// `ip:port`, `unix:/path` or `off`.
    AdminAddress,
    /// `unix:/path`, `host:port` or `managed`.
    PhpAddress,
    /// `http://host:port` or `https://host:port`.
    UpstreamUrl,
    /// `{ cert = "...", key = "..." }`, or a list of them.
    Certificates,
    /// `{ name = "...", ca = "...", verify = true }`.
    UpstreamTls,
    /// `{ cloudflare = "...", token_file = "..." }` and similar tables.
    PurgeForward,
    /// A host, `*.example.com` or `*`.
    Host,
    /// An address or a network.
    Network,
    /// A two-letter country code.
    Country,
    /// An address, a network or `unix`.
    Proxy,
    /// A name, or `prefix*`.
    Name,
    /// A name, `prefix*`, or `*` for all.
    NameOrAll,
    /// A URL path, optionally with `*` at its end.
    UrlPath,
    /// `/path/`, or `{ path = "/path/", folder = "/srv/files" }`.
    Internal,
    /// A regular expression.
    Pattern,
    /// The name of a request method.
    Method,
    /// The name of a header field.
    FieldName,
    /// `Name: value`.
    FieldLine,
    /// A field of access lines.
    LogField,
    /// `stdout`, `off` or a path.
    AccessLog,
    /// `stderr` or a path.
    ErrorLog,
    /// A file, or `off`.
    FileOrOff,
    /// A rate with its burst, or `off`.
    Limit,
    /// `{ Googlebot = "googlebot.json" }`.
    CrawlerLists,
    /// `{ Bytespider = "refuse", GPTBot = "30s" }`.
    CrawlerRules,
    /// A list of values of this kind.
    List(&'static ValueKind),
}

/// The value of an option that the file does not set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fallback {
    /// This value, in the syntax of the file.
    Value(&'static str),
    /// A value that depends on the machine or on other options; the text explains how.
    Computed(&'static str),
    /// No value.
    Absent,
    /// The file must set the option.
    Required,
}

impl OptionRow {
    /// The name with the section: `site.ttl.default`.
    pub fn path(&self) -> String {
        match self.section.prefix() {
            "" => self.name.to_owned(),
            prefix => format!("{prefix}.{}", self.name),
        }
    }

    /// A row without a default; the other functions refine it.
    pub(crate) const fn new(
        section: OptionSection,
        name: &'static str,
        kind: ValueKind,
        text: &'static str,
    ) -> Self {
        Self {
            section,
            name,
            kind,
            fallback: Fallback::Absent,
            unit: "",
            example: "",
            text,
            shapes_keys: false,
            needs_restart: false,
        }
    }

    /// Sets the default, which is also the example.
    pub(crate) const fn or(mut self, value: &'static str) -> Self {
        self.fallback = Fallback::Value(value);
        self.example = value;
        self
    }

    /// Marks a default that is determined at startup.
    pub(crate) const fn computed(mut self, how: &'static str) -> Self {
        self.fallback = Fallback::Computed(how);
        self
    }

    /// Marks the option as required.
    pub(crate) const fn required(mut self) -> Self {
        self.fallback = Fallback::Required;
        self
    }

    /// Sets the example.
    pub(crate) const fn example(mut self, value: &'static str) -> Self {
        self.example = value;
        self
    }

    /// Marks an option on which keys or stored bytes depend.
    pub(crate) const fn shapes_keys(mut self) -> Self {
        self.shapes_keys = true;
        self
    }

    /// Marks an option that keeps its value until a restart: its field is one of those that `Config::keep_fixed` copies.
    pub(crate) const fn needs_restart(mut self) -> Self {
        self.needs_restart = true;
        self
    }

    /// Sets the unit of a plain number.
    pub(crate) const fn unit(mut self, unit: &'static str) -> Self {
        self.unit = unit;
        self
    }
}

impl OptionSection {
    /// All sections, in the order of the reference page.
    pub const ALL: [Self; 12] = [
        Self::Top,
        Self::Server,
        Self::Admin,
        Self::Cache,
        Self::Log,
        Self::Acme,
        Self::Cluster,
        Self::Site,
        Self::SiteTtl,
        Self::SiteRule,
        Self::SiteErrorPages,
        Self::SiteLog,
    ];

    /// The header in the file: `[server]`, `[[site.rule]]`; empty for the top.
    pub fn header(self) -> &'static str {
        match self {
            Self::Top => "",
            Self::Server => "[server]",
            Self::Admin => "[admin]",
            Self::Cache => "[cache]",
            Self::Log => "[log]",
            Self::Acme => "[acme]",
            Self::Cluster => "[cluster]",
            Self::Site => "[[site]]",
            Self::SiteTtl => "[site.ttl]",
            Self::SiteRule => "[[site.rule]]",
            Self::SiteErrorPages => "[site.error_pages]",
            Self::SiteLog => "[site.log]",
        }
    }

    /// The prefix of option names in diagnostics: `site.rule`; empty for the top.
    pub fn prefix(self) -> &'static str {
        self.header().trim_matches(['[', ']'])
    }

    /// One sentence for the reference page and the sample.
    pub fn text(self) -> &'static str {
        match self {
            Self::Top => "Options before the first section.",
            Self::Server => "Listeners, and limits towards clients.",
            Self::Admin => {
                "The interface that `galley purge`, `galley status` and other tools connect to."
            }
            Self::Cache => "The cache of all sites.",
            Self::Log => "Logs of all sites. Galley reopens log files on SIGUSR1.",
            Self::Acme => "Automatic certificates, for sites whose `tls` is `auto`.",
            Self::Cluster => {
                "Several Galleys that serve the same sites and purge as one, over Valkey or Redis."
            }
            Self::Site => {
                "A site: its hosts, files and upstream. Repeat the section for each site."
            }
            Self::SiteTtl => {
                "Lifetimes for responses without one of their own. Other statuses than these and those that are cacheable by default (RFC 9110 section 15.1) are never stored."
            }
            Self::SiteRule => {
                "A rule for some paths of the site. Only the first rule that matches a request applies."
            }
            Self::SiteErrorPages => {
                "Your pages for errors of Galley. Those of the upstream are forwarded."
            }
            Self::SiteLog => "Logs of this site, in place of those of `[log]`.",
        }
    }
}

impl ValueKind {
    /// A description of valid values, to follow "wants" or for the reference page.
    pub fn describe(&self) -> String {
        match self {
            Self::Flag => "`true` or `false`".to_owned(),
            Self::Count { .. } => "a whole number".to_owned(),
            Self::Size { .. } => "a size such as `\"32MiB\"`".to_owned(),
            Self::SizeOrOff { .. } => "a size such as `\"64MiB\"`, or `\"off\"`".to_owned(),
            Self::Time { .. } => "a duration such as `\"30s\"`".to_owned(),
            Self::TimeOrOff { .. } => "a duration such as `\"60s\"`, or `\"off\"`".to_owned(),
            Self::Word(words) => one_of(words),
            Self::Text => "a string".to_owned(),
            Self::Path => "a path".to_owned(),
            Self::Glob => "a path, `*` and `?` allowed".to_owned(),
            Self::Listen => "`\"address:port\"`, `\"unix:/path\"` or `\"systemd:name\"`".to_owned(),
            Self::AdminAddress => "`\"address:port\"`, `\"unix:/path\"` or `\"off\"`".to_owned(),
            Self::PhpAddress => {
                "`\"unix:/path\"`, `\"host:port\"`, `\"managed\"`, or a list of servers".to_owned()
            }
            Self::UpstreamUrl => {
                "`\"http://host:port\"`, `\"https://host:port\"` or `{ url = \"...\", weight = 2 }`"
                    .to_owned()
            }
            Self::Certificates => {
                "`\"auto\"`, `{ cert = \"...\", key = \"...\" }`, or a list of these".to_owned()
            }
            Self::UpstreamTls => "`{ name = \"...\", ca = \"...\", verify = true }`".to_owned(),
            Self::PurgeForward => "`{ cloudflare = \"...\", token_file = \"...\" }`".to_owned(),
            Self::Host => "a host, `\"*.example.com\"` or `\"*\"`".to_owned(),
            Self::Network => "an address or a network such as `\"10.0.0.0/8\"`".to_owned(),
            Self::Country => "the two letters of a country such as `\"DE\"`".to_owned(),
            Self::Proxy => {
                "an address, a network such as `\"10.0.0.0/8\"`, or `\"unix\"`".to_owned()
            }
            Self::Name => "a name, or `\"prefix*\"`".to_owned(),
            Self::NameOrAll => "a name, `\"prefix*\"`, or `\"*\"` for all".to_owned(),
            Self::UrlPath => "a path such as `\"/form\"` or `\"/form*\"`".to_owned(),
            Self::Internal => {
                "a path such as `\"/protected/\"`, or `{ path = \"/protected/\", folder = \"/srv/files\" }`"
                    .to_owned()
            }
            Self::Pattern => "a regular expression".to_owned(),
            Self::Method => "a request method such as `\"GET\"`".to_owned(),
            Self::FieldName => "the name of a header field".to_owned(),
            Self::FieldLine => "a header field, `\"Name: value\"`".to_owned(),
            Self::LogField => {
                "a name, `\"request_header:NAME\"` or `\"response_header:NAME\"`".to_owned()
            }
            Self::AccessLog => "`\"stdout\"`, `\"off\"` or a path".to_owned(),
            Self::ErrorLog => "`\"stderr\"` or a path".to_owned(),
            Self::FileOrOff => "a path, or `\"off\"`".to_owned(),
            Self::Limit => "`{ rate = \"10/m\", burst = 5 }`, or `\"off\"`".to_owned(),
            Self::CrawlerLists => "`{ Googlebot = \"googlebot.json\" }`".to_owned(),
            Self::CrawlerRules => "`{ Bytespider = \"refuse\", GPTBot = \"30s\" }`".to_owned(),
            Self::List(each) => format!("a list, each {}", each.describe()),
        }
    }

    /// The minimum and maximum in the syntax of the file.
    pub fn bounds(&self) -> Option<(String, String)> {
        match *self {
            Self::Count { least, most } => Some((least.to_string(), most.to_string())),
            Self::Size { least, most } | Self::SizeOrOff { least, most } => {
                Some((write_size(least), write_size(most)))
            }
            Self::Time { least, most } | Self::TimeOrOff { least, most } => {
                Some((write_duration(least), write_duration(most)))
            }
            _ => None,
        }
    }
}

/// Lists words as `"a"`, `"b"` or `"c"`, each in backticks.
pub(crate) fn one_of(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`\"{word}\"`")).collect();
    match quoted.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => quoted.concat(),
    }
}
