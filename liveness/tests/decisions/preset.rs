use fleetbeat_liveness::preset::{ALL, Prefers, Preset};

use crate::given::{secs, tuning};

/// S8: T and N as they stand in the essays, the product's deadline beside theirs (vectors of §1; V05, V06).
#[test]
fn the_essays_presets_keep_their_numbers() {
    for (name, interval, misses, essay, ours) in [
        ("mobile-messaging", 30, 3, 90, 95),
        ("web", 20, 3, 60, 62),
        ("device-gateway", 60, 3, 180, 190),
        ("trading", 5, 3, 15, 16),
        ("internal-probe", 3, 3, 9, 10),
        ("connection-gateway", 8, 2, 20, 18),
    ] {
        let preset = Preset::named(name).expect(name);
        let tuning = preset.tuning();
        assert_eq!(
            (tuning.interval(), tuning.misses()),
            (secs(interval), misses),
            "{name}"
        );
        assert_eq!(preset.essay_deadline(), Some(secs(essay)), "{name}");
        assert_eq!(tuning.deadline(), secs(ours), "{name}");
    }
}

/// S26: killing the healthy and keeping the dead cost differently, and the margins follow.
#[test]
fn fleets_that_would_rather_be_late_have_the_wider_margins() {
    let registry = Preset::named("service-registry").expect("ours").tuning();
    assert_eq!(registry, tuning(10, 5, 5));
    assert_eq!(
        Preset::named("log-collection").expect("ours").tuning(),
        tuning(60, 10, 10)
    );
    let share = |preset: &Preset| {
        let tuning = preset.tuning();
        tuning.timeout().as_secs_f64() / preset.tuning().interval().as_secs_f64()
            + f64::from(tuning.misses())
    };
    let margins = |prefers| {
        let of = move |preset: &&Preset| preset.prefers == prefers;
        ALL.iter().filter(of).map(share).collect::<Vec<_>>()
    };
    let wrong = margins(Prefers::FalseVerdict)
        .into_iter()
        .fold(0.0, f64::max);
    let late = margins(Prefers::LateVerdict)
        .into_iter()
        .fold(f64::MAX, f64::min);
    assert!(
        Preset::named("service-registry").map(share) > Some(wrong),
        "missed beats that a registry tolerates against at most {wrong}"
    );
    assert!(late > 3.0, "{late}");
}

/// Essay 1 §4.3: no preset lets a path with an idle time-out of 300 s forget its connections.
#[test]
fn every_preset_beats_more_often_than_paths_forget() {
    for preset in ALL {
        assert!(
            preset.tuning().interval() <= secs(300) / 3,
            "{}",
            preset.name
        );
    }
}

#[test]
fn names_are_typed_without_shift_and_each_finds_its_own_preset() {
    for preset in ALL {
        let typed = |c: char| c.is_ascii_lowercase() || c == '-';
        assert!(preset.name.chars().all(typed), "{}", preset.name);
        assert_eq!(Preset::named(preset.name), Some(&preset));
    }
    assert_eq!(Preset::named("nonsense"), None);
}
