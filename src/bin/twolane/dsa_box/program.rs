//! Which file is the program, and does a preloaded library reach it?

use std::env;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The file of a program, as a shell finds it. `Err`: there is none, or the library cannot be preloaded into it.
pub fn find(name: &OsStr) -> Result<PathBuf, String> {
    let shown = name.to_string_lossy();
    let path = if name.as_bytes().contains(&b'/') {
        PathBuf::from(name)
    } else {
        let places = env::var_os("PATH").unwrap_or_default();
        let found = env::split_paths(&places).map(|dir| dir.join(name)).find(|path| is_executable(path));
        found.ok_or_else(|| format!("{shown}: no such program in PATH"))?
    };
    if !path.exists() {
        return Err(format!("{shown}: no such file"));
    }
    if path.is_dir() {
        return Err(format!("{shown}: a directory; name the program in it"));
    }
    if !is_executable(&path) {
        return Err(format!("{shown}: not executable; chmod +x it, or name its interpreter"));
    }
    check(&path)?;
    Ok(path)
}

fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

fn check(path: &Path) -> Result<(), String> {
    let shown = path.display();
    let mode = fs::metadata(path).map_err(|error| format!("{shown}: {error}"))?.permissions().mode();
    if mode & 0o6000 != 0 && !rustix::process::geteuid().is_root() {
        return Err(format!(
            "{shown} runs as another user (setuid), and the loader preloads nothing into it: run it as that user, without the bit"
        ));
    }
    // The head of any program; a static one of many segments has no more than this in front.
    let mut head = Vec::new();
    File::open(path)
        .and_then(|file| file.take(HEAD).read_to_end(&mut head))
        .map_err(|error| format!("{shown}: {error}"))?;
    match kind(&head) {
        Kind::Dynamic => Ok(()),
        Kind::Script(interpreter) => {
            // Its interpreter is what the library is preloaded into; an interpreter is no script.
            check(Path::new(OsStr::from_bytes(&interpreter))).map_err(|why| format!("{shown} is a script: {why}"))
        }
        Kind::Static => Err(format!(
            "{shown} is linked statically, and the loader preloads nothing into it: link it dynamically (for Rust a gnu target, not musl; for C without -static)"
        )),
        Kind::Foreign => Err(format!("{shown} is not a 64-bit x86 program, and the library is: build it for x86-64")),
        Kind::Unknown => Err(format!(
            "{shown} is neither an ELF program nor a script with #! in its first line: name the interpreter, as in `sh {shown}`"
        )),
    }
}

const HEAD: u64 = 64 * 1024;

#[derive(Debug, PartialEq, Eq)]
enum Kind {
    Dynamic,
    Static,
    /// Another machine's.
    Foreign,
    Script(Vec<u8>),
    Unknown,
}

/// What begins like this? An ELF program is dynamic if a segment names its loader (PT_INTERP).
fn kind(head: &[u8]) -> Kind {
    if let Some(line) = head.strip_prefix(b"#!") {
        let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let interpreter = line.trim_ascii().split(|byte| byte.is_ascii_whitespace()).next().unwrap_or_default();
        return if interpreter.is_empty() { Kind::Unknown } else { Kind::Script(interpreter.to_vec()) };
    }
    if !head.starts_with(b"\x7fELF") {
        return Kind::Unknown;
    }
    const CLASS_64: u8 = 2;
    const LITTLE_ENDIAN: u8 = 1;
    const X86_64: u64 = 62;
    const PT_INTERP: u64 = 3;
    let number = |at: usize, bytes: usize| {
        Some(head.get(at..at.checked_add(bytes)?)?.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)))
    };
    if head.get(4) != Some(&CLASS_64) || head.get(5) != Some(&LITTLE_ENDIAN) || number(18, 2) != Some(X86_64) {
        return Kind::Foreign;
    }
    let segments = || {
        let (at, each, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
        let has_loader = (0..count).any(|n| {
            let at = n.checked_mul(each).and_then(|offset| usize::try_from(at.checked_add(offset)?).ok());
            at.and_then(|at| number(at, 4)) == Some(PT_INTERP)
        });
        Some(has_loader)
    };
    if segments() == Some(true) { Kind::Dynamic } else { Kind::Static }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The head of an ELF file with segments of these types.
    fn elf(machine: u8, class: u8, segments: &[u8]) -> Vec<u8> {
        let mut head = vec![0; 64];
        head[..6].copy_from_slice(&[0x7f, b'E', b'L', b'F', class, 1]);
        (head[18], head[32], head[54], head[56]) = (machine, 64, 56, segments.len() as u8);
        for segment in segments {
            head.push(*segment);
            head.extend([0; 55]);
        }
        head
    }

    #[test]
    fn a_program_is_known_by_its_head() {
        let cases = [
            (elf(62, 2, &[6, 3, 1]), Kind::Dynamic),
            (elf(62, 2, &[1, 1]), Kind::Static),
            (elf(62, 2, &[]), Kind::Static),
            (elf(62, 2, &[1, 1, 3])[..64 + 56].to_vec(), Kind::Static),
            (elf(183, 2, &[3]), Kind::Foreign),
            (elf(3, 1, &[3]), Kind::Foreign),
            (b"\x7fELF".to_vec(), Kind::Foreign),
            (b"#!/bin/sh -e\necho".to_vec(), Kind::Script(b"/bin/sh".to_vec())),
            (b"#! /usr/bin/env python3".to_vec(), Kind::Script(b"/usr/bin/env".to_vec())),
            (b"#!\n".to_vec(), Kind::Unknown),
            (b"echo".to_vec(), Kind::Unknown),
            (Vec::new(), Kind::Unknown),
        ];
        for (head, want) in cases {
            assert_eq!(kind(&head), want, "{:?}", &head[..head.len().min(20)]);
        }
        assert_eq!(kind(&fs::read(env::current_exe().unwrap()).unwrap()), Kind::Dynamic, "this test itself");
    }

    /// Tables that lie about where they are, of every length.
    #[test]
    fn nonsense_is_no_program_and_no_panic() {
        let whole = elf(62, 2, &[3]);
        for cut in 0..whole.len() {
            for byte in [0, 1, 0x7f, 0xff] {
                let mut head = whole.clone();
                head[cut] = byte;
                kind(&head);
                head.truncate(cut);
                kind(&head);
            }
        }
        let mut far = whole;
        far[32..40].fill(0xff);
        assert_eq!(kind(&far), Kind::Static);
    }
}
