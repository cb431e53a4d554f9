//! What the texts of sysfs mean. Pure; nothing that a file may hold makes any of it panic.

use super::super::abi::{OpCap, SwError};

/// A whole number in decimal.
pub(super) fn number<T: std::str::FromStr>(text: &str) -> Option<T> {
    text.parse().ok()
}

/// `0` or `1`.
pub(super) fn flag(text: &str) -> Option<bool> {
    match text {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    }
}

/// A number in hexadecimal, with or without `0x`: the kernel prints zero without.
pub(super) fn hex(text: &str) -> Option<u64> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text);
    // `from_str_radix` takes a sign.
    if digits.bytes().all(|byte| byte.is_ascii_hexdigit()) { u64::from_str_radix(digits, HEX).ok() } else { None }
}

/// The same of at most 32 bits.
pub(super) fn hex32(text: &str) -> Option<u32> {
    u32::try_from(hex(text)?).ok()
}

/// 256 bits, the least significant word first.
///
/// Kernels of today print words of 32 bits with commas between them, the most significant first (`0000...,003f03ff`), and fewer of
/// them for shorter maps; older ones print four words of 64 bits with blanks between them, the least significant first (`0x1003f03ff 0x0 ...`).
pub(super) fn bits_256(text: &str) -> Option<[u64; 4]> {
    let mut words = [0; 4];
    if text.contains(char::is_whitespace) || text.starts_with("0x") {
        for (n, word) in text.split_whitespace().enumerate() {
            *words.get_mut(n)? = hex(word)?;
        }
    } else {
        for (n, half) in text.rsplit(',').enumerate() {
            let word = words.get_mut(n / 2)?;
            let half = hex(half).filter(|half| *half <= u64::from(u32::MAX))?;
            *word |= half << (32 * (n % 2));
        }
    }
    Some(words)
}

/// A set of operations.
pub(super) fn operations(text: &str) -> Option<OpCap> {
    bits_256(text).map(OpCap)
}

/// The register of errors.
pub(super) fn errors(text: &str) -> Option<SwError> {
    bits_256(text).map(SwError)
}

const HEX: u32 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        for (text, value) in [("0", Some(0)), ("128", Some(128)), ("-1", None), ("", None), ("4294967296", None)] {
            assert_eq!(number::<u32>(text), value, "{text:?}");
        }
        assert_eq!(number::<i64>("-1"), Some(-1));
        for (text, value) in [
            ("0x40915f0107", Some(0x40_915f_0107)),
            ("0", Some(0)),
            ("ff", Some(0xff)),
            ("0x", None),
            ("", None),
            ("+1", None),
            ("0x-1", None),
            ("0x10000000000000000", None),
            ("x", None),
        ] {
            assert_eq!(hex(text), value, "{text:?}");
        }
        for (text, value) in [("0", Some(false)), ("1", Some(true)), ("2", None), ("", None), ("true", None)] {
            assert_eq!(flag(text), value, "{text:?}");
        }
    }

    #[test]
    fn maps_of_both_ages() {
        for (text, words) in [
            ("00000000,00000000,00000000,00000000,00000000,00000000,00000001,003f03ff", Some([0x1_003f_03ff, 0, 0, 0])),
            ("80000000,00000000,00000000,00000000,00000000,00000000,00000000,00000002", Some([2, 0, 0, 1 << 63])),
            ("00000001,003f027d", Some([0x1_003f_027d, 0, 0, 0])),
            ("3ff", Some([0x3ff, 0, 0, 0])),
            ("0x1003f03ff 0x0 0x0 0x0", Some([0x1_003f_03ff, 0, 0, 0])),
            ("0x1003f03ff", Some([0x1_003f_03ff, 0, 0, 0])),
            ("0 0 0 8000000000000000", Some([0, 0, 0, 1 << 63])),
            ("", None),
            (",", None),
            ("1,,2", None),
            ("100000000,0", None),
            ("0,0,0,0,0,0,0,0,0", None),
            ("0x0 0x0 0x0 0x0 0x0", None),
            ("0x1,0x2 z", None),
            ("(null)", None),
        ] {
            assert_eq!(bits_256(text), words, "{text:?}");
        }
    }

    #[test]
    fn what_is_printed_is_read_back() {
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random
        };
        for _ in 0..1_000 {
            let set = OpCap([next(), next(), next(), next()]);
            assert_eq!(operations(&set.to_string()), Some(set));
            let [a, b, c, d] = set.0;
            assert_eq!(operations(&format!("{a:#x} {b:#x} {c:#x} {d:#x}")), Some(set));
        }
    }

    /// Texts made of the characters that the parsers look at, and of any others.
    #[test]
    fn no_text_makes_them_panic() {
        let alphabet: Vec<char> = "0123456789abcfxX,,, \t\n-+.\u{0}\u{fffd}é".chars().collect();
        let mut random = 1_u64;
        for _ in 0..20_000 {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            let mut pick = random >> 11;
            let text: String = (0..random >> 60)
                .map(|_| {
                    let char = alphabet[pick as usize % alphabet.len()];
                    pick = pick.rotate_right(7).wrapping_mul(3);
                    char
                })
                .collect();
            let (_, _, _) = (number::<u32>(&text), number::<i64>(&text), flag(&text));
            if let Some(words) = bits_256(&text) {
                assert!(text.len() < 90, "{text:?} was read as {words:x?}");
            }
            let _ = hex(&text);
        }
    }
}
