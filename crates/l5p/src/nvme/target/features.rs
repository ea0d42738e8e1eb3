//! Features that every I/O controller has, and whose values change nothing here (Base 2.0c §5.27.1): kept for the host.

use wire::nvme::command::{Feature, Status};

/// Bits 2:0 of Arbitration: no limit on commands at once.
const NO_LIMIT: u32 = 0b111;
/// Error Recovery's DULBE, which no namespace here supports (bit 2 of NSFEAT).
const DEALLOCATED_ERROR: u32 = 1 << 16;
/// TMPSEL of Temperature Threshold: of the composite temperature, and of all.
const COMPOSITE: u32 = 0;
const ALL_SENSORS: u32 = 0xf;

/// Their values.
#[derive(Clone, Copy, Debug)]
pub(super) struct Features {
    arbitration: u32,
    power: u32,
    over_temperature: u32,
    under_temperature: u32,
    error_recovery: u32,
}

impl Default for Features {
    fn default() -> Features {
        Features {
            arbitration: NO_LIMIT,
            power: 0,
            // Of no temperature that there is.
            over_temperature: 0xffff,
            under_temperature: 0,
            error_recovery: 0,
        }
    }
}

impl Features {
    /// The value of a feature, of which `selected` is dword 11.
    ///
    /// # Errors
    /// When it is another feature, or there is no such sensor.
    pub(super) fn get(&self, feature: Feature, selected: u32) -> Result<u32, Status> {
        match (feature, threshold(selected)) {
            (Feature::ARBITRATION, _) => Ok(self.arbitration),
            (Feature::POWER_MANAGEMENT, _) => Ok(self.power),
            (Feature::ERROR_RECOVERY, _) => Ok(self.error_recovery),
            (Feature::TEMPERATURE_THRESHOLD, (COMPOSITE, 0)) => Ok(self.over_temperature),
            (Feature::TEMPERATURE_THRESHOLD, (COMPOSITE, 1)) => Ok(self.under_temperature),
            _ => Err(Status::INVALID_FIELD.do_not_retry()),
        }
    }

    /// Sets a feature.
    ///
    /// # Errors
    /// When it is another feature, or can't have the value.
    pub(super) fn set(&mut self, feature: Feature, value: u32) -> Result<(), Status> {
        let kelvins = value & 0xffff;
        match (feature, threshold(value)) {
            (Feature::ARBITRATION, _) => self.arbitration = value & !0xf8,
            // There is one power state.
            (Feature::POWER_MANAGEMENT, _) if value & 0x1f == 0 => self.power = value & 0xe0,
            (Feature::ERROR_RECOVERY, _) if value & DEALLOCATED_ERROR == 0 => {
                self.error_recovery = value & 0xffff;
            }
            (Feature::TEMPERATURE_THRESHOLD, (COMPOSITE | ALL_SENSORS, 0)) => {
                self.over_temperature = kelvins;
            }
            (Feature::TEMPERATURE_THRESHOLD, (COMPOSITE | ALL_SENSORS, 1)) => {
                self.under_temperature = kelvins;
            }
            _ => return Err(Status::INVALID_FIELD.do_not_retry()),
        }
        Ok(())
    }
}

/// Which threshold dword 11 of Temperature Threshold is about: TMPSEL and THSEL.
fn threshold(dword: u32) -> (u32, u32) {
    (dword >> 16 & 0xf, dword >> 20 & 0b11)
}
