//! What every step reads of a request before its body.

use tavola_model::{Address, Query};

use crate::receive::Received;

/// The head of a request, with what is read from it once for all steps.
#[derive(Clone, Copy)]
pub(crate) struct Head<'a> {
    pub received: &'a Received,
    pub query: &'a Query<'a>,
    pub address: &'a Address<'a>,
}
