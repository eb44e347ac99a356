//! Fields that a site or a rule changes about answers.

use galley_policy::headers::{self, Change, Changes, Field, FieldName};

use crate::check::path;
use crate::complaint::{Complaints, Place};
use crate::options::Section;
use crate::tree::Given;

/// `remove_headers`, `set_headers` and `add_headers` of a site or a rule.
pub(crate) fn changes(given: &Given, complaints: &mut Complaints) -> Changes {
    let removed: Vec<(Place, FieldName)> = given.given("remove_headers").unwrap_or_default();
    for (place, name) in &removed {
        check(
            given,
            "remove_headers",
            (place, name),
            Change::Remove,
            complaints,
        );
    }
    let mut fields = |option: &str, change| -> Vec<Field> {
        let all: Vec<(Place, Field)> = given.given(option).unwrap_or_default();
        for (place, (name, _)) in &all {
            check(given, option, (place, name), change, complaints);
        }
        all.into_iter().map(|(_, field)| field).collect()
    };
    Changes {
        set: fields("set_headers", Change::Set),
        add: fields("add_headers", Change::Add),
        remove: given.value("remove_headers"),
    }
}

fn check(
    given: &Given,
    option: &str,
    (place, name): (&Place, &FieldName),
    change: Change,
    complaints: &mut Complaints,
) {
    let Some(why) = headers::refusal(name, change) else {
        return;
    };
    let option = path(given, option);
    let message = format!("`{option}` names `{name}`, {why}");
    let help = match given.section {
        Section::SiteRule => "take it out of the rule",
        _ => "take it out",
    };
    complaints.add(place, option, message, help);
}
