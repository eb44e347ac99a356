//! A figure over several slices: its median and quartiles.

use serde::{Deserialize, Serialize};

/// Median and quartiles of the same measurement in several slices.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Half of the values is below it.
    pub median: f64,
    /// A quarter of the values is below it.
    pub lower: f64,
    /// A quarter of the values is above it.
    pub upper: f64,
}

impl Spread {
    /// `None` without any value. Between two values it lies as far as its share says.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let last = values.len().checked_sub(1)?;
        let quarter = |quarters: usize| {
            let (at, rest) = (last * quarters / 4, last * quarters % 4);
            let low = values.get(at).copied()?;
            let high = values.get(at + 1).copied().unwrap_or(low);
            Some(low + (high - low) * f64::from(u8::try_from(rest).ok()?) / 4.0)
        };
        Some(Self {
            median: quarter(2)?,
            lower: quarter(1)?,
            upper: quarter(3)?,
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
            (&[4.0, 1.0], Some((2.5, 1.75, 3.25))),
            (&[9.0, 1.0, 2.0], Some((2.0, 1.5, 5.5))),
        ];
        for (values, wanted) in rows {
            let got = Spread::of(values.iter().copied());
            assert_eq!(got.map(|it| (it.median, it.lower, it.upper)), wanted);
        }
    }
}
