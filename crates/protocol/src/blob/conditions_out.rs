//! Conditions as a client sends them.

use tavola_model::{
    AppendConditions, BlobConditions, ContainerConditions, ErrorCode, EtagMatch, ServiceError, TagComparison,
    TagFilter, TransferSums, VersionConditions,
};

use super::headers::{write_crc64, write_md5};
use crate::request::Request;

pub(super) fn with_blob_conditions(
    request: Request,
    conditions: &BlobConditions,
) -> Result<Request, ServiceError> {
    with_versions(request, &conditions.version)?
        .with_optional_text("x-ms-if-tags", conditions.if_tags.as_ref().map(write_tag_filter))?
        .with_optional_text("x-ms-lease-id", conditions.lease.map(|id| id.to_string()))
}

pub(super) fn with_container_conditions(
    request: Request,
    conditions: &ContainerConditions,
) -> Result<Request, ServiceError> {
    with_versions(request, &conditions.version)?
        .with_optional_text("x-ms-lease-id", conditions.lease.map(|id| id.to_string()))
}

fn with_versions(request: Request, conditions: &VersionConditions) -> Result<Request, ServiceError> {
    let VersionConditions { if_match, if_none_match, if_modified_since, if_unmodified_since } = conditions;
    request
        .with_optional_text("if-match", if_match.as_ref().map(write_etag).transpose()?)?
        .with_optional_text("if-none-match", if_none_match.as_ref().map(write_etag).transpose()?)?
        .with_optional_text("if-modified-since", if_modified_since.map(|time| time.to_rfc1123()))?
        .with_optional_text("if-unmodified-since", if_unmodified_since.map(|time| time.to_rfc1123()))
}

/// A text that no version has cannot be sent: it is not known any more.
fn write_etag(etag: &EtagMatch) -> Result<String, ServiceError> {
    match etag {
        EtagMatch::Any => Ok("*".to_owned()),
        EtagMatch::Is(etag) => Ok(etag.quoted()),
        EtagMatch::Foreign => Err(ErrorCode::InvalidHeaderValue.into()),
        EtagMatch::OneOf(etags) => Ok(etags.iter().map(|etag| etag.quoted()).collect::<Vec<_>>().join(", ")),
    }
}

pub(super) fn with_append_conditions(
    request: Request,
    append: &AppendConditions,
) -> Result<Request, ServiceError> {
    let text = |number: Option<u64>| number.map(|number| number.to_string());
    request
        .with_optional_text("x-ms-blob-condition-appendpos", text(append.position))?
        .with_optional_text("x-ms-blob-condition-maxsize", text(append.length_max))
}

pub(super) fn with_sums(request: Request, sums: &TransferSums) -> Result<Request, ServiceError> {
    request
        .with_optional_text("content-md5", sums.md5.map(write_md5))?
        .with_optional_text("x-ms-content-crc64", sums.crc64.map(write_crc64))
}

/// The text of a condition on tags; trees are no deeper than their parser allows.
pub(super) fn write_tag_filter(filter: &TagFilter) -> String {
    let joined = |parts: &[TagFilter], word: &str| {
        format!("({})", parts.iter().map(write_tag_filter).collect::<Vec<_>>().join(word))
    };
    match filter {
        TagFilter::Compare { name, comparison, value } => {
            let sign = match comparison {
                TagComparison::Equal => "=",
                TagComparison::NotEqual => "<>",
                TagComparison::Less => "<",
                TagComparison::LessOrEqual => "<=",
                TagComparison::Greater => ">",
                TagComparison::GreaterOrEqual => ">=",
            };
            format!("\"{name}\" {sign} '{value}'")
        }
        TagFilter::And(parts) => joined(parts, " AND "),
        TagFilter::Or(parts) => joined(parts, " OR "),
    }
}
