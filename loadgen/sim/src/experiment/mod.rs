//! Experiments on the simulator: settings by name, capacity search, calibration, and reports of results.

mod calibration;
mod calibration_report;
mod capacity;
mod capacity_report;
mod conditions;
mod quantiles;
mod settings;
mod sim_report;
mod staffing;
mod type_hint;

pub use calibration::{Isolated, isolated, isolated_plan};
pub use calibration_report::{CALIBRATION_SCHEMA, Calibration, CalibrationReport, TypeCalibration};
pub use capacity::{CAPACITY_MIN, Capacity, CapacityError, Miss, Scope, Slo, Tolerance, capacity};
pub use capacity_report::{CAPACITY_SCHEMA, CapacityReport, CapacityResult};
pub use conditions::{Conditions, Found};
pub use quantiles::Quantiles;
pub use settings::{Assignment, SettingError, SimSettings};
pub use sim_report::{ElasticPoint, Overall, Point, SIM_SCHEMA, SimReport, TypePoint};
pub use staffing::{TailGoal, workers_needed};
pub use type_hint::TypeHint;
