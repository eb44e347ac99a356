//! Header fields of responses that a site or a rule changes.

use galley_policy::headers::{self, Changes, FieldChange, FieldName, HeaderField};

use crate::diagnostic::{Diagnostics, SourceSpan};
use crate::options::OptionSection;
use crate::tree::SectionTable;

/// `remove_headers`, `set_headers` and `add_headers` of a site or a rule.
pub(crate) fn changes(section: &SectionTable, diagnostics: &mut Diagnostics) -> Changes {
    let help = match section.kind {
        OptionSection::SiteRule => "remove it from the rule",
        _ => "remove it",
    };
    let mut check = |option: &str, position: &SourceSpan, name: &FieldName, change| {
        if let Some(why) = headers::refusal(name, change) {
            let option = section.path(option);
            let message = format!("`{option}` names `{name}`, {why}");
            diagnostics.add(position, option, message, help);
        }
    };
    let removed: Vec<(SourceSpan, FieldName)> = section.get("remove_headers").unwrap_or_default();
    for (position, name) in &removed {
        check("remove_headers", position, name, FieldChange::Remove);
    }
    let mut fields = |option: &str, change| -> Vec<HeaderField> {
        let headers: Vec<(SourceSpan, HeaderField)> = section.get(option).unwrap_or_default();
        for (position, (name, _)) in &headers {
            check(option, position, name, change);
        }
        headers.into_iter().map(|(_, field)| field).collect()
    };
    Changes {
        set: fields("set_headers", FieldChange::Set),
        add: fields("add_headers", FieldChange::Add),
        remove: section.value("remove_headers"),
    }
}
