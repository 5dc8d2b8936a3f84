use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Error, Result, bail, ensure};

use super::faults::{Cut, Direction, Faults, Idle, Plan, Share, Way};

/// What a line can say, for people.
pub const GRAMMAR: &str = "\
Commands, as arguments at the start and as lines on standard input later:
  up|down|both FAULT…  what happens to bytes that go that way; what is not named stays as it is
      delay=3s           each byte comes so much later
      jitter=500ms       and up to so much later again, in order
      gather=2s          bytes wait for the next multiple of this, then come together
      rate=16kbit        so many bits per second (bit, kbit, mbit)
      stop               nothing passes, nothing is said; what came follows at `go`
      go                 the end of `stop`
      hold-ends          FIN and RST do not pass
      pass-ends          the end of `hold-ends`
      clean              none of these
  idle 60s HOW [up|down] flows without bytes for so long are cut; bytes of one way only count if named
  idle off
  cut HOW              every open flow is cut now
      HOW: reset (RST), close (FIN), forget (not a word, what comes is swallowed),
           forget-then-reset (not a word until something comes, then RST)
  mute | unmute        connections are taken, nothing is said, nobody is connected to
  heal                 no faults
  flows K/N COMMAND    the same for K of every N flows, which then fare apart from the others";

/// A change of a relay's faults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    share: Option<Share>,
    change: Change,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Change {
    Bytes {
        up: bool,
        down: bool,
        faults: Vec<Fault>,
    },
    Idle(Option<Idle>),
    Cut(Cut),
    Mute(bool),
    Heal,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Delay(Duration),
    Jitter(Duration),
    Gather(Duration),
    Rate(u32),
    Stop(bool),
    HoldEnds(bool),
    Clean,
}

impl Command {
    pub(super) fn apply(&self, plan: &mut Plan) {
        plan.cuts += u64::from(matches!(self.change, Change::Cut(_)));
        let cuts = plan.cuts;
        let Some(share) = self.share else {
            self.change.apply(&mut plan.all, cuts);
            match (&self.change, &mut plan.share) {
                (Change::Heal, healed) => *healed = None,
                (change, Some((_, apart))) => change.apply(apart, cuts),
                (_, None) => {}
            }
            return;
        };
        let apart = match plan.share.take() {
            Some((known, faults)) if known == share => faults,
            Some(_) | None => plan.all.clone(),
        };
        let (_, faults) = plan.share.insert((share, apart));
        self.change.apply(faults, cuts);
    }
}

impl Change {
    /// `cuts` counts a cut that this tells.
    fn apply(&self, to: &mut Faults, cuts: u64) {
        match self {
            Self::Bytes { up, down, faults } => {
                for fault in faults {
                    if *up {
                        fault.apply(&mut to.up);
                    }
                    if *down {
                        fault.apply(&mut to.down);
                    }
                }
            }
            Self::Idle(idle) => to.idle = *idle,
            Self::Cut(cut) => to.cut = Some((cuts, *cut)),
            Self::Mute(mute) => to.mute = *mute,
            // A cut may not have reached every flow yet.
            Self::Heal => {
                *to = Faults {
                    cut: to.cut,
                    ..Faults::default()
                }
            }
        }
    }
}

impl Fault {
    fn apply(self, to: &mut Direction) {
        match self {
            Self::Delay(delay) => to.delay = delay,
            Self::Jitter(jitter) => to.jitter = jitter,
            Self::Gather(gather) => to.gather = gather,
            Self::Rate(rate) => to.rate = Some(rate),
            Self::Stop(stop) => to.stopped = stop,
            Self::HoldEnds(hold) => to.ends_held = hold,
            Self::Clean => *to = Direction::default(),
        }
    }
}

impl FromStr for Command {
    type Err = Error;

    fn from_str(line: &str) -> Result<Self> {
        let words: Vec<_> = line.split_whitespace().collect();
        read(&words).with_context(|| {
            format!(
                "`{line}` is no command; see `fleetbeat-drill relay --help` for what can be said"
            )
        })
    }
}

fn read(words: &[&str]) -> Result<Command> {
    let (share, change) = match words {
        ["flows", share, change @ ..] => (Some(read_share(share)?), change),
        change => (None, change),
    };
    Ok(Command {
        share,
        change: read_change(change)?,
    })
}

fn read_share(word: &str) -> Result<Share> {
    let (of, per) = word.split_once('/').context("a share is written as K/N")?;
    let share = Share {
        of: of.parse()?,
        per: per.parse()?,
    };
    ensure!(
        (1..=share.per).contains(&share.of),
        "a share is at least 1 and at most all"
    );
    Ok(share)
}

fn read_change(words: &[&str]) -> Result<Change> {
    Ok(match words {
        ["up", faults @ ..] => read_bytes(true, false, faults)?,
        ["down", faults @ ..] => read_bytes(false, true, faults)?,
        ["both", faults @ ..] => read_bytes(true, true, faults)?,
        ["idle", "off"] => Change::Idle(None),
        ["idle", after, how, watching @ ..] => Change::Idle(Some(Idle {
            after: read_time(after)?,
            how: read_cut(how)?,
            watching: read_way(watching)?,
        })),
        ["cut", how] => Change::Cut(read_cut(how)?),
        ["mute"] => Change::Mute(true),
        ["unmute"] => Change::Mute(false),
        ["heal"] => Change::Heal,
        _ => bail!("unknown, or words are missing"),
    })
}

fn read_bytes(up: bool, down: bool, words: &[&str]) -> Result<Change> {
    ensure!(!words.is_empty(), "no fault is named");
    let faults = words.iter().map(|word| read_fault(word));
    Ok(Change::Bytes {
        up,
        down,
        faults: faults.collect::<Result<_>>()?,
    })
}

fn read_fault(word: &str) -> Result<Fault> {
    Ok(match word.split_once('=') {
        Some(("delay", time)) => Fault::Delay(read_time(time)?),
        Some(("jitter", time)) => Fault::Jitter(read_time(time)?),
        Some(("gather", time)) => Fault::Gather(read_time(time)?),
        Some(("rate", rate)) => Fault::Rate(read_rate(rate)?),
        Some((name, _)) => bail!("there is no fault {name}="),
        None => match word {
            "stop" => Fault::Stop(true),
            "go" => Fault::Stop(false),
            "hold-ends" => Fault::HoldEnds(true),
            "pass-ends" => Fault::HoldEnds(false),
            "clean" => Fault::Clean,
            _ => bail!("there is no fault {word}"),
        },
    })
}

/// Longer times are mistakes, and would overflow when added up.
fn read_time(word: &str) -> Result<Duration> {
    let time = humantime::parse_duration(word)?;
    ensure!(
        time <= Duration::from_hours(24),
        "{word} is longer than a day"
    );
    Ok(time)
}

fn read_cut(word: &str) -> Result<Cut> {
    Ok(match word {
        "reset" => Cut::Reset,
        "close" => Cut::Close,
        "forget" => Cut::Forget,
        "forget-then-reset" => Cut::ForgetThenReset,
        _ => bail!("there is no way to cut named {word}"),
    })
}

fn read_way(words: &[&str]) -> Result<Option<Way>> {
    Ok(match words {
        [] => None,
        ["up"] => Some(Way::Up),
        ["down"] => Some(Way::Down),
        _ => bail!("bytes go up or down"),
    })
}

/// Bits per second with a unit, as bytes per second.
fn read_rate(word: &str) -> Result<u32> {
    let digits = word.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor: u32 = match &word[digits.len()..] {
        "bit" => 1,
        "kbit" => 1_000,
        "mbit" => 1_000_000,
        _ => bail!("a rate is written as 16kbit (bit, kbit, mbit)"),
    };
    let bits = digits.parse::<u32>()?.checked_mul(factor);
    let bytes = bits.context("the rate is too large")? / 8;
    ensure!(bytes > 0, "a rate of nothing is `stop`");
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn after(lines: &[&str]) -> Plan {
        let mut plan = Plan::default();
        for line in lines {
            line.parse::<Command>().unwrap().apply(&mut plan);
        }
        plan
    }

    #[test]
    fn faults_add_up_until_they_are_healed() {
        let plan = after(&[
            "up delay=3s stop",
            "both rate=16kbit",
            "idle 60s forget down",
        ]);
        let up = Direction {
            delay: SECOND * 3,
            stopped: true,
            rate: Some(2_000),
            ..Direction::default()
        };
        assert_eq!(plan.all.up, up);
        assert_eq!(plan.all.down.rate, Some(2_000));
        let idle = Idle {
            after: SECOND * 60,
            how: Cut::Forget,
            watching: Some(Way::Down),
        };
        assert_eq!(plan.all.idle, Some(idle));
        assert_eq!(after(&["up stop", "mute", "heal"]), Plan::default());
    }

    #[test]
    fn a_cut_hits_once_and_again_when_told_again() {
        let twice = after(&["cut reset", "heal", "cut close"]);
        assert_eq!(twice.all.cut, Some((2, Cut::Close)));
    }

    #[test]
    fn a_share_of_flows_fares_apart_and_shares_what_is_told_to_all() {
        let plan = after(&["both delay=1s", "flows 6/10 both stop", "up rate=8bit"]);
        assert!(plan.of(5).up.stopped && !plan.of(6).up.stopped);
        assert_eq!(plan.of(5).up.delay, SECOND);
        assert_eq!((plan.of(5).up.rate, plan.of(6).up.rate), (Some(1), Some(1)));
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        let wrong = [
            "",
            "up",
            "up slowly",
            "up delay=fast",
            "sideways stop",
            "idle 60s",
            "idle 60s gently",
            "idle 60s reset left",
            "cut",
            "flows 0/10 mute",
            "flows 11/10 mute",
            "flows ten mute",
            "up rate=1bit",
            "up rate=16",
            "up rate=9999999mbit",
            "up delay=25h",
            "heal now",
        ];
        for line in wrong {
            assert!(line.parse::<Command>().is_err(), "`{line}` was taken");
        }
    }
}
