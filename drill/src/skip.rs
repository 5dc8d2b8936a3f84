//! Tests that cannot run where a program or a part of the kernel is missing.

use std::fs::OpenOptions;
use std::io::Write as _;

/// File that collects what was skipped, one test per line, for whoever runs all tests to count.
const LIST: &str = "FLEETBEAT_SKIPPED";
/// Set where everything that tests need must be there.
const NEVER: &str = "FLEETBEAT_SKIP_NOTHING";

/// Says that the running test is skipped, since `missing` is not here. The test then has to return.
///
/// # Panics
///
/// Where nothing may be skipped (`FLEETBEAT_SKIP_NOTHING`), or the list cannot be written.
pub fn skip(missing: &str) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    let line = format!("{test}: {missing}");
    assert!(
        std::env::var_os(NEVER).is_none(),
        "nothing may be skipped here, but {line}"
    );
    eprintln!("skipped {line}");
    if let Some(list) = std::env::var_os(LIST) {
        let file = OpenOptions::new().create(true).append(true).open(list);
        let written = file.and_then(|mut file| writeln!(file, "{line}"));
        written.expect("the list of skipped tests can be written");
    }
}
