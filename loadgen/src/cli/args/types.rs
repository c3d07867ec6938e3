//! The options that tell policies something about types, in place of what the workloads say.

use anyhow::bail;
use clap::Args;
use psp_sim::experiment::TypeHint;

use crate::cli::args::experiment::Experiment;

#[derive(Debug, Args)]
pub(crate) struct TypeArgs {
    /// SLOs of types in microseconds, separated by commas, for policies that weigh by them; `psp-loadgen calibrate`
    /// prints some
    #[arg(
        long, value_name = "TYPE=US", value_delimiter = ',', value_parser = slo_us, help_heading = "Simulation"
    )]
    slo_us: Vec<TypeHint>,
    /// Weights of types under wrr, separated by commas: requests that a type may start in its turn [default: 1 each]
    #[arg(
        long, value_name = "TYPE=N", value_delimiter = ',', value_parser = weight, help_heading = "Simulation"
    )]
    weight: Vec<TypeHint>,
}

/// A day, in microseconds.
const DAY_US: f64 = 8.64e10;

fn slo_us(text: &str) -> Result<TypeHint, String> {
    let (name, slo_us) = split(text)?;
    let slo_us = slo_us.parse().ok();
    slo_us
        .filter(|slo_us| (0.001..=DAY_US).contains(slo_us))
        .map(|slo_us| TypeHint::slo_us(name, slo_us))
        .ok_or_else(|| "expected microseconds from 0.001 to a day".to_owned())
}

fn weight(text: &str) -> Result<TypeHint, String> {
    let (name, weight) = split(text)?;
    let weight = weight.parse().ok();
    weight
        .filter(|weight| *weight > 0)
        .map(|weight| TypeHint::weight(name, weight))
        .ok_or_else(|| "expected a whole number from 1".to_owned())
}

fn split(text: &str) -> Result<(&str, &str), String> {
    text.rsplit_once('=')
        .filter(|(name, _)| !name.is_empty())
        .ok_or_else(|| "expected a type and a number, such as short=3".to_owned())
}

impl TypeArgs {
    /// Puts the hints into the workloads of all plans. Each type has to be in one of them.
    pub(crate) fn apply(&self, experiment: &mut Experiment) -> anyhow::Result<()> {
        for hint in self.slo_us.iter().chain(&self.weight) {
            let mut is_known = false;
            for plan in &mut experiment.plans {
                is_known |= hint.apply(&mut plan.workload);
            }
            if !is_known {
                bail!("no workload has a type `{}`", hint.name);
            }
            experiment.conditions.types.push(hint.clone());
        }
        Ok(())
    }
}
