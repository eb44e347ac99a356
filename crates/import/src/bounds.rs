//! Values outside of the bounds of Galley's options: they become the nearest permitted ones, and the report says so.

use galley_config::{
    OptionSection, ValueKind, options, parse_duration, parse_size, write_duration, write_size,
};

use crate::draft::{Draft, Section, Setting, Value};
use crate::report::Report;

/// Changes every value outside of the bounds of its option, and reports the statements that it comes from.
pub(crate) fn clamp(draft: &mut Draft, report: &Report) {
    clamp_section(OptionSection::Server, &mut draft.server, report);
    clamp_section(OptionSection::Cache, &mut draft.cache, report);
    for site in &mut draft.sites {
        clamp_section(OptionSection::Site, &mut site.section, report);
        clamp_section(OptionSection::SiteTtl, &mut site.ttl, report);
        for rule in &mut site.rules {
            clamp_section(OptionSection::SiteRule, &mut rule.section, report);
        }
    }
}

fn clamp_section(section: OptionSection, own: &mut Section, report: &Report) {
    for setting in &mut own.settings {
        // Lifetimes by status have the bounds of that for all others.
        let name = match section {
            OptionSection::SiteTtl => "default",
            _ => &setting.name,
        };
        let row = options().find(|row| row.section == section && row.name == name);
        let nearest = row.and_then(|row| nearest(row.kind, setting));
        let Some(nearest) = nearest else {
            continue;
        };
        for origin in &setting.origins {
            let remedy = format!(
                "set to `{nearest}`, the nearest value that Galley's `{}` may have",
                setting.name
            );
            report.changed(origin, &setting.name, &remedy);
        }
        setting.value = Value::Text(nearest);
    }
}

/// The nearest permitted value. `None`: that of the setting is permitted, or has no bounds.
fn nearest(kind: ValueKind, setting: &Setting) -> Option<String> {
    let Value::Text(text) = &setting.value else {
        return None;
    };
    match kind {
        ValueKind::Time { least, most } | ValueKind::TimeOrOff { least, most } if text != "off" => {
            let duration = parse_duration(text).unwrap_or(most);
            let near = duration.clamp(least, most);
            (near != duration || parse_duration(text).is_none()).then(|| write_duration(near))
        }
        ValueKind::Size { least, most } | ValueKind::SizeOrOff { least, most } if text != "off" => {
            let bytes = parse_size(text).unwrap_or(most);
            let near = bytes.clamp(least, most);
            (near != bytes || parse_size(text).is_none()).then(|| write_size(near))
        }
        _ => None,
    }
}
