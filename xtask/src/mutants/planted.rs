//! The planted bugs.

/// One change of the product's text. A bug may need several.
pub(super) struct Edit {
    /// Tells the bug from others.
    pub bug: &'static str,
    pub file: &'static str,
    /// Must be there exactly once.
    pub find: &'static str,
    /// Takes its place; `BUG` is true while the bug is on.
    pub put: &'static str,
}

pub(super) const EDITS: &[Edit] = &[
    Edit {
        bug: "fence check removed",
        file: "server/src/registry/opening.rs",
        find: "            (judged, _) => judged,",
        put: "            (Claim::Stale { .. }, None) if BUG => Claim::Takeover,
            (judged, _) => judged,",
    },
    Edit {
        bug: "fence check removed",
        file: "server/src/registry/opening.rs",
        find: "        let below = state.fence.filter(|known| opening.fence <= *known);",
        put: "        let below = state.fence.filter(|known| !BUG && opening.fence <= *known);",
    },
    Edit {
        bug: "recorded fence forgotten",
        file: "server/src/registry/roster.rs",
        find: "        state.fence = state.fence.max(Some(known.fence));",
        put: "        if !BUG {
            state.fence = state.fence.max(Some(known.fence));
        }",
    },
    Edit {
        bug: "twins both seated",
        file: "liveness/src/fence.rs",
        find: "        return Claim::Twins;",
        put: "        return if BUG { Claim::Takeover } else { Claim::Twins };",
    },
    Edit {
        bug: "old session's end unseats the new one",
        file: "server/src/registry/ending.rs",
        find: "            && state.seats(session)
        {
            self.unseat(",
        put: "            && (BUG || state.seats(session))
        {
            self.unseat(",
    },
    Edit {
        bug: "ending counted twice",
        file: "server/src/registry/ending.rs",
        find: "        session.meter.closed(reason);",
        put: "        session.meter.closed(reason);
        if BUG && reason == CloseReason::Superseded {
            session.meter.closed(reason);
        }",
    },
    Edit {
        bug: "ending without Goodbye is offline at once",
        file: "server/src/registry/ending.rs",
        find: "        CloseReason::MissedHeartbeats => Verdict::Offline,",
        put: "        CloseReason::TransportError if BUG => Verdict::Offline,
        CloseReason::MissedHeartbeats => Verdict::Offline,",
    },
    Edit {
        bug: "no grace after absence",
        file: "server/src/registry/roster.rs",
        find: "            state.decide_at = Some(decide_at);",
        put: "            state.decide_at = Some(if BUG { Moment::ZERO } else { decide_at });",
    },
    Edit {
        bug: "deadline shortened before the ack",
        file: "liveness/src/retune.rs",
        find: "        self.expectation = self.expectation.component_max(newest.tuning.expectation());",
        put: "        self.expectation = if BUG {
            newest.tuning.expectation()
        } else {
            self.expectation.component_max(newest.tuning.expectation())
        };",
    },
    Edit {
        bug: "old ack lowers the deadline",
        file: "liveness/src/retune.rs",
        find: "        if answer.revision != newest.revision || answer.hash != newest.hash() {",
        put: "        if !BUG && (answer.revision != newest.revision || answer.hash != newest.hash()) {",
    },
    Edit {
        bug: "parked deadline left parked",
        file: "server/src/registry/standing.rs",
        find: "            .mark(session, &session.answered, session.agent.number);
        self.touch(&session.agent);",
        put: "            .mark(session, &session.answered, session.agent.number);
        if BUG {
            self.record.mark(&session.agent, &session.agent.recorded, session.agent.number);
        } else {
            self.touch(&session.agent);
        }",
    },
    Edit {
        bug: "a lane's stall ignored",
        file: "server/src/registry/lane_gauge.rs",
        find: "        let stall = self.deafness.lock().observe(now, due);",
        put: "        let stall = self.deafness.lock().observe(now, if BUG { now } else { due });",
    },
    Edit {
        bug: "a lane's stall ignored",
        file: "server/src/registry/lane_gauge.rs",
        find: "        self.idle(now) > OVERDUE || now",
        put: "        if BUG {
            return false;
        }
        self.idle(now) > OVERDUE || now",
    },
    Edit {
        bug: "a lane's stall ignored",
        file: "server/src/registry/lane_gauge.rs",
        find: "        self.idle(now) > BEHIND",
        put: "        if BUG {
            return false;
        }
        self.idle(now) > BEHIND",
    },
    Edit {
        bug: "the judge's own stall ignored",
        file: "server/src/judge.rs",
        find: "self.registry.judged_at(now, self.due)",
        put: "self.registry.judged_at(now, if BUG { now } else { self.due })",
    },
    Edit {
        bug: "no grace after deafness",
        file: "liveness/src/deafness.rs",
        find: "        self.ended + self.ended.since(self.began).min(GRACE_MOST)",
        put: "        if BUG {
            return self.ended;
        }
        self.ended + self.ended.since(self.began).min(GRACE_MOST)",
    },
    Edit {
        bug: "a hold never ends",
        file: "liveness/src/hold.rs",
        find: "if self.recovered(&held) && self.holds() => {",
        put: "if !BUG && self.recovered(&held) && self.holds() => {",
    },
    Edit {
        bug: "a hold never ends",
        file: "liveness/src/hold.rs",
        find: "            State::Held(held) if now >= held.until => {",
        put: "            State::Held(held) if !BUG && now >= held.until => {",
    },
    Edit {
        bug: "the silence of everyone not held",
        file: "liveness/src/hold.rs",
        find: "            State::Open if !self.silent(expectation.look_back) => (Leave::Judge, None),",
        put: "            State::Open if BUG || !self.silent(expectation.look_back) => (Leave::Judge, None),",
    },
    Edit {
        bug: "other lanes' stalls ignored for absent agents",
        file: "server/src/judge/bench.rs",
        find: "        let grace = self.deaf_anywhere(last.opened, now);",
        put: "        let grace = self.deaf_anywhere(last.opened, now).filter(|_| !BUG);",
    },
    Edit {
        bug: "absent agents not watched to the end",
        file: "server/src/judge/bench.rs",
        find: "            Next::Suspect { next } | Next::Check { next } => Some(next),",
        put: "            Next::Suspect { next } | Next::Check { next } => Some(next).filter(|_| !BUG),",
    },
    Edit {
        bug: "convicted without reading what waits",
        file: "server/src/lane/attendance.rs",
        find: "        } else if self.link.quiet_since(nominated) {",
        put: "        } else if BUG || self.link.quiet_since(nominated) {",
    },
    Edit {
        bug: "convicted without comparing again",
        file: "server/src/lane/attendance.rs",
        find: "        let spared = silence < limit",
        put: "        let spared = !BUG && silence < limit",
    },
    Edit {
        bug: "only a PING is life",
        file: "server/src/lane/attendance.rs",
        find: "        if session.heard(now, kind(message.as_ref())) {",
        put: "        if (!BUG || matches!(message, Some(Message::Ping(_))))
            && session.heard(now, kind(message.as_ref()))
        {",
    },
    Edit {
        bug: "suspect although it spoke",
        file: "server/src/registry/standing.rs",
        find: "    pub fn suspect(&self, session: &Arc<Session>) -> bool {
        let mut state = session.agent.lock();
        if !state.seats(session) {
            return false;
        }
        session.set_attention(true);",
        put: "    pub fn suspect(&self, session: &Arc<Session>) -> bool {
        let mut state = session.agent.lock();
        if !state.seats(session) {
            return false;
        }
        session.set_attention(!BUG);",
    },
    Edit {
        bug: "no PING at once after Welcome",
        file: "agent/src/session.rs",
        find: "        self.beats.welcomed(now);
        self.ping(now, 0);",
        put: "        self.beats.welcomed(now);
        if BUG {
            self.beats.ping_sent(now, &mut self.rng);
        } else {
            self.ping(now, 0);
        }",
    },
    Edit {
        bug: "a gap longer than T",
        file: "liveness/src/beat.rs",
        find: "                self.due = now + self.gap(rng);",
        put: "                self.due = now + self.gap(rng) * if BUG { 2 } else { 1 };",
    },
    Edit {
        bug: "a retune waits out the old T",
        file: "liveness/src/beat.rs",
        find: "                self.due = (now + draw::below(interval, rng)).min(self.ping_by);",
        put: "                if !BUG {
                    self.due = (now + draw::below(interval, rng)).min(self.ping_by);
                }",
    },
    Edit {
        bug: "the agent judges before it reads",
        file: "agent/src/session/judge.rs",
        find: "        if looked || self.looks",
        put: "        if BUG || looked || self.looks",
    },
    Edit {
        bug: "a breaker that probes too seldom",
        file: "liveness/src/backoff.rs",
        find: "            self.params.breaker_probe
",
        put: "            self.params.breaker_probe * if BUG { 20 } else { 1 }
",
    },
];
