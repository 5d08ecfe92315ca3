//! HTTP messages to commands and outcomes to HTTP messages, for a server; requests to HTTP messages and HTTP messages
//! to answers, for a client.
//!
//! The only crate that knows the wire formats: query options, JSON, Atom, XML, multipart batches, headers and their
//! case. What all services share is at the top; `table`, `queue` and `blob` have the same steps (`route`, `decode`, `encode`)
//! and never import from each other. Of a client's steps, `request_out` writes strictly and `answer_in` reads leniently.
//!
//! ```
//! use http::{HeaderMap, StatusCode};
//! use tavola_model::{EdmValue, EntityKey, Key, TableName};
//! use tavola_protocol::{Answer, table};
//!
//! let people = TableName::parse("People").unwrap();
//! let key = EntityKey { partition: Key::parse("Sales").unwrap(), row: Key::parse("O'Hara").unwrap() };
//! let request = table::get_entity(&people, &key, &[]);
//! assert_eq!(request.target("/acct"), "/acct/People(PartitionKey='Sales',RowKey='O%27%27Hara')");
//!
//! let body = br#"{"PartitionKey":"Sales","RowKey":"O'Hara","Pay@odata.type":"Edm.Int64","Pay":"5"}"#;
//! let answer = Answer { status: StatusCode::OK, headers: &HeaderMap::new(), body };
//! assert_eq!(table::entity_fetched(&answer).unwrap().get("Pay"), Some(EdmValue::Int64(5)));
//! ```

pub mod account;
mod answer;
mod answer_in;
pub mod blob;
mod body_kind;
mod encode;
mod error_in;
mod metadata;
mod multipart;
mod parameters;
pub mod queue;
mod reply;
mod request;
mod response;
mod status;
pub mod table;
mod version;
mod xml;

pub use account::AccountRoute;
pub use answer::CorsHeaders;
pub use answer_in::{Answer, AnswerCode, AnswerError, Refusal};
pub use body_kind::BodyKind;
pub use encode::encode;
pub use reply::Reply;
pub use request::Request;
pub use response::Response;
pub use status::status;
pub use table::Form;
pub use version::ApiVersion;
