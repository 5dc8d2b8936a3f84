//! The tables of the documentation are what the studies print.

use std::path::Path;

use fleetbeat_study::Study;

fn stands(study: Study) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .join(study.file());
    let text = std::fs::read_to_string(&file).expect("the page is there");
    let filled = study
        .page()
        .filled(&text)
        .expect("every table has its place");
    assert!(
        text == filled,
        "{} is not what its study prints: run `cargo xtask study` and read what changed",
        study.file()
    );
}

/// Requirement S15.
#[test]
fn the_page_about_detectors_holds_what_its_study_prints() {
    stands(Study::Detectors);
}

/// Requirements S27, S34; vectors J02–J06, V09, V10.
#[test]
fn the_page_about_storms_holds_what_its_study_prints() {
    stands(Study::Storms);
}

/// Hard case C6.
#[test]
fn the_page_about_rollouts_holds_what_its_study_prints() {
    stands(Study::Rollouts);
}
