//! Appointments: the moments at which WordPress's scheduler has tasks that visitors wait for. The plugin announces them in
//! the response field `Galley-Cron`: milliseconds from now, separated by commas.

use std::time::Duration;

use http::{HeaderMap, HeaderName};

use crate::tags;

/// The field with the appointments; it is never forwarded.
pub const APPOINTMENTS_FIELD: &str = "galley-cron";

const GALLEY_CRON: HeaderName = HeaderName::from_static(APPOINTMENTS_FIELD);

/// The appointments in a response, soonest first; `None` if it has no such field.
pub fn announced(fields: &HeaderMap) -> Option<Vec<Duration>> {
    let value = fields.get(GALLEY_CRON)?;
    let words = tags::split(value.as_bytes()).filter_map(|word| {
        let text = std::str::from_utf8(word).ok()?;
        text.parse().ok()
    });
    Some(within_bounds(words))
}

/// Converts milliseconds to appointments: at most [`MAX_APPOINTMENTS`], none later than [`LATEST`].
pub fn within_bounds(milliseconds: impl IntoIterator<Item = u64>) -> Vec<Duration> {
    let mut appointments: Vec<Duration> = milliseconds
        .into_iter()
        .map(Duration::from_millis)
        .filter(|left| *left <= LATEST)
        .take(MAX_APPOINTMENTS)
        .collect();
    appointments.sort_unstable();
    appointments
}

/// The maximum number of appointments. A plugin with more announces the rest after the first of these.
pub const MAX_APPOINTMENTS: usize = 8;

/// The latest appointment. Later ones are announced again in time.
pub const LATEST: Duration = Duration::from_secs(366 * 24 * 3600);

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn read(value: &'static str) -> Option<Vec<u64>> {
        let mut fields = HeaderMap::new();
        fields.insert("galley-cron", HeaderValue::from_static(value));
        let found = announced(&fields)?;
        Some(
            found
                .iter()
                .map(|left| u64::try_from(left.as_millis()).unwrap())
                .collect(),
        )
    }

    #[test]
    fn only_numbers_within_the_limits_are_appointments() {
        assert_eq!(announced(&HeaderMap::new()), None);
        assert_eq!(read("5000, 20"), Some(vec![20, 5000]));
        assert_eq!(read("kept"), Some(vec![]));
        assert_eq!(
            read("-1,1.5,x,31622400001,18446744073709551616,7"),
            Some(vec![7])
        );
        assert_eq!(
            read("1,2,3,4,5,6,7,8,9").map(|all| all.len()),
            Some(MAX_APPOINTMENTS)
        );
    }
}
