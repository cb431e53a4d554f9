//! Which file does a program mean that asks for one of the kernel's? Pure.

/// What stands in a tree for a path that a program asked for. `None`: that path is none of ours.
///
/// The path has to be absolute, and written as people write it: `/sys/bus/../bus/dsa` is not recognised.
///
/// ```
/// use twolane::sim::preload::redirect;
///
/// assert_eq!(redirect("/t", b"/dev/dsa/wq0.0"), Some(b"/t/dev/dsa/wq0.0".to_vec()));
/// assert_eq!(redirect("/t", b"/dev/dsa2"), None);
/// ```
#[must_use]
pub fn redirect(tree: &str, path: &[u8]) -> Option<Vec<u8>> {
    let ours = ROOTS
        .iter()
        .any(|root| path.strip_prefix(root.as_bytes()).is_some_and(|rest| rest.is_empty() || rest[0] == b'/'));
    ours.then(|| [tree.as_bytes(), path].concat())
}

/// What the driver `idxd` brings. `/sys/module/idxd` is how accel-config sees that it is loaded. `/dev/char` is not among them: other devices are in it.
const ROOTS: &[&str] = &["/sys/bus/dsa", "/dev/dsa", "/sys/module/idxd"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_are_redirected_and_nothing_else() {
        let cases = [
            ("/dev/dsa", true),
            ("/dev/dsa/", true),
            ("/dev/dsa/wq0.1", true),
            ("/sys/bus/dsa/devices/dsa0/version", true),
            ("/sys/module/idxd", true),
            ("/sys/module/idxd_bus", false),
            ("/dev/dsax", false),
            ("/dev", false),
            ("/t/dev/dsa/wq0.1", false),
            ("dev/dsa", false),
            ("", false),
        ];
        for (path, ours) in cases {
            let want = ours.then(|| format!("/t{path}").into_bytes());
            assert_eq!(redirect("/t", path.as_bytes()), want, "{path}");
        }
    }
}
