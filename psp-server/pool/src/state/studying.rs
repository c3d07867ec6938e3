//! Studies that the scheduler asks for, and what comes of them.

use psp_policy::{Findings, Study};

use super::parts::Left;
use super::scheduling::State;

impl State {
    /// A study that begins, if the scheduler asks for one.
    pub(crate) fn study(&mut self) -> Option<Study> {
        if self.is_over || !self.studies.pace.may_begin(self.seen_ns) {
            return None;
        }
        let study = self.scheduler.study()?;
        self.studies.pace.begins(self.seen_ns);
        Some(study)
    }

    /// The study has ended; without findings if it panicked.
    pub(crate) fn conclude(&mut self, now_ns: u64, findings: Option<&Findings>, left: &mut Left) {
        let ended = self.studies.pace.ends(now_ns);
        if let Some(findings) = findings {
            self.studies.ended += 1;
            self.studies.findings = Some(findings.to_string());
        }
        if ended.is_wanted {
            self.tell(now_ns, findings, left);
        }
    }

    /// The system has no thread for the study.
    pub(crate) fn study_is_refused(&mut self, now_ns: u64, left: &mut Left) {
        self.studies.pace.refused(now_ns);
        self.tell(now_ns, None, left);
    }

    fn tell(&mut self, now_ns: u64, findings: Option<&Findings>, left: &mut Left) {
        if self.is_over {
            // What the scheduler has is given up.
            return;
        }
        self.seen_ns = self.seen_ns.max(now_ns);
        self.scheduler.conclude(self.seen_ns, findings);
        self.run_what_can(left);
    }
}
