//! Determines why the target could not process more, from samples of the machine around that time.

use serde::{Deserialize, Serialize};

/// The state of the testing machine; shares and rates are since the previous sample.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct MachineSample {
    /// The time in seconds since the start of the run.
    pub at_s: f64,
    /// Processor time of the load test, in cores.
    pub client_cores: f64,
    /// The busy share of all processors of the machine.
    pub busy: Option<f64>,
    /// Processor time of database servers on the machine, in cores.
    pub database_cores: Option<f64>,
    /// Processor time of PHP on the machine, in cores.
    pub php_cores: Option<f64>,
    /// The number of requests at the upstreams of the local Galley.
    pub php_in_flight: Option<u64>,
    /// The maximum number of requests there.
    pub php_slots: Option<u64>,
    /// The number of requests that wait for a slot.
    pub php_waiting: Option<u64>,
    /// The used share of the speed of the busiest network interface, if the target is on another machine.
    pub network: Option<f64>,
}

/// The resource that limited the target at the knee.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KneeCause {
    /// The load test used a whole core: the target may be able to process more.
    Client,
    /// All PHP slots were in use.
    PhpSlots,
    /// All PHP slots were in use, and the database used more processor time than PHP.
    Database,
    /// The processors of this machine were busy.
    Cpu,
    /// The network interface was busy.
    Network,
    /// No sample explains it.
    Unknown,
}

impl KneeCause {
    /// The cause as text.
    pub fn words(self) -> &'static str {
        match self {
            Self::Client => {
                "the load test itself: it used a whole core, and the server may hold more"
            }
            Self::PhpSlots => "PHP: all slots were in use",
            Self::Database => {
                "the database: all PHP slots were in use, and it used more processor time than PHP"
            }
            Self::Cpu => "the processors of this machine",
            Self::Network => "the network",
            Self::Unknown => "unknown",
        }
    }

    /// The cause at the end of a sentence.
    pub(super) fn limit(self) -> &'static str {
        match self {
            Self::Client => "the limit is the load test itself, so the server may hold more",
            Self::PhpSlots => "the limit is PHP",
            Self::Database => "the limit is the database",
            Self::Cpu => "the limit is the processors of this machine",
            Self::Network => "the limit is the network",
            Self::Unknown => "the limit is unknown",
        }
    }

    /// Determines the cause from the samples and from the second in which the target failed to keep up.
    #[expect(clippy::cast_precision_loss, reason = "seconds of a run")]
    pub fn of(samples: &[MachineSample], broke_at: usize) -> Self {
        let from = broke_at as f64 - BEFORE_S;
        let around: Vec<&MachineSample> = samples
            .iter()
            .filter(|sample| (from..=broke_at as f64 + AFTER_S).contains(&sample.at_s))
            .collect();
        let mostly = |holds: &dyn Fn(&MachineSample) -> bool| {
            let count = around.iter().filter(|sample| holds(sample)).count();
            !around.is_empty() && count * 2 > around.len()
        };
        let over = |value: Option<f64>, limit: f64| value.is_some_and(|value| value >= limit);
        if mostly(&|sample| sample.client_cores >= WHOLE_CORE) {
            return Self::Client;
        }
        if mostly(&|sample| sample.has_full_slots()) {
            let is_database = mostly(&|sample| {
                let php = sample.php_cores.unwrap_or_default();
                sample.database_cores.is_some_and(|cores| cores > php)
            });
            return if is_database {
                Self::Database
            } else {
                Self::PhpSlots
            };
        }
        if mostly(&|sample| over(sample.busy, BUSY)) {
            return Self::Cpu;
        }
        if mostly(&|sample| over(sample.network, BUSY)) {
            return Self::Network;
        }
        Self::Unknown
    }
}

impl MachineSample {
    fn has_full_slots(&self) -> bool {
        let is_full = match (self.php_in_flight, self.php_slots) {
            (Some(used), Some(slots)) => slots > 0 && used >= slots,
            _ => false,
        };
        is_full || self.php_waiting.is_some_and(|waiting| waiting > 0)
    }
}

/// The time before and after the failure whose samples count, in seconds.
const BEFORE_S: f64 = 1.0;
const AFTER_S: f64 = 3.0;
/// A single thread uses at most 1.
const WHOLE_CORE: f64 = 0.93;
const BUSY: f64 = 0.93;

#[cfg(test)]
mod tests {
    use super::*;

    fn cause(sample: MachineSample) -> KneeCause {
        let samples: Vec<MachineSample> = (0..20)
            .map(|second| {
                let at_s = f64::from(second);
                // Away from the knee there is no problem.
                let sample = if (9..=13).contains(&second) {
                    sample
                } else {
                    MachineSample::default()
                };
                MachineSample { at_s, ..sample }
            })
            .collect();
        KneeCause::of(&samples, 10)
    }

    #[test]
    fn each_cause_is_recognized() {
        let idle = MachineSample {
            client_cores: 0.2,
            busy: Some(0.4),
            database_cores: Some(0.1),
            php_cores: Some(0.3),
            php_in_flight: Some(2),
            php_slots: Some(8),
            php_waiting: Some(0),
            network: Some(0.1),
            ..MachineSample::default()
        };
        let full = MachineSample {
            php_in_flight: Some(8),
            busy: Some(0.99),
            ..idle
        };
        for (sample, wanted) in [
            (idle, KneeCause::Unknown),
            (MachineSample::default(), KneeCause::Unknown),
            (
                MachineSample {
                    client_cores: 0.98,
                    ..full
                },
                KneeCause::Client,
            ),
            (full, KneeCause::PhpSlots),
            (
                MachineSample {
                    php_waiting: Some(3),
                    ..idle
                },
                KneeCause::PhpSlots,
            ),
            (
                MachineSample {
                    database_cores: Some(0.9),
                    ..full
                },
                KneeCause::Database,
            ),
            (
                MachineSample {
                    busy: Some(0.97),
                    ..idle
                },
                KneeCause::Cpu,
            ),
            (
                MachineSample {
                    network: Some(0.97),
                    ..idle
                },
                KneeCause::Network,
            ),
        ] {
            assert_eq!(cause(sample), wanted, "{sample:?}");
        }
        assert_eq!(KneeCause::of(&[], 3), KneeCause::Unknown);
    }
}
