//! Placements as text, for options and environment variables.

use std::fmt;
use std::str::FromStr;

use super::Placement;

/// A text that names no placement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacementError {
    text: String,
}

impl FromStr for Placement {
    type Err = PlacementError;

    /// `auto`, `siblings`, `whole-cores`, `shared`, `unpinned`, or pairs of a poll cpu and a compute cpu such as `2-3,4-5`.
    ///
    /// ```
    /// use twolane::Placement;
    ///
    /// assert_eq!("2-3,4-5".parse(), Ok(Placement::Pairs(vec![(2, 3), (4, 5)])));
    /// ```
    fn from_str(text: &str) -> Result<Self, PlacementError> {
        Ok(match text {
            "auto" => Self::Auto,
            "siblings" => Self::Siblings,
            "whole-cores" => Self::WholeCores,
            "shared" => Self::Shared,
            "unpinned" => Self::Unpinned,
            pairs => {
                let pair = |pair: &str| {
                    let (poll, compute) = pair.split_once('-')?;
                    Some((poll.trim().parse().ok()?, compute.trim().parse().ok()?))
                };
                let pairs: Option<Vec<_>> = pairs.split(',').map(pair).collect();
                Self::Pairs(pairs.ok_or_else(|| PlacementError { text: text.into() })?)
            }
        })
    }
}

impl PlacementError {
    /// What would be one.
    pub(crate) const WANT: &str =
        "use auto, siblings, whole-cores, shared, unpinned, or pairs such as 2-3,4-5 (poll cpu, compute cpu)";
}

impl fmt::Display for PlacementError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is no placement: {}", self.text, Self::WANT)
    }
}

impl std::error::Error for PlacementError {}
