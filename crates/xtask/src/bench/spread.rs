//! A figure over several rounds: its median with the least and the most that was seen.

use serde::{Deserialize, Serialize};

/// Median, least and most of the same measurement in several rounds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Spread {
    pub(super) median: f64,
    pub(super) least: f64,
    pub(super) most: f64,
}

impl Spread {
    /// `None` without any value. Of an even number of values the median is the mean of the middle two.
    pub(super) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let middle = values.len() / 2;
        let (least, most) = (*values.first()?, *values.last()?);
        let upper = *values.get(middle)?;
        let median = if values.len() % 2 == 1 {
            upper
        } else {
            f64::midpoint(*values.get(middle - 1)?, upper)
        };
        Some(Self {
            median,
            least,
            most,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_few_values() {
        let rows: [(&[f64], _); 4] = [
            (&[], None),
            (&[3.0], Some((3.0, 3.0, 3.0))),
            (&[4.0, 1.0], Some((2.5, 1.0, 4.0))),
            (&[9.0, 1.0, 2.0], Some((2.0, 1.0, 9.0))),
        ];
        for (values, wanted) in rows {
            let got = Spread::of(values.iter().copied());
            assert_eq!(got.map(|it| (it.median, it.least, it.most)), wanted);
        }
    }
}
