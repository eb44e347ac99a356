//! Header fields of responses that a site or a rule changes.

use galley_policy::headers::{self, Changes, FieldChange, FieldName, HeaderField};

use crate::complaint::{Complaints, SourceSpan};
use crate::options::OptionSection;
use crate::tree::SectionTable;

/// `remove_headers`, `set_headers` and `add_headers` of a site or a rule.
pub(crate) fn changes(given: &SectionTable, complaints: &mut Complaints) -> Changes {
    let help = match given.section {
        OptionSection::SiteRule => "remove it from the rule",
        _ => "remove it",
    };
    let mut check = |option: &str, place: &SourceSpan, name: &FieldName, change| {
        if let Some(why) = headers::refusal(name, change) {
            let option = given.path(option);
            let message = format!("`{option}` names `{name}`, {why}");
            complaints.add(place, option, message, help);
        }
    };
    let removed: Vec<(SourceSpan, FieldName)> = given.given("remove_headers").unwrap_or_default();
    for (place, name) in &removed {
        check("remove_headers", place, name, FieldChange::Remove);
    }
    let mut fields = |option: &str, change| -> Vec<HeaderField> {
        let all: Vec<(SourceSpan, HeaderField)> = given.given(option).unwrap_or_default();
        for (place, (name, _)) in &all {
            check(option, place, name, change);
        }
        all.into_iter().map(|(_, field)| field).collect()
    };
    Changes {
        set: fields("set_headers", FieldChange::Set),
        add: fields("add_headers", FieldChange::Add),
        remove: given.value("remove_headers"),
    }
}
