//! `galley purge`: purges pages, and says how many stored pages that were.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::options::PurgeOptions;
use galley_operator::ask::{AdminAddress, response};
use galley_operator::outcome::talk;
use galley_operator::{ask, show};

/// Runs the command.
pub(super) fn purge(options: &PurgeOptions) -> ExitCode {
    let order = json!({
        "site": options.site,
        "all": options.what.all,
        "urls": options.what.url,
        "tags": options.what.tag,
        "prefixes": options.what.prefix,
        "patterns": options.what.pattern,
        "soft": options.soft,
    });
    let admin = match ask::admin(&options.admin) {
        Ok(admin) => admin,
        Err(error) => return error.report(),
    };
    response(admin.post("/purge", &order), |value| {
        if options.json {
            return show::data(value);
        }
        let pages = match counted_pages(&admin, value) {
            Some((1, true)) => "1 stored page".to_owned(),
            Some((pages, true)) => format!("{pages} stored pages"),
            Some((pages, false)) => format!("at least {pages} stored pages"),
            None => "the pages are still being counted: see `galley dashboard`".to_owned(),
        };
        talk(&format!("{} purge(s) in force, {pages}", value["purges"]));
        if let Some(warning) = value["warning"].as_str() {
            talk(&format!("warning: {warning}"));
        }
        if value["reach"] == "local" {
            talk(LOCAL_PURGE);
        }
    })
}

/// The number of stored pages that the purges of a response took, and whether that is all. The server counts them a moment later.
fn counted_pages(admin: &AdminAddress, purged: &Value) -> Option<(u64, bool)> {
    let deadline = Instant::now() + COUNT_TIME;
    loop {
        let is_late = Instant::now() > deadline;
        let counted = sum(&admin.get("/purges").ok()?, &purged["sites"], is_late);
        if counted.is_some() || is_late {
            return counted;
        }
        std::thread::sleep(POLL);
    }
}

/// The sum of the newest purges by this command, `numbers` of them for each site; `None` while one is not counted. The server does not
/// count all of a hundred: `is_late` makes the sum one of the others, which is not complete.
fn sum(listed: &Value, numbers: &Value, is_late: bool) -> Option<(u64, bool)> {
    let (mut pages, mut is_complete) = (0, true);
    for (name, number) in numbers.as_object()? {
        let number = usize::try_from(number.as_u64()?).ok()?;
        let site = listed["sites"]
            .as_array()?
            .iter()
            .find(|site| site["name"] == **name)?;
        let purges = site["purges"].as_array()?.iter();
        let by_admin: Vec<&Value> = purges
            .filter(|one| one["source"] == "admin")
            .take(number)
            .collect();
        // The list is bounded.
        is_complete &= by_admin.len() == number;
        for one in by_admin {
            match one["pages"].as_u64() {
                Some(counted) => pages += counted,
                None if is_late => is_complete = false,
                None => return None,
            }
            is_complete &= one["complete"] == true;
        }
    }
    Some((pages, is_complete))
}

/// The server counts within a second, unless very many pages are stored.
const COUNT_TIME: Duration = Duration::from_secs(3);

const POLL: Duration = Duration::from_millis(50);

const LOCAL_PURGE: &str = "warning: other nodes of the cluster have not confirmed the purge. They get it when they can: see `galley status`";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_purges_of_the_command_are_summed() {
        let purge = |source: &str, pages: Value| json!({ "source": source, "pages": pages, "complete": true });
        let listed = |newest: Value| {
            let purges = [
                purge("upstream", json!(9)),
                purge("admin", newest),
                purge("admin", json!(3)),
                purge("admin", json!(100)),
            ];
            json!({ "sites": [{ "name": "a", "purges": purges }] })
        };
        assert_eq!(
            sum(&listed(json!(4)), &json!({ "a": 2 }), false),
            Some((7, true))
        );
        assert_eq!(
            sum(&listed(json!(4)), &json!({ "a": 9 }), false),
            Some((107, false))
        );
        assert_eq!(sum(&listed(Value::Null), &json!({ "a": 1 }), false), None);
        assert_eq!(sum(&listed(json!(4)), &json!({ "b": 1 }), false), None);
        // The server never counts all of a hundred.
        let late = sum(&listed(Value::Null), &json!({ "a": 3 }), true);
        assert_eq!(late, Some((103, false)));
    }
}
