//! What an article is made of: the stacks that it compared, the lines that it measured with, what it published, and the
//! troubles that it names.

use serde::Serialize;

/// One of the five.
#[derive(Debug)]
pub(super) struct Article {
    /// As on the command line.
    pub(super) number: usize,
    /// In a file name.
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    /// What was published, when and about what machine, where the text says so.
    pub(super) about: &'static str,
    /// What is not as the text has it, and why.
    pub(super) departs: &'static str,
    pub(super) stacks: &'static [StackPlan],
    pub(super) lines: &'static [LinePlan],
    pub(super) troubles: &'static [TroublePlan],
}

/// What a stack is to its article.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Role {
    /// What the author started with.
    Before,
    /// What the author tried on the way.
    Between,
    /// What the author ended with.
    Final,
    Galley,
}

/// A stack: PHP, and the programs in front of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct StackPlan {
    pub(super) title: &'static str,
    pub(super) role: Role,
    pub(super) php: Php,
    /// From PHP to the visitor.
    pub(super) tiers: &'static [Tier],
}

/// Who runs PHP.
#[derive(Debug, Clone, Copy)]
pub(super) enum Php {
    /// Apache with mod_php.
    Apache(ApachePlan),
    /// PHP-FPM with Debian's number of workers.
    Fpm,
}

/// The numbers of an Apache with the prefork module.
#[derive(Debug, Clone, Copy)]
pub(super) struct ApachePlan {
    /// Most children at a time.
    pub(super) children: usize,
    pub(super) keep_alive_timeout_s: u32,
    /// Further directives.
    pub(super) directives: &'static str,
}

/// A program between PHP and the visitor.
#[derive(Debug, Clone, Copy)]
pub(super) enum Tier {
    Nginx {
        /// File name and text; the first is the main file.
        files: &'static [(&'static str, &'static str)],
        /// Words of these files, and their meaning.
        words: &'static [(&'static str, &'static str)],
    },
    Varnish {
        vcl: &'static str,
    },
    Galley,
}

/// What is requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Page {
    /// The home page of the WordPress.
    Home,
    /// A post of the WordPress.
    Post,
    /// A script of PHP that prints a sentence.
    Hello,
    /// A file of 13 bytes.
    Thirteen,
    /// A script of PHP that prints its parameters and its environment; never cached.
    Script,
}

/// A line of ab, as published.
#[derive(Debug)]
pub(super) struct LinePlan {
    pub(super) title: &'static str,
    pub(super) page: Page,
    pub(super) arguments: &'static [&'static str],
    /// The arguments for the stack that the author started with, where that cannot do as many.
    pub(super) before: Option<&'static [&'static str]>,
    /// So many slices are measured, each with one of so many parts of the requests or seconds.
    pub(super) slices: u32,
    pub(super) parts: u32,
    pub(super) published: &'static [Published],
}

/// A published figure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Published {
    pub(super) role: Role,
    pub(super) per_second: f64,
}

/// What an author had trouble with, or took care of.
#[derive(Debug)]
pub(super) struct TroublePlan {
    pub(super) probe: Probe,
    /// What must be so.
    pub(super) words: &'static str,
}

/// What is checked. Each names what must be so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Probe {
    /// All processes of the stack, PHP included and the database not, hold no more megabytes after the line.
    Memory(u32),
    /// No request of the line fails.
    Load,
    /// Phones get the mobile edition and desktops the other, also from the cache.
    Mobile,
    /// The login form works through the stack.
    Login,
    /// Who is logged in gets a page of their own, and nobody else gets it.
    LoggedIn,
    /// A page with the name of a commenter in its form is for that commenter only.
    Commenter,
    /// The first visitor after an edit sees it: of a post, of its comments, and its deletion.
    Purge,
    /// A picture is sent without a process of PHP, or at most once with one.
    Pictures,
    /// Cache-Control decides what is stored.
    CacheControl,
    /// More than a thousand connections at a time.
    Connections,
    /// Stored pages are served while PHP is down.
    Outage,
    /// `.htaccess` is not sent.
    Hidden,
    /// A scheduled post appears within a minute.
    Scheduled,
    /// Many visitors of a page that is not stored: PHP generates it once.
    Stampede,
    /// From 1 to 250 visitors a second: nobody waits five seconds.
    Rush,
}
