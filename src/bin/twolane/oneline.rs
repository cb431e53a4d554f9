//! Words what clap found wrong with the options in one line: the fault, what is possible, and where help is.

use clap::error::ErrorKind;

/// The first paragraphs of clap's message, up to its usage, in one line.
pub fn of(error: &clap::Error) -> String {
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return "no command given: there are `doctor`, `plan` and, if built with the feature `sim`, `dsa-box` (see `twolane --help`)".to_owned();
    }
    let message = error.to_string();
    let parts: Vec<&str> = message
        .lines()
        .map(str::trim)
        .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more information"))
        .filter(|line| !line.is_empty())
        .collect();
    // What ends with a colon goes on.
    let parts = parts.join("; ").replace(":; ", ": ");
    format!("{} (see `twolane --help`)", parts.strip_prefix("error: ").unwrap_or(&parts))
}
