//! An outcome or an error to the response that carries it.
//!
//! An outcome is written by the service that it belongs to, an error in the form of the service that was asked.

use http::HeaderValue;
use tavola_model::{DateTime, Guid, Outcome, ServiceError, StorageService};

use crate::answer::{CorsHeaders, Sender, finish};
use crate::reply::Reply;
use crate::response::Response;
use crate::table::Form;
use crate::{account, blob, queue, table};

/// Encodes the result of a request to a service. `ids` are fresh random guids for the boundaries of a batch.
pub fn encode(
    service: StorageService,
    reply: &Reply,
    form: &Form,
    result: &Result<Outcome, ServiceError>,
    cors: Option<&CorsHeaders>,
    now: DateTime,
    ids: [Guid; 2],
) -> Response {
    let (mut response, sender) = match result {
        Ok(outcome) => {
            let response = match outcome {
                Outcome::Account(outcome) => account::encode(service, &reply.version, outcome),
                Outcome::Table(outcome) => table::encode_outcome(reply, form, outcome, now, ids),
                Outcome::Queue(outcome) => queue::encode_outcome(reply, outcome),
                Outcome::Blob(outcome) => blob::encode_outcome(reply, outcome, now, ids),
            };
            (response, Sender::Service(server(service)))
        }
        Err(error) => match service {
            StorageService::Table => {
                (table::encode_error(reply, form, error, now, ids), table::sender_of(form, error.code))
            }
            StorageService::Queue => (queue::encode_error(reply, error, now), queue::sender_of(error.code)),
            StorageService::Blob => (blob::encode_error(reply, error, now), blob::sender_of(error)),
        },
    };
    finish(&mut response, reply, sender, cors, now);
    response
}

fn server(service: StorageService) -> &'static HeaderValue {
    match service {
        StorageService::Table => &table::SERVER,
        StorageService::Queue => &queue::SERVER,
        StorageService::Blob => &blob::SERVER,
    }
}
