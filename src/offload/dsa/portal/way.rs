//! The three ways from an opened node to a portal.

use std::fs::File;
use std::io;

use super::Portal;
use super::enqcmd::Enqueued;
use super::mapped::Mapped;
use super::page::Page;
use super::state::StateSource;
use super::write::Written;
use crate::arch::{Enqcmd, Movdir64b};

/// How descriptors get into a queue. `P` is the mapped page; a parameter, so that the choice can be made over anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way<P> {
    Movdir64b(P, Movdir64b),
    Enqcmd(P, Enqcmd),
    Write,
}

impl<P> Way<P> {
    /// Whether descriptors go to a mapped page, past the kernel and what it refuses.
    pub(crate) fn is_mapped(&self) -> bool {
        !matches!(self, Self::Write)
    }
}

/// Maps the portal of an opened node.
///
/// # Errors
/// EPERM: the kernel wants CAP_SYS_RAWIO for it. Others: it is no node of a queue.
pub(crate) fn map(node: &File) -> io::Result<Page> {
    Page::map(node)
}

/// The portal.
pub(crate) fn through(way: Way<Page>, node: File, state: Box<dyn StateSource>) -> Box<dyn Portal> {
    match way {
        Way::Movdir64b(page, token) => Box::new(Mapped::new(page, node, token, state)),
        Way::Enqcmd(page, token) => Box::new(Enqueued::new(page, node, token, state)),
        Way::Write => Box::new(Written::new(node, state)),
    }
}
