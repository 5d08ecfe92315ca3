//! The form of an answer of the table service, as far as the request has been read.
//!
//! What the answer needs beside the outcome (the format, the table's name as it was written, `$select`, the parts of a batch) goes
//! in here, step by step, so that an error at any step is written in the right form.

use std::borrow::Cow;

use http::{HeaderMap, header};
use tavola_model::{ErrorCode, Query, ServiceError, TableName};

use super::format::{DATA_SERVICE_VERSION_MAX, Format, Preference, data_service_version, negotiate};
use super::route::Unroutable;
use super::select::Select;
use crate::reply::{Reply, text};
use crate::version::ApiVersion;

/// The form of an answer.
#[derive(Clone, Debug, Default)]
pub struct Form {
    /// How entities, tables and OData errors are written.
    pub style: Style,
    /// Which layer of the service answers.
    pub layer: Layer,
    /// The table as the request writes it.
    pub table: Option<TableName>,
    /// Which properties are wanted.
    pub select: Select,
    /// A create or an insert, to which `Prefer` applies.
    pub creates: bool,
    /// The request is a batch.
    pub batch: Option<BatchForm>,
    format_refusal: Option<ServiceError>,
}

/// How one answer, or one part of a batch, is written.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    /// JSON or Atom.
    pub format: Format,
    /// Whether a create or insert is answered with its content.
    pub prefer: Option<Preference>,
    /// `DataServiceVersion` of the request, down to its number: `3.0` or `2.0` or `1.0`.
    pub data_service_version: &'static str,
}

impl Default for Style {
    fn default() -> Self {
        Self { format: Format::Atom, prefer: None, data_service_version: DATA_SERVICE_VERSION_MAX }
    }
}

impl Form {
    /// Reads how the request wants to be answered. What cannot be given is refused later, by `check_format`.
    pub fn of(headers: &HeaderMap, query: &Query<'_>, version: &ApiVersion) -> Self {
        let (format, format_refusal) = match negotiate(query.get("$format"), text(headers, header::ACCEPT)) {
            Ok(Format::Json(_)) if !version.is_at_least(ApiVersion::JSON) => {
                (Format::Atom, Some(ErrorCode::JsonFormatNotSupported.into()))
            }
            Ok(format) => (format, None),
            Err(error) => (Format::Atom, Some(error)),
        };
        let prefer = Preference::of(headers);
        let style = Style { format, prefer, data_service_version: data_service_version(headers) };
        Self { style, format_refusal, ..Self::default() }
    }

    /// Notes who refuses a request that has no route, and gives the error.
    pub fn refuse(&mut self, unroutable: Unroutable) -> ServiceError {
        self.layer = match (unroutable.before_service, unroutable.front_end) {
            (true, _) => Layer::Gateway,
            (false, true) => Layer::FrontEnd,
            (false, false) => Layer::Unresolved,
        };
        unroutable.error
    }

    /// Refuses a form of answer that cannot be given; only the OData layer asks.
    pub(crate) fn check_format(&self) -> Result<(), ServiceError> {
        self.format_refusal.clone().map_or(Ok(()), Err)
    }
}

/// Which layer of the service writes an error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layer {
    /// Not routed yet: the gateway, or the authentication in front of the service.
    #[default]
    Gateway,
    /// The front end of the service: settings and access policies.
    FrontEnd,
    /// The OData layer, before the resource was resolved.
    Unresolved,
    /// The OData layer.
    OData,
}

/// The parts of a batch, for the answer.
#[derive(Clone, Debug)]
pub struct BatchForm {
    /// The batch holds one query and no change set.
    pub query: bool,
    /// One form a part, in order.
    pub parts: Vec<PartForm>,
}

/// How one part of a batch is answered.
#[derive(Clone, Debug)]
pub struct PartForm {
    /// Format and preference of this part.
    pub style: Style,
    /// The base of its links, where its URI names one of its own.
    pub base: Option<String>,
    /// `Content-ID` to echo.
    pub content_id: Option<String>,
    /// An insert, to which `Prefer` applies.
    pub creates: bool,
    /// Its URI named a table and an entity.
    pub resolved: bool,
}

impl PartForm {
    /// The reply of the whole, with the base of this part's links.
    pub fn reply<'a>(&self, whole: &'a Reply) -> Cow<'a, Reply> {
        match &self.base {
            Some(base) => Cow::Owned(Reply { base: base.clone(), ..whole.clone() }),
            None => Cow::Borrowed(whole),
        }
    }
}
