//! Joining the generations of a page blob.
//!
//! Every snapshot and every large clear begins a generation. When no snapshot needs two neighbours apart any more, the
//! cells of the newer one move into the older one, a few in each transaction, and the record forgets the newer one. A
//! cell always moves to where it is looked for later, so whoever reads or writes meanwhile finds it. The newest
//! generation is left alone: cells are being written to it.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use tavola_engine::{Change, ContentId};

use super::Blobs;
use super::cell::Cell;
use super::change::{BlobLocation, put_record, record_in};
use super::pages::scan_cells;
use super::prepare::{STEP_BYTES_MAX, STEP_ROWS_MAX};
use super::record::Body;
use super::rows::{RECORD_ROW, damaged, page_row};
use crate::failure::Failure;

/// Two generations of a blob that can be one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pair {
    newer: u64,
    older: u64,
    /// Nothing is looked for behind the older one.
    is_oldest: bool,
}

impl Blobs {
    /// Joins what can be joined, behind the answer.
    pub fn fold_later(self: &Arc<Self>, location: &BlobLocation) {
        let (blobs, location) = (self.clone(), location.clone());
        tokio::spawn(async move {
            if let Err(error) = blobs.fold(&location).await {
                tracing::debug!(%error, "generations of a page blob are left to the scrubber");
            }
        });
    }

    /// Joins generations of a page blob that no snapshot keeps apart.
    pub async fn fold(&self, location: &BlobLocation) -> Result<(), Failure> {
        loop {
            let Some(record) = self.record(location).await? else { return Ok(()) };
            let Body::Pages { generations, .. } = &record.body else { return Ok(()) };
            if generations.len() < 3 {
                return Ok(());
            }
            let mut earlier = Vec::new();
            self.visit_earlier(location, |_, state| {
                earlier.push(state.record.body.generations().to_vec());
                ControlFlow::Continue(())
            })
            .await?;
            let Some(pair) = pair(generations, &earlier) else { return Ok(()) };
            while self.move_cells(location, pair).await? {}
        }
    }

    /// Moves some cells; whether there may be more. The last time, the record forgets the generation that they have left.
    async fn move_cells(&self, location: &BlobLocation, pair: Pair) -> Result<bool, Failure> {
        let (mut cells, mut bytes) = (Vec::new(), 0);
        scan_cells(self.engine.as_ref(), location, pair.newer, 0..u64::MAX, |number, body| {
            cells.push(number);
            bytes += body.len();
            if cells.len() < STEP_ROWS_MAX / 2 && bytes < STEP_BYTES_MAX / 2 {
                return ControlFlow::Continue(());
            }
            ControlFlow::Break(Ok(()))
        })
        .await?;
        let newer = cells.iter().map(|cell| page_row(pair.newer, *cell));
        let older = cells.iter().map(|cell| page_row(pair.older, *cell));
        let names: Vec<Vec<u8>> = newer.chain(older).collect();
        let mut rows: Vec<&[u8]> = vec![RECORD_ROW];
        rows.extend(names.iter().map(Vec::as_slice));
        let decode = |body: &[u8]| Cell::decode(body).ok_or_else(|| damaged(location.space));
        let (replaced, goes_on) = self
            .transact(location, &rows, |_, rows| {
                let (mut changes, mut replaced) = (Vec::new(), HashMap::new());
                let Some(mut record) = record_in(location, &rows[0])? else {
                    return Ok((changes, (replaced, false)));
                };
                let Body::Pages { generations, .. } = &mut record.body else {
                    return Ok((changes, (replaced, false)));
                };
                let is_pair = |two: &[u64]| two == [pair.newer, pair.older];
                if !generations.windows(2).any(is_pair) {
                    return Ok((changes, (replaced, false)));
                }
                for (at, cell) in cells.iter().enumerate() {
                    let (newer, older) = (1 + at, 1 + cells.len() + at);
                    let Some(row) = &rows[newer] else { continue };
                    let kept = decode(&row.body)?;
                    let hidden = rows[older].as_ref().map(|row| decode(&row.body)).transpose()?;
                    let named: HashSet<ContentId> = kept.contents().collect();
                    let gone = hidden.iter().flat_map(|hidden| hidden.placed_contents(*cell));
                    replaced.extend(gone.filter(|(id, _)| !named.contains(id)));
                    changes.push(Change::Delete { index: newer });
                    if !kept.is_empty() || !pair.is_oldest {
                        changes.push(Change::Put { index: older, body: row.body.clone() });
                    } else if hidden.is_some() {
                        changes.push(Change::Delete { index: older });
                    }
                }
                if cells.is_empty() {
                    generations.retain(|generation| *generation != pair.newer);
                    changes.push(put_record(0, &record));
                }
                Ok((changes, (replaced, !cells.is_empty())))
            })
            .await?;
        for (content, cells) in replaced {
            self.drop_if_replaced(location, content, cells).await?;
        }
        Ok(goes_on)
    }
}

/// The first two neighbours, the newest left out, of which every earlier state has both or none.
fn pair(generations: &[u64], earlier: &[Vec<u64>]) -> Option<Pair> {
    let has_both_or_none =
        |two: &[u64]| earlier.iter().all(|state| state.contains(&two[0]) == state.contains(&two[1]));
    let older = generations.get(1..)?;
    let two = older.windows(2).find(|two| has_both_or_none(two))?;
    let (newer, older) = (two[0], two[1]);
    let ends_there = |state: &[u64]| !state.contains(&older) || state.last() == Some(&older);
    let is_oldest = ends_there(generations) && earlier.iter().all(|state| ends_there(state));
    Some(Pair { newer, older, is_oldest })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_joined_that_no_earlier_state_keeps_apart() {
        let check = |generations: &[u64], earlier: &[&[u64]], expected: Option<(u64, u64, bool)>| {
            let earlier: Vec<Vec<u64>> = earlier.iter().map(|state| state.to_vec()).collect();
            let found = pair(generations, &earlier).map(|pair| (pair.newer, pair.older, pair.is_oldest));
            assert_eq!(found, expected, "{generations:?} {earlier:?}");
        };
        check(&[1], &[], None);
        check(&[2, 1], &[], None);
        check(&[3, 2, 1], &[], Some((2, 1, true)));
        check(&[3, 2, 1], &[&[2, 1]], Some((2, 1, true)));
        check(&[3, 2, 1], &[&[1]], None);
        check(&[4, 3, 2, 1], &[&[1]], Some((3, 2, false)));
        check(&[4, 3, 2, 1], &[&[2, 1]], Some((2, 1, true)));
        check(&[4, 3, 2, 1], &[&[2, 1], &[1]], None);
    }
}
