//! The command: its options, columns and pages, and the measurement.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use galley_testkit::Quartiles;

use super::site::Site;
use super::table;
use crate::error::CommandError;

/// The options of the command.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The server binary
    #[arg(long, default_value = "target/release/galley")]
    galley: PathBuf,
    /// Folder of the plugin
    #[arg(long, default_value = "wordpress-plugin/galley")]
    pub(super) plugin: PathBuf,
    /// Folder of a further plugin, such as WooCommerce, instead of the sample shop
    #[arg(long, value_name = "DIR")]
    pub(super) with_plugin: Vec<PathBuf>,
    /// The extension `apcu`, if PHP-FPM does not load it
    #[arg(long, value_name = "FILE")]
    pub(super) apcu: Option<PathBuf>,
    /// Requests of each page in each column. The shop has 69 posts and products that nothing else requests
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u8).range(1..=69))]
    rounds: u8,
    /// Processes of PHP for each column, one after the other, which share the rounds. A process has a layout of its memory for its life: two
    /// with the same code differ by up to 4.5 %
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=20))]
    processes: u8,
    /// Measure only this page, such as `wp-admin`; several times: these
    #[arg(long, value_name = "PAGE")]
    only: Vec<String>,
}

/// What serves a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Column {
    None,
    Redis,
    Apcu,
    Mget,
    Galley,
}

impl Column {
    pub(super) const ALL: [Self; 5] = [
        Self::None,
        Self::Redis,
        Self::Apcu,
        Self::Mget,
        Self::Galley,
    ];

    /// The value of `OBJECT_CACHE`, and the beginning of the host.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Redis => "redis",
            Self::Apcu => "apcu",
            Self::Mget => "mget",
            Self::Galley => "galley",
        }
    }

    pub(super) fn host(self) -> String {
        format!("{}.test", self.name())
    }
}

/// What one request has cost.
#[derive(Debug, Clone, Copy)]
pub(super) struct PageCost {
    pub(super) cpu: PageCpu,
    pub(super) queries: f64,
    pub(super) round_trips: f64,
}

/// Milliseconds of processor time.
#[derive(Debug, Clone, Copy)]
pub(super) struct PageCpu {
    pub(super) php: f64,
    pub(super) database: f64,
    pub(super) cache: f64,
}

impl PageCpu {
    pub(super) fn total(self) -> f64 {
        self.php + self.database + self.cache
    }
}

/// A kind of page.
#[derive(Debug, Clone)]
pub(super) struct PageKind {
    pub(super) name: &'static str,
    /// One of them in each round. The same one several times is a URL that was requested before.
    pub(super) targets: Vec<String>,
    pub(super) is_member: bool,
    /// Whether each target is requested once only.
    pub(super) is_unseen: bool,
}

/// The costs of a kind of page, by column.
pub(super) type Costs = BTreeMap<Column, Vec<PageCost>>;

/// Medians of a column.
pub(super) fn median(costs: &[PageCost], of: fn(&PageCost) -> f64) -> f64 {
    Quartiles::of(costs.iter().map(of)).map_or(f64::NAN, |all| all.median)
}

/// Measures and prints.
pub(crate) fn run(arguments: &Arguments) -> Result<(), CommandError> {
    let galley = fs::canonicalize(&arguments.galley).map_err(|_| {
        let path = arguments.galley.display();
        format!("`{path}` does not exist: run `make build`")
    })?;
    let rounds = usize::from(arguments.rounds);
    let mut pages = pages(rounds);
    for name in &arguments.only {
        if !pages.iter().any(|page| page.name == name) {
            return Err(format!("no page is named `{name}`").into());
        }
    }
    pages.retain(|page| {
        arguments.only.is_empty() || arguments.only.iter().any(|name| name == page.name)
    });
    let mut site = Site::start(arguments, &galley)?;
    let mut results: Vec<(PageKind, Costs)> =
        pages.into_iter().map(|page| (page, Costs::new())).collect();
    let processes = usize::from(arguments.processes).min(rounds);
    for process in 0..processes {
        eprintln!("object-cache: process {} of {processes}", process + 1);
        if process > 0 {
            site.restart_php()?;
        }
        warm(&site, &results)?;
        let part = rounds * process / processes..rounds * (process + 1) / processes;
        for (page, costs) in &mut results {
            eprintln!("object-cache: {}", page.name);
            for round in part.clone() {
                measure(&site, page, round, costs)?;
            }
        }
    }
    table::print(&results);
    let missed = table::print_goals(&results);
    if missed == 0 {
        return Ok(());
    }
    Err(format!("{missed} goals were missed: see above").into())
}

/// Requests each page that was requested before it is measured.
fn warm(site: &Site, pages: &[(PageKind, Costs)]) -> Result<(), CommandError> {
    eprintln!("object-cache: each page {WARM} times before it is measured");
    for (page, _) in pages.iter().filter(|(page, _)| !page.is_unseen) {
        for _ in 0..WARM {
            for column in site.columns() {
                site.request(*column, &page.targets[0], page.is_member)?;
            }
        }
    }
    Ok(())
}

/// Requests a page once in each column, in another order in each round: nobody always comes after the same one.
fn measure(
    site: &Site,
    page: &PageKind,
    round: usize,
    costs: &mut Costs,
) -> Result<(), CommandError> {
    let target = &page.targets[round % page.targets.len()];
    for at in 0..site.columns().len() {
        let column = site.columns()[(at + round) % site.columns().len()];
        let cost = site.request(column, target, page.is_member)?;
        costs.entry(column).or_default().push(cost);
    }
    Ok(())
}

fn pages(rounds: usize) -> Vec<PageKind> {
    let seen = |name, target: &str, is_member| PageKind {
        name,
        targets: vec![target.to_owned()],
        is_member,
        is_unseen: false,
    };
    let unseen = |name, target: &dyn Fn(usize) -> String| PageKind {
        name,
        targets: (0..rounds).map(target).collect(),
        is_member: false,
        is_unseen: true,
    };
    vec![
        seen("front page", "/", false),
        seen("post", "/article-70/", false),
        seen("shop", "/shop/", false),
        seen("category", "/product-category/tools/", false),
        seen("product", "/product/item-71/", false),
        seen("search", "/?s=words", false),
        seen("REST posts", "/wp-json/wp/v2/posts?per_page=10", false),
        seen("wp-admin", "/wp-admin/", true),
        seen("edit.php", "/wp-admin/edit.php", true),
        seen("post, logged in", "/article-69/", true),
        unseen("post, first request", &|at| format!("/article-{at}/")),
        unseen("product, first request", &|at| {
            format!("/product/item-{at}/")
        }),
        unseen("post, another URL", &|at| {
            format!("/article-{at}/?utm_source={at}")
        }),
        unseen("product, another URL", &|at| {
            format!("/product/item-{at}/?utm_source={at}")
        }),
    ]
}

/// Requests of each page before it is measured.
const WARM: usize = 4;
