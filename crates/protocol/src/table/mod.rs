//! The bodies of the table service, in and out.

pub mod atom_in;
pub mod atom_out;
pub mod batch_in;
pub mod batch_out;
pub mod body;
pub mod change_set;
pub mod json_in;
pub mod json_out;
pub mod link;
pub mod select;
pub mod write_in;

#[cfg(test)]
mod round_trip;
