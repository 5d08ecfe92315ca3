//! Reading blobs: content, properties, metadata, tags.

use std::ops::Range;
use std::sync::Arc;

use bytes::BytesMut;
use tavola_engine::{ByteSource, BytesSource};
use tavola_model::{
    AccessTier, AccountName, BlobConditions, BlobGot, BlobMoment, BlobProperties, BlobTarget, BlobVersion,
    ByteRange, ErrorCode, GetBlob, GotRange, RANGE_SUM_BYTES_MAX, RangeSum, ServiceError,
};

use super::Blobs;
use super::change::BlobLocation;
use super::conditions::check_read;
use super::pieces::{Data, PieceSource, select};
use super::range_source::Rows;
use super::record::{Body, Record};
use super::reservation::AnswerReservation;
use super::sums::Sums;
use crate::failure::Failure;
use crate::service::AnswerBudget;

/// How often a read starts over because the blob was replaced under its hands.
const ATTEMPTS_MAX: usize = 8;

/// What is read of a blob, before its bytes.
pub(crate) type BlobStream = Box<dyn ByteSource>;

impl Blobs {
    pub async fn get_blob(
        &self,
        account: &AccountName,
        get: GetBlob,
        budget: Option<Arc<dyn AnswerBudget>>,
    ) -> Result<(BlobGot, BlobStream), Failure> {
        let location = self.location(account, &get.target.path).await?;
        for _ in 0..ATTEMPTS_MAX {
            let (mut properties, body) = self.read_shown(&location, &get.target, &get.conditions).await?;
            if properties.tier.is_some_and(|shown| shown.tier == AccessTier::Archive) {
                return Err(ErrorCode::BlobArchived.into());
            }
            let range = get.range.map(|range| resolve_range(range, properties.length)).transpose()?;
            let bytes = range.map_or(0..properties.length, |range| range.first..range.first + range.length);
            if get.range_sum.is_some() && bytes.end - bytes.start > RANGE_SUM_BYTES_MAX {
                return Err(range_sum_refusal(get.range_sum).into());
            }
            // A range is held as a whole while its sum is counted, and until it is sent.
            let held = usize::try_from(bytes.end - bytes.start).unwrap_or(usize::MAX);
            if get.range_sum.is_some() && !AnswerReservation::new(budget.clone()).take(held) {
                return Err(ErrorCode::ServerBusy.into());
            }
            let mut content = match self.open(&location, get.target.moment, &body, bytes).await {
                // It was replaced, and what it was is gone.
                Err(failure) if failure.is_content_missing() => continue,
                opened => opened?,
            };
            let (mut range_md5, mut range_crc64) = (None, None);
            if let Some(sum) = get.range_sum {
                let whole = match gather(content.as_mut()).await {
                    Err(failure) if failure.is_content_missing() => continue,
                    whole => whole?,
                };
                let sums = Sums::of(&whole, sum == RangeSum::Md5);
                match sum {
                    RangeSum::Md5 => range_md5 = sums.md5,
                    RangeSum::Crc64 => range_crc64 = Some(sums.crc64),
                }
                content = Box::new(BytesSource::new([whole]));
            }
            properties.headers = properties.headers.overridden_by(&get.overrides);
            let got = BlobGot { properties, range, range_md5, range_crc64 };
            return Ok((got, content));
        }
        Err(Failure::changed_meanwhile())
    }

    pub async fn get_properties(
        &self,
        account: &AccountName,
        target: &BlobTarget,
        conditions: &BlobConditions,
    ) -> Result<BlobProperties, Failure> {
        let location = self.location(account, &target.path).await?;
        Ok(self.read_shown(&location, target, conditions).await?.0)
    }

    /// The state of a blob that is meant, if the conditions are met.
    pub async fn read_state(
        &self,
        location: &BlobLocation,
        target: &BlobTarget,
        conditions: &BlobConditions,
    ) -> Result<Record, Failure> {
        let record = self.state(location, target).await?;
        check_read(conditions, &record, self.clock.now())?;
        Ok(record)
    }

    /// The same, as properties show it, and where its bytes are.
    async fn read_shown(
        &self,
        location: &BlobLocation,
        target: &BlobTarget,
        conditions: &BlobConditions,
    ) -> Result<(BlobProperties, Body), Failure> {
        let record = self.read_state(location, target, conditions).await?;
        let (mut properties, body) = record.show(self.clock.now());
        match target.moment {
            BlobMoment::Current => {}
            BlobMoment::Snapshot(_) => properties.lease = None,
            // The lease is that of the blob, even where its version is the current one (recorded).
            BlobMoment::Version(id) => {
                let current = self.record(location).await?.and_then(|current| current.version);
                let is_current = current == Some(id);
                properties.version = Some(BlobVersion { id, is_current });
                properties.lease = None;
            }
        }
        Ok((properties, body))
    }

    /// The bytes of a range of the body of a state. What is missing at its beginning is an error now.
    pub async fn open(
        &self,
        location: &BlobLocation,
        moment: BlobMoment,
        body: &Body,
        range: Range<u64>,
    ) -> Result<BlobStream, Failure> {
        let rows = match body {
            Body::Data(Data::Inline(bytes)) => {
                let at = |at: u64| usize::try_from(at).expect("a row is small");
                return Ok(Box::new(BytesSource::new([bytes.slice(at(range.start)..at(range.end))])));
            }
            Body::Data(data) => {
                let parts = select([data], range);
                let source = PieceSource::open(self.contents.clone(), location.space, parts).await?;
                return Ok(Box::new(source));
            }
            Body::Pieces { .. } => {
                let (rows, at) = self.pieces_from(location, body, range.start).await?;
                Rows::Pieces { rows, at }
            }
            Body::Pages { generations, .. } => Rows::Pages { generations: generations.clone(), moment },
        };
        self.open_rows(location, rows, range).await
    }
}

/// The bytes of a range that are there. One that begins behind the end has none.
pub(crate) fn resolve_range(range: ByteRange, length: u64) -> Result<GotRange, ServiceError> {
    if range.first >= length {
        return Err(ServiceError::invalid_range(length));
    }
    let last = range.last.map_or(length - 1, |last| last.min(length - 1));
    Ok(GotRange { first: range.first, length: last - range.first + 1 })
}

fn range_sum_refusal(sum: Option<RangeSum>) -> ServiceError {
    let name = match sum {
        Some(RangeSum::Crc64) => "x-ms-range-get-content-crc64",
        _ => "x-ms-range-get-content-md5",
    };
    ServiceError::with_message(ErrorCode::InvalidHeaderValue, ErrorCode::InvalidHeaderValue.message())
        .with_detail("HeaderName", name)
        .with_detail("HeaderValue", "true")
}

/// All bytes of a source that has few.
pub(crate) async fn gather(source: &mut dyn ByteSource) -> Result<bytes::Bytes, Failure> {
    let mut whole = BytesMut::new();
    let failed = |error| Failure::of_source(error).of_stored_source();
    while let Some(piece) = source.next().await.map_err(failed)? {
        whole.extend_from_slice(&piece);
    }
    Ok(whole.freeze())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_cut_at_the_end_and_one_behind_it_is_invalid() {
        let check = |first, last, length, expected: Option<(u64, u64)>| {
            let found = resolve_range(ByteRange { first, last }, length).ok();
            assert_eq!(found.map(|range| (range.first, range.length)), expected, "{first} {last:?}");
        };
        check(0, None, 18, Some((0, 18)));
        check(5, None, 18, Some((5, 13)));
        check(0, Some(0), 18, Some((0, 1)));
        check(17, Some(17), 18, Some((17, 1)));
        check(0, Some(33_554_431), 18, Some((0, 18)));
        check(18, None, 18, None);
        check(0, None, 0, None);
        check(u64::MAX, Some(u64::MAX), 18, None);
    }
}
