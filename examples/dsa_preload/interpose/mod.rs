//! The functions that the program calls instead of libc's.

mod memory;
mod nodes;
mod paths;
mod signals;
