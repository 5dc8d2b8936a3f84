//! Pages of the documentation whose tables a study makes.

use crate::{detectors, essay, rollouts, storms};

/// Each makes the tables of one page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Study {
    /// Fixed, adaptive and φ accrual detection on the same paths.
    Detectors,
    /// Fleets that lost their sessions at once; and essay 2 §4.4 once more.
    Storms,
    /// Rollouts over fleets of several sizes.
    Rollouts,
}

impl Study {
    pub const ALL: [Self; 3] = [Self::Detectors, Self::Storms, Self::Rollouts];

    /// The page, below the root of the repository.
    #[must_use]
    pub const fn file(self) -> &'static str {
        match self {
            Self::Detectors => "docs/detectors.md",
            Self::Storms => "docs/storms.md",
            Self::Rollouts => "docs/rollouts.md",
        }
    }

    /// Plays it; takes seconds.
    #[must_use]
    pub fn page(self) -> Page {
        let tables = match self {
            Self::Detectors => detectors::tables(),
            Self::Storms => [storms::tables(), essay::tables()].concat(),
            Self::Rollouts => rollouts::tables(),
        };
        Page { tables }
    }
}

/// The tables of one page, which stand between `<!-- study: name -->` and `<!-- end -->`.
#[derive(Debug)]
pub struct Page {
    tables: Vec<(&'static str, String)>,
}

impl Page {
    /// Names and tables, in the order of the page.
    #[must_use]
    pub fn tables(&self) -> &[(&'static str, String)] {
        &self.tables
    }

    /// `text` with these tables in their places.
    ///
    /// # Errors
    /// The name of the first table that has no place.
    pub fn filled(&self, text: &str) -> Result<String, &'static str> {
        let mut filled = text.to_owned();
        for (name, table) in &self.tables {
            let begin = format!("<!-- study: {name} -->\n");
            let start = filled.find(&begin).ok_or(*name)? + begin.len();
            let length = filled[start..].find("<!-- end -->").ok_or(*name)?;
            filled.replace_range(start..start + length, &format!("\n{table}\n"));
        }
        Ok(filled)
    }
}
