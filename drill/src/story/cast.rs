/// The group that is retuned live.
pub(super) const RETUNED: &str = "web";
/// The other group keeps the fleet's tuning.
pub(super) const STEADY: &str = "db";
pub(super) const GROUPS: [&str; 2] = [RETUNED, STEADY];
/// Real agents that the scenes need: one to freeze, one to kill, one to restart.
pub(super) const LEAST_AGENTS: usize = 4;

/// A real agent process.
#[derive(Debug, Clone)]
pub(super) struct Actor {
    pub(super) name: String,
    pub(super) group: &'static str,
}

/// Real agents, dealt to the groups in turn: web-1, db-1, web-2, …
pub(super) fn cast(agents: usize) -> Vec<Actor> {
    let groups = GROUPS.iter().copied().cycle();
    let numbered = groups.zip(0..agents.max(LEAST_AGENTS));
    numbered
        .map(|(group, index)| Actor {
            name: format!("{group}-{}", index / 2 + 1),
            group,
        })
        .collect()
}

/// Frozen with SIGSTOP.
pub(super) const FROZEN: &str = "db-1";
/// Killed with SIGKILL.
pub(super) const KILLED: &str = "web-1";
/// Restarted while Postgres is away.
pub(super) const RESTARTED: &str = "db-2";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_cast_has_everyone_that_the_scenes_name() {
        let names: Vec<_> = cast(0).into_iter().map(|actor| actor.name).collect();
        assert!(
            [FROZEN, KILLED, RESTARTED]
                .iter()
                .all(|name| names.iter().any(|one| one == name))
        );
    }

    #[test]
    fn names_are_given_once() {
        let mut names: Vec<_> = cast(9).into_iter().map(|actor| actor.name).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 9);
    }
}
