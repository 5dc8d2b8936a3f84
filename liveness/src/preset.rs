//! Where to start from: T, N and W for a kind of fleet, with the error that it prefers.
//!
//! The first five are the table of essay 1 §4.1, the sixth the worked example of essay 2 §3.2, with their
//! T and N as they stand there. The essays' deadline is N·T (the sixth: what was to be found within 20 s);
//! the product's is N·T + W. No choice of N, T and W avoids both errors: each preset says which one its
//! fleet can afford.

use std::time::Duration;

use crate::tuning::Tuning;

/// The error that a fleet would rather make.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Prefers {
    /// To call an agent offline that lives: it reconnects cheaply, and the dead are costly.
    FalseVerdict,
    /// To call a dead agent online a while longer: calling off the healthy costs more.
    LateVerdict,
}

impl Prefers {
    /// `false_verdict` or `late_verdict`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::FalseVerdict => "false_verdict",
            Self::LateVerdict => "late_verdict",
        }
    }
}

/// A named starting point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Preset {
    /// Lower case with dashes, as it is typed.
    pub name: &'static str,
    /// What kind of fleet.
    pub fleet: &'static str,
    interval_s: u64,
    misses: u32,
    timeout_s: u64,
    essay_s: Option<u64>,
    pub prefers: Prefers,
    /// What to know about it, a sentence without a full stop.
    pub remark: &'static str,
}

impl Preset {
    /// The preset of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        ALL.iter().find(|preset| preset.name == name)
    }

    /// T, N and W; every heartbeat answered, not adaptive.
    ///
    /// # Panics
    /// Never: a test makes all of them.
    #[must_use]
    pub fn tuning(&self) -> Tuning {
        let seconds = Duration::from_secs;
        let (interval, timeout) = (seconds(self.interval_s), seconds(self.timeout_s));
        Tuning::new(interval, self.misses, timeout, 1).expect("presets are within the bounds")
    }

    /// The deadline that the essay names; `None` for the presets that are no essay's.
    #[must_use]
    pub fn essay_deadline(&self) -> Option<Duration> {
        self.essay_s.map(Duration::from_secs)
    }
}

/// Every preset, the essays' first.
pub const ALL: [Preset; 8] = [
    Preset {
        name: "mobile-messaging",
        fleet: "mobile messaging",
        interval_s: 30,
        misses: 3,
        timeout_s: 5,
        essay_s: Some(90),
        prefers: Prefers::LateVerdict,
        remark: "balances battery and data traffic; a needless reconnect costs a handshake of both",
    },
    Preset {
        name: "web",
        fleet: "web long connection",
        interval_s: 20,
        misses: 3,
        timeout_s: 2,
        essay_s: Some(60),
        prefers: Prefers::FalseVerdict,
        remark: "beat only while the page is visible; a reconnect is cheap",
    },
    Preset {
        name: "device-gateway",
        fleet: "device access gateway",
        interval_s: 60,
        misses: 3,
        timeout_s: 10,
        essay_s: Some(180),
        prefers: Prefers::LateVerdict,
        remark: "many devices on poor radio links: bound the signalling, and a lost beat is no death",
    },
    Preset {
        name: "trading",
        fleet: "trading long connection",
        interval_s: 5,
        misses: 3,
        timeout_s: 1,
        essay_s: Some(15),
        prefers: Prefers::FalseVerdict,
        remark: "the price is traffic and power",
    },
    Preset {
        name: "internal-probe",
        fleet: "internal service health",
        interval_s: 3,
        misses: 3,
        timeout_s: 1,
        essay_s: Some(9),
        prefers: Prefers::FalseVerdict,
        remark: "usually an independent probe rather than a connection's heartbeat",
    },
    Preset {
        name: "connection-gateway",
        fleet: "gateway of 50,000 connections per server",
        interval_s: 8,
        misses: 2,
        timeout_s: 2,
        essay_s: Some(20),
        prefers: Prefers::FalseVerdict,
        remark: "found within 20 s at 6,250 beats/s; what matters at this size is how reconnects spread",
    },
    Preset {
        name: "service-registry",
        fleet: "instances behind a registry",
        interval_s: 10,
        misses: 5,
        timeout_s: 5,
        essay_s: None,
        prefers: Prefers::LateVerdict,
        remark: "a healthy instance taken out overloads the rest; a dead one kept fails a few requests",
    },
    Preset {
        name: "log-collection",
        fleet: "log collectors",
        interval_s: 60,
        misses: 10,
        timeout_s: 10,
        essay_s: None,
        prefers: Prefers::LateVerdict,
        remark: "half an hour could pass unnoticed, but idle time-outs on the path keep T at 100 s or less",
    },
];
