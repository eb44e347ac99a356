//! What the owner of a site decides about crawlers by name, whether or not they are who they claim to be.

use std::time::Duration;

use super::agent::names;

/// A rule for the crawlers whose `User-Agent` contains a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrawlerRule {
    /// The name; upper and lower case are equal.
    pub name: String,
    /// What they get.
    pub treatment: CrawlerTreatment,
}

/// What a crawler gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrawlerTreatment {
    /// Nothing but `robots.txt`.
    Refuse,
    /// A page that is not stored at most this often.
    Delay(Duration),
}

/// The first rule for a client.
pub fn rule_of<'r>(rules: &'r [CrawlerRule], agent: Option<&[u8]>) -> Option<&'r CrawlerRule> {
    let agent = agent?;
    rules.iter().find(|rule| names(agent, &rule.name))
}

/// Whether a text may be the name of a crawler: three to 64 letters, digits and `-_.+`. A shorter text would be part of
/// most browsers' `User-Agent`.
pub fn is_name(text: &str) -> bool {
    let is_sign = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.+".contains(&byte);
    (3..=64).contains(&text.len()) && text.bytes().all(is_sign)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_name_in_the_agent_decides() {
        let rule = |name: &str, treatment| CrawlerRule {
            name: name.to_owned(),
            treatment,
        };
        let delay = CrawlerTreatment::Delay(Duration::from_secs(5));
        let rules = [
            rule("Bytespider", CrawlerTreatment::Refuse),
            rule("spider", delay),
        ];
        for (agent, wanted) in [
            (
                Some("Mozilla/5.0 (compatible; bytespider)"),
                Some(CrawlerTreatment::Refuse),
            ),
            (Some("Baiduspider/2.0"), Some(delay)),
            (Some("Mozilla/5.0"), None),
            (Some(""), None),
            (None, None),
        ] {
            let found = rule_of(&rules, agent.map(str::as_bytes));
            assert_eq!(found.map(|rule| rule.treatment), wanted, "{agent:?}");
        }
        for (text, is) in [
            ("GPTBot", true),
            ("Google-Extended", true),
            ("a b", false),
            ("AI", false),
            ("", false),
        ] {
            assert_eq!(is_name(text), is, "{text}");
        }
    }
}
