//! Median and quartiles of repeated measurements.

use serde::{Deserialize, Serialize};

/// Median and quartiles of the values of a repeated measurement.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Quartiles {
    /// The median.
    pub median: f64,
    /// The lower quartile.
    pub lower: f64,
    /// The upper quartile.
    pub upper: f64,
}

impl Quartiles {
    /// Computes the quartiles, with linear interpolation between values; `None` without values.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let last = values.len().checked_sub(1)?;
        let quartile = |number: usize| {
            let (index, fourths) = (last * number / 4, last * number % 4);
            let low = values.get(index).copied()?;
            let high = values.get(index + 1).copied().unwrap_or(low);
            Some(low + (high - low) * f64::from(u8::try_from(fourths).ok()?) / 4.0)
        };
        Some(Self {
            median: quartile(2)?,
            lower: quartile(1)?,
            upper: quartile(3)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_of_few_values_are_interpolated() {
        let rows: [(&[f64], _); 4] = [
            (&[], None),
            (&[3.0], Some((3.0, 3.0, 3.0))),
            (&[4.0, 1.0], Some((2.5, 1.75, 3.25))),
            (&[9.0, 1.0, 2.0], Some((2.0, 1.5, 5.5))),
        ];
        for (values, expected) in rows {
            let spread = Quartiles::of(values.iter().copied());
            assert_eq!(
                spread.map(|spread| (spread.median, spread.lower, spread.upper)),
                expected
            );
        }
    }
}
