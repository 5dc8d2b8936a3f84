//! `fleetbeat-study`: prints the tables of the documentation, or writes them into their pages.
#![expect(
    clippy::print_stdout,
    reason = "a command-line tool speaks on its standard output"
)]

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use clap::Parser;
use fleetbeat_study::{Page, Study};

#[derive(Parser)]
#[command(
    about = "Compares detectors, how fleets return and how rollouts are judged, in virtual time",
    after_help = "Examples:\n  fleetbeat-study\n  fleetbeat-study --write ."
)]
struct Arguments {
    /// Puts the tables into the pages below this directory, the root of the repository
    #[arg(long, value_name = "DIR")]
    write: Option<PathBuf>,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    for study in Study::ALL {
        let page = study.page();
        match &arguments.write {
            Some(root) => write(study, &page, root)?,
            None => print(&page),
        }
    }
    Ok(())
}

fn print(page: &Page) {
    for (name, table) in page.tables() {
        println!("{name}\n\n{table}");
    }
}

fn write(study: Study, page: &Page, root: &Path) -> Result<()> {
    let file = root.join(study.file());
    let shown = file.display();
    let text = std::fs::read_to_string(&file).with_context(|| format!("cannot read {shown}"))?;
    let filled = page.filled(&text).map_err(|table| {
        anyhow!("{shown} has no place for the table {table:?}: add `<!-- study: {table} -->` and `<!-- end -->`")
    })?;
    std::fs::write(&file, filled).with_context(|| format!("cannot write {shown}"))?;
    println!("{shown} holds the tables of its study");
    Ok(())
}
