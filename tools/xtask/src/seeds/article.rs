//! The parts of an article: the stacks that it compares, its `ab` command lines, its published figures, and the problems that it
//! describes.

use serde::Serialize;

/// One of the five articles.
#[derive(Debug)]
pub(super) struct Article {
    /// The number on the command line.
    pub(super) number: usize,
    /// The name in file names.
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    /// What was published, and if the text has it, when and for which machine.
    pub(super) about: &'static str,
    /// Differences between the rebuilt stacks and the text, with reasons.
    pub(super) departs: &'static str,
    pub(super) stacks: &'static [StackPlan],
    pub(super) lines: &'static [AbLine],
    pub(super) problems: &'static [Problem],
}

/// The role of a stack in its article.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Role {
    /// The author's original stack.
    Original,
    /// A stack that the author tried in between.
    Intermediate,
    /// The author's final stack.
    Final,
    Galley,
}

/// A stack: PHP, and the programs in front of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct StackPlan {
    pub(super) title: &'static str,
    pub(super) role: Role,
    pub(super) php: Php,
    /// In the order from PHP to the client.
    pub(super) tiers: &'static [Tier],
}

/// The server that runs PHP.
#[derive(Debug, Clone, Copy)]
pub(super) enum Php {
    /// Apache with mod_php.
    Apache(ApachePlan),
    /// PHP-FPM with Debian's number of workers.
    Fpm,
}

/// The settings of an Apache with the prefork module.
#[derive(Debug, Clone, Copy)]
pub(super) struct ApachePlan {
    /// Maximum number of children.
    pub(super) children: usize,
    pub(super) keep_alive_timeout_s: u32,
    /// Further directives.
    pub(super) directives: &'static str,
}

/// A server between PHP and the client.
#[derive(Debug, Clone, Copy)]
pub(super) enum Tier {
    Nginx {
        /// File name and text; the first is the main file.
        files: &'static [(&'static str, &'static str)],
        /// Placeholders of these files, and their values.
        placeholders: &'static [(&'static str, &'static str)],
    },
    Varnish {
        vcl: &'static str,
    },
    Galley,
}

/// The page that a command line requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Page {
    /// The home page of WordPress.
    Home,
    /// A post of WordPress.
    Post,
    /// A PHP script that prints a sentence.
    Hello,
    /// A file of 13 bytes.
    Thirteen,
    /// A PHP script that prints its parameters and its environment; never cached.
    Script,
}

/// A published command line of `ab`.
#[derive(Debug)]
pub(super) struct AbLine {
    pub(super) title: &'static str,
    pub(super) page: Page,
    pub(super) arguments: &'static [&'static str],
    /// Other arguments for the author's original stack, if it is too slow for the published number of requests.
    pub(super) original_stack_arguments: Option<&'static [&'static str]>,
    /// Number of slices that are measured.
    pub(super) slices: u32,
    /// A slice has this fraction (1/`parts`) of the requests or seconds.
    pub(super) parts: u32,
    pub(super) published: &'static [Published],
}

/// A published figure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Published {
    pub(super) role: Role,
    pub(super) per_second: f64,
}

/// A problem that an article describes or solves.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) probe: Probe,
    /// The behavior that is required.
    pub(super) requirement: &'static str,
}

/// The checks. Each comment states the requirement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Probe {
    /// After the load, all processes of the stack, with PHP and without the database, use at most this many megabytes.
    Memory(u32),
    /// No request of the load fails.
    Load,
    /// Phones receive the mobile edition and desktops the other, also from the cache.
    Mobile,
    /// The login form works through the stack.
    Login,
    /// Logged-in users receive their own page, and no other client receives it.
    LoggedIn,
    /// Only the commenter receives a page with the commenter's name in the form.
    Commenter,
    /// The first visitor after an edit sees it. Edits are those of a post and its comments, and deletions.
    Purge,
    /// The front server sends pictures; at most one request reaches PHP's server.
    Pictures,
    /// Cache-Control of a page is honored.
    CacheControl,
    /// More than a thousand concurrent connections are served.
    Connections,
    /// Stored pages are served while PHP is down.
    PhpOutage,
    /// `.htaccess` is not sent.
    HiddenFile,
    /// A scheduled post appears within a minute.
    Scheduled,
    /// PHP generates a page once if many visitors request it while it is not stored.
    Stampede,
    /// A load that rises from 1 to 250 visitors a second: no visitor waits five seconds.
    RisingLoad,
}
