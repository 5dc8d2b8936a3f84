use std::time::Duration;

use fleetbeat_liveness::Moment;

/// What waits in the socket is read within this, by a process that runs.
const LAST_LOOK_LEAST: Duration = Duration::from_millis(20);
/// However long the process did not run, what waits in the socket is read within this.
const LAST_LOOK_MOST: Duration = Duration::from_secs(1);
/// A look that ended so much later than it should was slept through.
const SLEPT_THROUGH: Duration = Duration::from_millis(50);
/// An agent that is stopped again and again judges all the same.
const LOOKS_MOST: u32 = 3;

/// Decides when the server has been silent for too long. An agent may have been stopped until just then,
/// so it always looks once more at what arrived meanwhile; the longer it was late, the longer.
#[derive(Debug)]
pub(super) struct Judge {
    heard: Moment,
    last_look: Option<Moment>,
    looks: u32,
}

impl Judge {
    pub(super) fn new(now: Moment) -> Self {
        Self {
            heard: now,
            last_look: None,
            looks: 0,
        }
    }

    /// Something valid arrived.
    pub(super) fn heard(&mut self, now: Moment) {
        self.heard = now;
        self.last_look = None;
        self.looks = 0;
    }

    pub(super) fn due(&self, dead_after: Duration) -> Moment {
        self.last_look.unwrap_or(self.heard + dead_after)
    }

    /// Whether the server counts as silent.
    pub(super) fn convicts(&mut self, now: Moment, dead_after: Duration) -> bool {
        let due = self.due(dead_after);
        if now < due {
            return false;
        }
        let late = now.since(due);
        let looked = self.last_look.is_some() && late <= SLEPT_THROUGH;
        if looked || self.looks == LOOKS_MOST {
            return true;
        }
        self.looks += 1;
        self.last_look = Some(now + late.clamp(LAST_LOOK_LEAST, LAST_LOOK_MOST));
        false
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use fleetbeat_liveness::Moment;

    use super::Judge;

    const DEAD_AFTER: Duration = Duration::from_secs(7);

    fn ms(ms: u64) -> Moment {
        Moment::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn silence_is_judged_at_its_time_and_never_before() {
        let mut judge = Judge::new(ms(0));
        judge.heard(ms(500));
        assert_eq!(judge.due(DEAD_AFTER), ms(7_500));
        assert!(!judge.convicts(ms(7_499), DEAD_AFTER));
        assert!(!judge.convicts(ms(7_500), DEAD_AFTER), "one more look");
        assert_eq!(judge.due(DEAD_AFTER), ms(7_520));
        assert!(judge.convicts(ms(7_520), DEAD_AFTER));
    }

    /// Found by simulation: a stop that ends within moments of the deadline leaves as much unread as any.
    #[test]
    fn an_agent_that_was_stopped_until_the_deadline_reads_before_it_judges() {
        let mut judge = Judge::new(ms(0));
        assert!(!judge.convicts(ms(7_001), DEAD_AFTER));
        judge.heard(ms(7_002));
        assert!(!judge.convicts(ms(7_021), DEAD_AFTER));
        assert_eq!(judge.due(DEAD_AFTER), ms(14_002));
    }

    #[test]
    fn an_agent_that_was_stopped_reads_before_it_judges() {
        let mut judge = Judge::new(ms(0));
        assert!(!judge.convicts(ms(40_000), DEAD_AFTER));
        assert_eq!(judge.due(DEAD_AFTER), ms(41_000));
        judge.heard(ms(40_001));
        assert_eq!(judge.due(DEAD_AFTER), ms(47_001));
    }

    #[test]
    fn nothing_to_read_after_a_stop_convicts_once_that_is_known() {
        let mut judge = Judge::new(ms(0));
        assert!(!judge.convicts(ms(7_300), DEAD_AFTER));
        assert_eq!(judge.due(DEAD_AFTER), ms(7_600));
        assert!(judge.convicts(ms(7_601), DEAD_AFTER));
    }

    /// Found by simulation: a stop in the middle of the last look leaves as much unread, but not for ever.
    #[test]
    fn a_look_that_was_slept_through_is_taken_again_a_few_times() {
        let mut judge = Judge::new(ms(0));
        assert!(!judge.convicts(ms(7_000), DEAD_AFTER));
        assert!(!judge.convicts(ms(7_440), DEAD_AFTER), "slept through");
        judge.heard(ms(7_441));
        assert_eq!(judge.due(DEAD_AFTER), ms(14_441));
        let stops = [14_441, 20_000, 30_000, 40_000];
        let convicts = stops.map(|stop| judge.convicts(ms(stop), DEAD_AFTER));
        assert_eq!(convicts, [false, false, false, true]);
    }
}
