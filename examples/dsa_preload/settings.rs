//! What does the environment say? Read once, touches no file.

use std::env;
use std::path::PathBuf;

use once_cell::sync::OnceCell;
use twolane::sim::preload::{Behaviour, ENV_BEHAVIOUR, ENV_REDIRECT, ENV_REPORT, ENV_TRACE, ENV_TREE};

use crate::complain;

#[derive(Debug)]
pub struct Settings {
    /// The directory with `sys` and `dev`.
    pub tree: PathBuf,
    pub behaviour: Behaviour,
    pub report: Option<PathBuf>,
    pub trace: Option<PathBuf>,
    /// The tree, if paths are to be redirected to it.
    pub redirect: Option<String>,
}

/// `None`: no tree, so nothing is modelled. What is set and means nothing ends the program.
pub fn get() -> Option<&'static Settings> {
    static SETTINGS: OnceCell<Option<Settings>> = OnceCell::new();
    SETTINGS.get_or_init(read).as_ref()
}

fn read() -> Option<Settings> {
    let path = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let tree = path(ENV_TREE)?;
    for (name, path) in
        [(ENV_TREE, Some(&tree)), (ENV_REPORT, path(ENV_REPORT).as_ref()), (ENV_TRACE, path(ENV_TRACE).as_ref())]
    {
        // The program may go elsewhere.
        if let Some(path) = path.filter(|path| !path.is_absolute()) {
            complain::fatal(&format!("{name}={}: use an absolute path", path.display()));
        }
    }
    let text = env::var(ENV_BEHAVIOUR).unwrap_or_default();
    let behaviour = text.parse().unwrap_or_else(|error| complain::fatal(&format!("{ENV_BEHAVIOUR}={text}: {error}")));
    let redirect = match env::var(ENV_REDIRECT).as_deref() {
        Ok("1") => Some(
            tree.to_str()
                .unwrap_or_else(|| complain::fatal(&format!("{ENV_TREE}: use a path in UTF-8 with {ENV_REDIRECT}=1")))
                .to_owned(),
        ),
        Err(_) | Ok("" | "0") => None,
        Ok(other) => complain::fatal(&format!("{ENV_REDIRECT}={other}: use 1 or 0")),
    };
    Some(Settings { behaviour, report: path(ENV_REPORT), trace: path(ENV_TRACE), redirect, tree })
}
