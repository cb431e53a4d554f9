//! The three ways from an opened node to a portal.

use std::io;
use std::path::Path;

use super::Portal;
use super::enqcmd::Enqueued;
use super::mapped::Mapped;
use super::page::Page;
use super::private::{open_node, with_own_descriptors};
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

/// Why there is no mapped page.
#[derive(Debug)]
pub(crate) enum NotMapped {
    /// The node could not be opened.
    Opened(io::Error),
    /// It was, and could not be mapped. EPERM: the kernel wants CAP_SYS_RAWIO for it. Others: it is no node of a queue.
    Mapped(io::Error),
}

/// Opens a queue's node and maps its portal. The node is closed again: the mapping keeps the queue open, and no child has it.
pub(crate) fn map(node: &Path) -> Result<Page, NotMapped> {
    let map = || Page::map(&open_node(node).map_err(NotMapped::Opened)?).map_err(NotMapped::Mapped);
    match with_own_descriptors(map) {
        Ok(mapped) => mapped,
        // Without a table of its own, a child that is made meanwhile has the queue open, which the page remembers.
        Err(_) => map().map(Page::maybe_inherited),
    }
}

/// The portal. `node` is opened for a way that has no page.
///
/// # Errors
/// That failed.
pub(crate) fn through(way: Way<Page>, node: &Path, state: Box<dyn StateSource>) -> io::Result<Box<dyn Portal>> {
    Ok(match way {
        Way::Movdir64b(page, token) => Box::new(Mapped::new(page, token, state)),
        Way::Enqcmd(page, token) => Box::new(Enqueued::new(page, token, state)),
        Way::Write => Box::new(Written::new(open_node(node)?, node, state)),
    })
}
