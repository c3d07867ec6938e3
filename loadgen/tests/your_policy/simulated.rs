use std::error::Error;
use std::ops::ControlFlow;

use psp_policy::Policy;
use psp_sim::simulator::{Outcome, SimPlan, simulate};
use psp_sim::workload::Workload;

use crate::longest_queue_first::longest_queue_first;

/// 14 workers at 80 % load. Of 1000 requests, 995 take 0.5 us and 5 take 500 us.
pub fn simulated(policy: Policy) -> Result<Outcome, Box<dyn Error>> {
    let workload = Workload::named("extreme-bimodal")?;
    let plan = SimPlan::new(workload, policy, 14, 0.8).requests(200_000);
    Ok(simulate(&plan, &mut |_| ControlFlow::Continue(()))?)
}

#[test]
fn the_many_short_requests_go_first() -> Result<(), Box<dyn Error>> {
    let (longest, arrival) = (simulated(longest_queue_first())?, simulated(Policy::c_fcfs())?);
    let [longest, arrival] = [longest, arrival].map(|outcome| {
        assert_eq!(outcome.completed + outcome.rejected, 200_000);
        outcome.types[0].slowdown.mean()
    });
    println!("mean slowdown of short requests: {longest:.1}, in order of arrival {arrival:.1}");
    assert!(longest < 0.9 * arrival);
    Ok(())
}
