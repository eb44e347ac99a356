//! The command: its options, the pages, the measurement and the tables.

use std::fs;
use std::path::PathBuf;

use galley_testkit::Quartiles;

use super::columns::{COLUMNS, Column};
use super::site::Site;
use crate::error::CommandError;

/// The options of the command.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The server binary
    #[arg(long, default_value = "target/release/galley")]
    galley: PathBuf,
    /// Requests of each page in each column
    #[arg(long, default_value_t = 25)]
    rounds: usize,
    /// Starts of PHP in each column
    #[arg(long, default_value_t = 7)]
    starts: usize,
    /// Only these columns; the first is compared with in any case
    #[arg(long)]
    only: Vec<String>,
}

/// Name, address, and whether the administrator requests it.
const PAGES: &[(&str, &str, bool)] = &[
    ("front page", "/", false),
    ("post", "/article-70/", false),
    ("product", "/product/item-71/", false),
    ("REST posts", "/wp-json/wp/v2/posts?per_page=10", false),
    ("wp-admin", "/wp-admin/", true),
];

/// Measures and prints.
pub(crate) fn run(arguments: &Arguments) -> Result<(), CommandError> {
    let galley = fs::canonicalize(&arguments.galley).map_err(|_| {
        let path = arguments.galley.display();
        format!("`{path}` does not exist: run `make build`")
    })?;
    let is_wanted = |(at, column): &(usize, &Column)| {
        *at == 0
            || arguments.only.is_empty()
            || arguments.only.iter().any(|name| name == column.name)
    };
    let columns = COLUMNS.iter().enumerate().filter(is_wanted);
    let columns: Vec<Column> = columns.map(|(_, column)| *column).collect();
    let mut site = Site::start(&galley, &columns)?;
    let warm = warm(&site, &columns, arguments.rounds)?;
    print_warm(&columns, &warm);
    let cold = cold(&mut site, &columns, arguments.starts)?;
    print_cold(&columns, &cold);
    Ok(())
}

/// The milliseconds of each request, by page and column.
fn warm(
    site: &Site,
    columns: &[Column],
    rounds: usize,
) -> Result<Vec<Vec<Vec<f64>>>, CommandError> {
    let mut results = Vec::new();
    for (name, target, is_member) in PAGES {
        eprintln!("php-table: {name}");
        let mut costs = vec![Vec::new(); columns.len()];
        for round in 0..rounds + WARM {
            for step in 0..columns.len() {
                // Another order in each round: nobody always comes after the same one.
                let at = (step + round) % columns.len();
                let cost = site.request(&columns[at], target, *is_member)?;
                if round >= WARM {
                    costs[at].push(cost);
                }
            }
        }
        results.push(costs);
    }
    Ok(results)
}

/// The milliseconds of processor time and of waiting from the start of PHP to the end of its first page, and to the end of its second
/// one, by column.
fn cold(
    site: &mut Site,
    columns: &[Column],
    starts: usize,
) -> Result<Vec<Vec<[f64; 2]>>, CommandError> {
    let mut results = vec![Vec::new(); columns.len()];
    for round in 0..starts {
        eprintln!("php-table: start {} of {starts}", round + 1);
        for (column, costs) in columns.iter().zip(&mut results) {
            if column.ini.is_some() {
                costs.push(site.start_again(column)?);
            }
        }
    }
    Ok(results)
}

fn print_warm(columns: &[Column], results: &[Vec<Vec<f64>>]) {
    println!(
        "CPU ms of PHP and the database for a page that is not stored, warm; lower quartiles, because other work on the machine only adds\n"
    );
    print!("| settings |");
    for (name, ..) in PAGES {
        print!(" {name} |");
    }
    println!(" all |\n|---|{}", "--:|".repeat(PAGES.len() + 1));
    for (at, column) in columns.iter().enumerate() {
        print!("| {} |", column.title);
        let mut all = 0.0;
        for costs in results {
            let (one, first) = (lower(&costs[at]), lower(&costs[0]));
            let more = (one / first - 1.0) * 100.0;
            print!(" {one:.1} {more:+.1} % |");
            all += more;
        }
        #[expect(clippy::cast_precision_loss, reason = "a few pages")]
        let mean = all / results.len() as f64;
        println!(" {mean:+.1} % |");
    }
}

fn print_cold(columns: &[Column], results: &[Vec<[f64; 2]>]) {
    println!(
        "\nFrom the start of PHP to the end of its first front page: CPU ms of PHP and the database, and milliseconds of the request; medians\n"
    );
    println!("| settings | CPU ms | ms |\n|---|--:|--:|");
    for (column, costs) in columns
        .iter()
        .zip(results)
        .filter(|(_, costs)| !costs.is_empty())
    {
        let of = |at: usize| median(costs.iter().map(move |cost| cost[at]));
        println!("| {} | {:.0} | {:.0} |", column.title, of(0), of(1));
    }
}

fn lower(values: &[f64]) -> f64 {
    Quartiles::of(values.iter().copied()).map_or(f64::NAN, |all| all.lower)
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    Quartiles::of(values).map_or(f64::NAN, |all| all.median)
}

/// Requests of each page before it is measured.
const WARM: usize = 4;
