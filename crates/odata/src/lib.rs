//! The query language of the Table service, both ways: `$filter`, `$select` and key predicates.
//!
//! The grammar, its error texts and its positions are those of the OData library the real service is built
//! on, where recordings show them. Nothing here recurses: nesting costs memory in proportion to the text.
//!
//! ```
//! use tavola_odata::{parse_filter, write_filter};
//! let filter = parse_filter("'Sales' eq PartitionKey and not (Age lt 18)").unwrap().unwrap();
//! assert_eq!(write_filter(&filter), "PartitionKey eq 'Sales' and not (Age lt 18)");
//! ```

mod compare;
mod error;
mod filter;
mod lexer;
mod literal;
mod predicate;
mod select;
mod write;

pub use compare::{compare, holds};
pub use filter::parse_filter;
pub use predicate::{KeyPredicate, parse_key_predicate};
pub use select::parse_select;
pub use write::write_filter;
